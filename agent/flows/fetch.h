// Fetcher brings blocks from other nodes to host memory: locate, plan, fetch, verify, publish. The
// coordinator's answer is a hint and the peer's word is checked byte by byte. Blocks that one
// holder did not bring are asked of the next one while there is time; blocks that none brought are
// misses.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_FETCH_H_
#define KVTIER_AGENT_FLOWS_FETCH_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/load_table.h"
#include "agent/peers/coordinator_reporter.h"
#include "agent/peers/locate_patience.h"
#include "agent/peers/peer_standings.h"
#include "agent/peers/peer_transport.h"
#include "agent/peers/plan_fetch.h"
#include "agent/sessions/sessions.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/node.h"
#include "core/reuse_hint.h"
#include "core/task.h"
#include "core/task_scope.h"

namespace kvtier {

class Fetcher {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    LoadTable* loads = nullptr;  // Loads into host memory.
    AgentStats* stats = nullptr;
    const TenantTable* tenants = nullptr;
    const CoordinatorReporter* reporter = nullptr;  // Null: the agent runs alone.
    PeerTransport* transport = nullptr;
    absl::Duration locate_grace = kLocateGrace;  // Shortest wait for the coordinator.
  };
  Fetcher(const Parts& parts, NodeId self)
      : parts_(parts),
        self_(std::move(self)),
        standings_(parts.executor, parts.tenants),
        patience_(parts.locate_grace) {}

  // Returns which of the leading `keys`, or of all of them, other nodes are believed to hold. Empty
  // when nothing is known in time, and at once while the coordinator is silent.
  Task<LocateReply> Locate(std::vector<BlockKey> keys, LocateScope scope, absl::Time deadline);

  // Starts fetching run.keys[first..]. Returns one load for each block that a peer is asked for: of
  // a run the leading blocks, of a set any. Loads that cannot end by `deadline` are not started.
  Task<std::vector<SharedLoad>> Start(const BlockRun& run, size_t first, absl::Time deadline);

  const PeerStandings& standings() const { return standings_; }

 private:
  // Blocks on their way from other nodes, each with a load in the table.
  struct Sought {
    DomainId domain{};
    DomainId payer{};       // Domain whose share of the streams they take.
    uint64_t erasures = 0;  // Erasures of the domain when they were asked for.
    SpaceDigest space;
    BlockLengths lengths;  // Lengths that blocks of the space may have.
    absl::Time deadline;
    ReuseHint hint;  // Hint of the request that asks for them.
    std::vector<BlockKey> keys;
    LocateReply holders;  // Holders of each key that may still be asked for it.

    // Forgets the keys that nobody holds.
    void DropUnheld();
  };
  class Arrivals;  // The FetchSink of one fetch.

  std::vector<PeerRun> Plan(const Sought& sought);
  // Returns whether the block is not in host memory and nobody brings it there.
  bool IsFresh(const BlockKey& key) const;
  // Starts one fetch for each of `runs`.
  void StartFetches(const Sought& sought, const std::vector<PeerRun>& runs);
  Task<void> RunFetch(Sought sought, PeerRun from);
  // Updates the peer's standing by how the fetch for the tenant went.
  void Learn(const std::string& asked, DomainId payer, const Arrivals& arrivals,
             const absl::Status& status);
  // Asks the next holders for blocks that did not arrive, and ends the loads of blocks that no
  // holder is left for.
  void PassOn(Sought sought, const std::string& asked, const Arrivals& arrivals,
              const absl::Status& status);
  Task<void> VerifyAndPublish(BlockKey key, BlockProof proof, HostSlot slot, Arrivals* arrivals,
                              size_t index);

  const Parts parts_;
  const NodeId self_;
  PeerStandings standings_;
  LocatePatience patience_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_FETCH_H_

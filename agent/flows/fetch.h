// Fetcher brings blocks from other nodes to host memory: locate, plan, fetch, verify, publish. The
// coordinator's answer is a hint and the peer's word is checked: its proof of each block first,
// then the bytes. Blocks that one holder did not bring are asked of the next one while there is
// time, and when those that the coordinator named are used up, it is asked for others. Blocks for
// which no fetch is free wait for their turn (FetchLine). Blocks that did not come by the deadline
// are misses.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_FETCH_H_
#define KVTIER_AGENT_FLOWS_FETCH_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/flows/sought_blocks.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/load_table.h"
#include "agent/peers/coordinator_reporter.h"
#include "agent/peers/fetch_line.h"
#include "agent/peers/locate_patience.h"
#include "agent/peers/peer_standings.h"
#include "agent/peers/peer_transport.h"
#include "agent/peers/plan_fetch.h"
#include "agent/sessions/sessions.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/miss_reason.h"
#include "core/node.h"
#include "core/reuse_hint.h"
#include "core/seldom_log.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"

namespace kvtier {

class Fetcher {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
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
        line_({.executor = parts.executor,
               .scope = parts.scope,
               .waits = parts.waits,
               .tenants = parts.tenants,
               .standings = &standings_}),
        patience_(parts.locate_grace) {}

  // Returns which of the leading `keys` of the domain, or of all of them, other nodes are believed
  // to hold. Empty when nothing is known in time, and at once while the coordinator is silent.
  Task<LocateReply> Locate(DomainId domain, std::span<const BlockKey> keys, LocateScope scope,
                           absl::Time deadline);

  // Asker says how long a request waits.
  struct Asker {
    absl::Time deadline;
    absl::Time turn_by;  // Time until which it waits for a free fetch.
    // Returns whether the request is over. Null: the request waits for no free fetch.
    std::function<bool()> is_over = nullptr;
  };
  // Missed is the first block that other nodes may have and that is not brought.
  struct Missed {
    BlockKey key{};
    // kDeadline: no fetch was free in time, or none would end in time. kBusy: too many requests
    // wait already. kAbsent: no other node has it, or only one that failed lately.
    MissReason reason = MissReason::kAbsent;
    MissReason Of(const BlockKey& of) const { return of == key ? reason : MissReason::kAbsent; }
  };
  // Started says what Start() did.
  struct Started {
    // One load for each block that a peer is asked for: of a run the leading blocks, of a set any.
    std::vector<SharedLoad> loads;
    // Whether other nodes have more of the blocks, which may be started by another call.
    bool more = false;
    Missed missed{};  // Set if there are no loads, unless another asker brings the first block.
  };
  // Starts fetching run.keys[first..] as soon as a fetch is free. Ends by the asker's deadline;
  // loads that cannot end by then are not started.
  Task<Started> Start(const BlockRun& run, size_t first, Asker asker);

  const PeerStandings& standings() const { return standings_; }
  const FetchLine& line() const { return line_; }

 private:
  using Sought = SoughtBlocks;
  class Arrivals;  // The FetchSink of one fetch.

  const PeerNamer& NamerOf(DomainId domain) const {
    return *parts_.tenants->OfDomain(domain).peer_namer;
  }
  // Asks the coordinator, which names the avoided nodes and those of `tried` last. Errors: it is
  // not asked, or did not answer in time; kResourceExhausted, it is busy.
  Task<absl::StatusOr<LocateReply>> Ask(DomainId domain, std::span<const BlockKey> keys,
                                        LocateScope scope, absl::Time deadline,
                                        std::vector<NodeId> tried);
  // Asks the coordinator for holders besides those that are known of the blocks.
  Task<void> AskForOthers(Sought* sought);
  // Returns whether a holder of the first block, which has no fetch free now, could bring it in
  // time.
  bool MayComeLater(const Sought& sought);
  // Returns why the first block, for which no fetch was begun, does not come.
  MissReason WhyNotBegun(const Sought& sought);
  // Waits in the line for `ask`, whose payer and peers it fills in; returns kNone when it has
  // begun, else why it did not.
  Task<MissReason> AwaitTurn(const Sought& sought, FetchLine::Ask ask, absl::Time by);
  // Leaves as many of the blocks as there are places in the line; the others are missed.
  void Shorten(Sought* rest);
  // Starts what can be started of blocks without loads; returns the loads.
  std::vector<SharedLoad> Begin(const Sought& sought);
  // Starts what can be started of blocks that have loads, removes it from `rest`, and returns how
  // many blocks that was.
  size_t BeginRest(Sought* rest);
  std::vector<PeerRun> Plan(const Sought& sought);
  // Returns whether the block is not in host memory and nobody brings it there.
  bool IsFresh(const BlockKey& key) const;
  // Starts one fetch for each of `runs`.
  void StartFetches(const Sought& sought, const std::vector<PeerRun>& runs);
  Task<void> RunFetch(Sought sought, PeerRun from);
  // Updates the peer's standing by how the fetch for the tenant went.
  void Learn(const Holder& asked, DomainId payer, const Arrivals& arrivals,
             const absl::Status& status);
  // Asks the next holders for blocks that did not arrive, and ends the loads of blocks that no
  // holder is left for.
  Task<void> PassOn(Sought sought, const Holder& asked, const Arrivals& arrivals,
                    const absl::Status& status);
  // Ends the load of a block that no node brought.
  void Miss(const BlockKey& key, const absl::Status& why);
  Task<void> VerifyAndPublish(BlockMeta meta, HostSlot slot, Arrivals* arrivals, size_t index);
  // Counts and logs a block that is not what its sender, or this node, says it is.
  void Refuse(const absl::Status& why);

  const Parts parts_;
  const NodeId self_;
  PeerStandings standings_;
  FetchLine line_;
  LocatePatience patience_;
  SeldomLog refusals_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_FETCH_H_

// Fetcher brings blocks from other nodes to host memory: locate, plan, fetch,
// verify, publish. The coordinator's answer is a hint and the peer's word is
// checked byte by byte; whatever goes wrong is a miss.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FETCH_H_
#define KVTIER_AGENT_FETCH_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "agent/coordinator_link.h"
#include "agent/evict.h"
#include "agent/load_table.h"
#include "agent/peer_transport.h"
#include "agent/plan_fetch.h"
#include "agent/sessions.h"
#include "core/byte_workers.h"
#include "core/cost_model.h"
#include "core/node.h"
#include "core/task.h"
#include "core/task_scope.h"

namespace kvtier {

class Fetcher {
 public:
  struct Seams {
    Executor* executor = nullptr;
    ByteWorkers* workers = nullptr;
    CoordinatorLink* coordinator = nullptr;  // nullptr: the agent runs alone.
    PeerTransport* transport = nullptr;
  };
  // Does not own. `loads` is the node's table of loads into host memory.
  Fetcher(Seams seams, NodeId self, TaskScope* scope, BlockIndex* index, Evictor* evictor,
          LoadTable* loads, AgentStats* stats)
      : seams_(seams),
        self_(std::move(self)),
        scope_(scope),
        index_(index),
        evictor_(evictor),
        loads_(loads),
        stats_(stats) {}

  // Which of the leading `keys` other nodes are believed to hold. Empty when
  // nothing is known in time.
  Task<LocateReply> Locate(std::vector<BlockKey> keys, absl::Time deadline);

  // Starts fetching run.keys[first..]: one load for each leading block that a peer
  // is asked for. Loads that cannot end by `deadline` are not started.
  Task<std::vector<SharedLoad>> Start(const BlockRun& run, size_t first, absl::Time deadline);

 private:
  class Arrivals;  // The FetchSink of one fetch.
  Task<void> RunFetch(BlockRun run, PeerRun from, absl::Time deadline);
  Task<void> VerifyAndPublish(BlockKey key, BlockProof proof, HostSlot slot);
  // Forgets what is older than kPeerEstimateLifetime.
  TransferEstimate& EstimateFor(const std::string& address);

  const Seams seams_;
  const NodeId self_;
  TaskScope* const scope_;
  BlockIndex* const index_;
  Evictor* const evictor_;
  LoadTable* const loads_;
  AgentStats* const stats_;
  struct Measured {
    TransferEstimate estimate;
    absl::Time last;  // Of the transfers it was measured on; at first, of its making.
  };
  std::map<std::string, Measured> estimates_;  // By peer address.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FETCH_H_

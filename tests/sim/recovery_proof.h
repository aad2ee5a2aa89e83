// RecoveryProof is what must be true again once the faults have stopped: what is put
// is hit here, from disk after the host tier was emptied, from the other node, and
// after kill -9; and, where there are three nodes, from the next holder when one has
// stopped to serve its peers.
#ifndef KVTIER_TESTS_SIM_RECOVERY_PROOF_H_
#define KVTIER_TESTS_SIM_RECOVERY_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/task.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/trace.h"
#include "tests/testing/sim_network.h"

namespace kvtier::sim {

class RecoveryProof {
 public:
  // Owns none of them; `executor` is the workers'.
  RecoveryProof(const SimWorker::World& world, std::vector<SimNode*> nodes,
                testing::SimNetwork* network)
      : world_(world), nodes_(std::move(nodes)), network_(network) {}

  // REQUIRES: no fault is active and nobody holds anything. Ends; what does not
  // hold, the oracle is told.
  Task<void> Run();

 private:
  // Empties the node's host memory where that has to be: a full one may refuse what is new, or
  // drop it first.
  static void MakeRoomOn(SimNode* node);
  Task<void> ProveSpace(SimNode* node, SimNode* other, Identity identity);
  // Gets until all is hit, for as long as is allowed; the first try only, if that
  // is zero and the tenant's memory does not have to come back first.
  Task<void> ExpectHits(const char* where, SimWorker* worker, std::vector<EngineKey> keys,
                        absl::Duration allowed);
  // Stops one of two holders from serving its peers, while its heartbeats go on: the third node
  // must find the blocks at the other in its first get, and must not wait in the next.
  Task<void> ProveNextHolder(size_t first);
  Task<void> ProveWithout(testing::PeerService service, size_t stopped, size_t first);
  // A coordinator that accepts and does not answer costs a request for what is nowhere
  // little once, before its agent calls it silent, and then nothing.
  Task<void> ProveWithoutCoordinator();
  // Gets what nobody has; returns how long that took beside the way to the agent and back.
  Task<absl::Duration> TimeOfAMiss(SimWorker* worker);
  // Waits until no memory of the node is to move: what was lent goes back with its blocks.
  Task<void> AwaitMemory(SimNode* node);
  Task<void> AwaitOffload(SimNode* node);
  Task<void> AwaitService(SimNode* node);

  const SimWorker::World world_;
  const std::vector<SimNode*> nodes_;
  testing::SimNetwork* const network_;
  uint64_t fresh_ = 0;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_RECOVERY_PROOF_H_

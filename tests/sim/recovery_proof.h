// RecoveryProof checks what must be true again when the faults have stopped. Blocks that are put
// are hit on this node, from disk after host memory was emptied, from the other node, and after
// kill -9. With three nodes, they are also hit at the next holder when one has stopped serving its
// peers.
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
  // Makes a proof, which owns none of these. `executor` is the workers'.
  RecoveryProof(const SimWorker::World& world, std::vector<SimNode*> nodes,
                testing::SimNetwork* network)
      : world_(world), nodes_(std::move(nodes)), network_(network) {}

  // Runs the proof to its end, and tells the oracle of what does not hold. REQUIRES: no fault is
  // active and nobody holds a block.
  Task<void> Run();

 private:
  // Empties the node's host memory if necessary: when it is full, it may refuse new blocks, or drop
  // them first.
  static void MakeRoomOn(SimNode* node);
  Task<void> ProveSpace(SimNode* node, SimNode* other, Identity identity);
  // Gets the blocks until all are hit, for at most `allowed`. If that is zero, gets them only once,
  // unless memory of the tenant has to come back first.
  Task<void> ExpectHits(const char* where, SimWorker* worker, std::vector<EngineKey> keys,
                        absl::Duration allowed);
  // Stops one of two holders from serving its peers, while its heartbeats go on: the third node
  // must find the blocks at the other in its first get, and must not wait in the next.
  Task<void> ProveNextHolder(size_t first);
  Task<void> ProveWithout(testing::PeerService service, size_t stopped, size_t first);
  // Proves that a coordinator that accepts calls and does not answer costs little: one short wait
  // for a block that no node has, until the agent calls it silent, and then nothing.
  Task<void> ProveWithoutCoordinator();
  // Gets blocks that no node has; returns how long that took without the way to the agent and back.
  Task<absl::Duration> TimeOfAMiss(SimWorker* worker);
  // Waits until no memory of the node is to move, because lent memory has gone back with its
  // blocks.
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

// BurstProof is what must be true of a burst beyond host memory: what was acknowledged is
// found while the disks have room, though they stalled for a while and an operator evicted
// what nobody holds. It is for nodes that write everything at commit, with disks in service.
#ifndef KVTIER_TESTS_SIM_BURST_PROOF_H_
#define KVTIER_TESTS_SIM_BURST_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/task.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

class BurstProof {
 public:
  // Owns none of `world`; `executor` is the workers'.
  BurstProof(const SimWorker::World& world, uint64_t seed) : world_(world), random_(seed) {}

  // REQUIRES: no fault is active and nobody holds anything. Ends; what does not hold, the
  // oracle is told.
  Task<void> Run(SimNode* node);

 private:
  struct Putter;  // A worker and what it puts.
  Task<void> PutInPieces(Putter* putter);

  const SimWorker::World world_;
  testing::SimRandom random_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_BURST_PROOF_H_

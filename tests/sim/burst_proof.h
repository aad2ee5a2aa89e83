// BurstProof checks a burst that is larger than host memory: while the disks have room, every
// acknowledged block is found, though the disks stalled for a while and an operator evicted the
// blocks that nobody holds. It is for nodes with disks in service that write every block at its
// commit.
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
  // Makes a proof, which owns nothing of `world`. `world.executor` is that of the workers.
  BurstProof(const SimWorker::World& world, uint64_t seed) : world_(world), random_(seed) {}

  // Runs the proof to its end, and tells the oracle of what does not hold. REQUIRES: no fault is
  // active and nobody holds a block.
  Task<void> Run(SimNode* node);

 private:
  struct Putter;  // A worker and what it puts.
  Task<void> PutInPieces(Putter* putter);

  const SimWorker::World world_;
  testing::SimRandom random_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_BURST_PROOF_H_

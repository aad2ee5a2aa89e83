// SimCoordinator is the coordinator's process: the real Coordinator, which forgets everything when
// it dies.
#ifndef KVTIER_TESTS_SIM_SIM_COORDINATOR_H_
#define KVTIER_TESTS_SIM_SIM_COORDINATOR_H_

#include <cstdint>
#include <memory>

#include "coordinator/coordinator.h"
#include "core/task_scope.h"
#include "tests/sim/trace.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_network.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

class SimCoordinator {
 public:
  // Makes a coordinator, which owns none of these parts of the world.
  SimCoordinator(testing::SimTime* time, testing::SimNetwork* network, Trace* trace, uint64_t seed);
  ~SimCoordinator();

  void Boot();   // REQUIRES: not running.
  void Crash();  // REQUIRES: running.
  bool running() const { return coordinator_ != nullptr; }
  Coordinator& coordinator() { return *coordinator_; }

 private:
  Task<void> Tick();

  testing::SimTime* const time_;
  testing::SimNetwork* const network_;
  Trace* const trace_;
  testing::SimRandom random_;
  std::unique_ptr<testing::SimExecutor> executor_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<TaskScope> scope_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SIM_COORDINATOR_H_

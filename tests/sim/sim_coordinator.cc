#include "tests/sim/sim_coordinator.h"

#include "core/check.h"
#include "core/event.h"

namespace kvtier::sim {

SimCoordinator::SimCoordinator(testing::SimTime* time, testing::SimNetwork* network, Trace* trace,
                               uint64_t seed)
    : time_(time), network_(network), trace_(trace), random_(seed) {}

SimCoordinator::~SimCoordinator() {
  if (running()) Crash();
}

void SimCoordinator::Boot() {
  KVT_CHECK(!running());
  trace_->Add("coordinator starts", {});
  executor_ = std::make_unique<testing::SimExecutor>(time_);
  // The epoch is never 0, which means "none known".
  const Epoch epoch{random_.Next() | 1};
  coordinator_ = std::make_unique<Coordinator>(executor_.get(), epoch, CoordinatorOptions());
  scope_ = std::make_unique<TaskScope>(executor_.get());
  scope_->Spawn(Tick());
  network_->ListenAsCoordinator(coordinator_.get());
}

void SimCoordinator::Crash() {
  KVT_CHECK(running());
  trace_->Add("coordinator dies", {});
  network_->ListenAsCoordinator(nullptr);
  scope_.reset();
  coordinator_.reset();
  executor_.reset();
}

Task<void> SimCoordinator::Tick() {
  while (true) {
    coordinator_->Tick();
    co_await SleepUntil(executor_.get(), executor_->Now() + absl::Seconds(1));
  }
}

}  // namespace kvtier::sim

// SimByteThreads run work after a random time, so that other flows run before and after it, as they
// do beside a real pool of threads.
#ifndef KVTIER_TESTS_TESTING_SIM_BYTE_THREADS_H_
#define KVTIER_TESTS_TESTING_SIM_BYTE_THREADS_H_

#include <cstdint>

#include "core/byte_threads.h"
#include "core/event.h"
#include "tests/testing/sim_random.h"

namespace kvtier::testing {

class SimByteThreads final : public ByteThreads {
 public:
  SimByteThreads(Executor* executor, uint64_t seed) : executor_(executor), random_(seed) {}

  Task<void> Run(Work work) override {
    const absl::Duration half = random_.Between(absl::ZeroDuration(), kLongest / 2);
    co_await SleepUntil(executor_, executor_->Now() + half);
    work();
    co_await SleepUntil(executor_, executor_->Now() + half);
  }

 private:
  static constexpr absl::Duration kLongest = absl::Microseconds(200);
  Executor* const executor_;  // Not owned.
  SimRandom random_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_BYTE_THREADS_H_

// SimExecutor runs one simulated process in virtual time. SimTime is the clock and the event queue
// that all simulated processes of one world share.
#ifndef KVTIER_TESTS_TESTING_SIM_EXECUTOR_H_
#define KVTIER_TESTS_TESTING_SIM_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "core/byte_threads.h"
#include "core/executor.h"

namespace kvtier::testing {

// SimTime is the world's clock, and runs events by time, then by order of posting. Single-threaded.
class SimTime {
 public:
  using EventId = std::pair<absl::Time, uint64_t>;
  absl::Time Now() const { return now_; }
  EventId At(absl::Time when, Executor::Closure fn);
  // Forgets the event; does nothing if it has run.
  void Cancel(const EventId& id);
  // Runs the next event, moving the clock to it. False: there is none.
  bool Step();
  // Runs events until the clock would pass `until`, then sets the clock to it.
  void RunUntil(absl::Time until);
  uint64_t events_run() const { return events_run_; }

 private:
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
  uint64_t next_ = 1;
  uint64_t events_run_ = 0;
  std::map<EventId, Executor::Closure> events_;
};

// SimExecutor is the executor of one simulated process. To crash the process, destroy its tasks,
// then the executor, which forgets everything that was posted to it.
class SimExecutor final : public Executor {
 public:
  explicit SimExecutor(SimTime* time) : time_(time) {}
  ~SimExecutor() override;
  absl::Time Now() const override { return time_->Now(); }
  void Post(Closure fn) override { PostAt(time_->Now(), std::move(fn)); }
  TimerId PostAt(absl::Time when, Closure fn) override;
  void Cancel(TimerId id) override;
  bool OnExecutor() const override { return true; }

 private:
  SimTime* const time_;  // Not owned.
  uint64_t next_ = 1;
  std::map<uint64_t, SimTime::EventId> posted_;
};

// InlineByteThreads run the work at once, on the executor, so that it costs no virtual time.
class InlineByteThreads final : public ByteThreads {
 public:
  Task<void> Run(Work work) override {
    work();
    if (then) then();
    co_return;
  }

  std::function<void()> then;  // Function that is called after each work; may be null.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_EXECUTOR_H_

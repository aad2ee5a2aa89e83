// ByteThreads run work that touches payload bytes (checksums, copies) or makes blocking calls (the
// manifest), so that the executor does neither. There are two forms: BytePool, named threads that
// take work from a queue, and the simulator's, which runs the work at once.
#ifndef KVTIER_CORE_BYTE_THREADS_H_
#define KVTIER_CORE_BYTE_THREADS_H_

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"

namespace kvtier {

class ByteThreads {
 public:
  using Work = absl::AnyInvocable<void()>;
  virtual ~ByteThreads() = default;
  // Runs `work` off the executor; the task ends after `work` has run. The queue needs no limit,
  // because the number of callers is bounded.
  virtual Task<void> Run(Work work) = 0;
};

class BytePool final : public ByteThreads {
 public:
  // Starts `threads` threads, called `name`-0, `name`-1, ...
  BytePool(Executor* executor, const std::string& name, int threads);
  ~BytePool() override;  // Joins the threads. REQUIRES: no Run() is awaited.
  Task<void> Run(Work work) override;

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  Executor* const executor_;  // Not owned.
  absl::Mutex mu_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_BYTE_THREADS_H_

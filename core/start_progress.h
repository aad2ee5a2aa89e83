// StartProgress says what a program that starts is doing, and how far it is. Operators and probes
// ask, because a start may take minutes: memory is taken, disks are recovered.
//
// Thread-safe.
#ifndef KVTIER_CORE_START_PROGRESS_H_
#define KVTIER_CORE_START_PROGRESS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

class StartProgress {
 public:
  // Begins the next step, such as "takes host memory". `bytes`: how much it has to do; 0: it cannot
  // be told.
  void Begin(std::string step, uint64_t bytes = 0) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    step_ = std::move(step);
    bytes_ = bytes;
    done_bytes_ = 0;
  }
  // Adds to what is done of the step.
  void AddDone(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    done_bytes_ += bytes;
  }
  // Returns "takes host memory: 512 of 8192 MiB".
  std::string Text() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (bytes_ == 0) return step_;
    return absl::StrCat(step_, ": ", done_bytes_ >> 20, " of ", bytes_ >> 20, " MiB");
  }

 private:
  mutable absl::Mutex mu_;
  std::string step_ ABSL_GUARDED_BY(mu_) = "begins";
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_START_PROGRESS_H_

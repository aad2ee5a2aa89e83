#include "client/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

CompletionQueue::CompletionQueue() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  KVT_CHECK(event_.is_open());
}

bool CompletionQueue::Book() {
  absl::MutexLock lock(&mu_);
  if (outstanding_ == kMaxOutstanding) return false;
  ++outstanding_;
  return true;
}

void CompletionQueue::Unbook() {
  absl::MutexLock lock(&mu_);
  KVT_CHECK(outstanding_ > 0);
  --outstanding_;
}

void CompletionQueue::Push(Completion completion) {
  absl::MutexLock lock(&mu_);
  ended_.push_back(std::move(completion));
  // Under the lock, as in Poll(), so that the eventfd says what the queue holds. It
  // never blocks: the counter is 0 or 1.
  const uint64_t one = 1;
  if (ended_.size() == 1) KVT_CHECK(write(event_.get(), &one, sizeof(one)) == sizeof(one));
}

std::vector<Completion> CompletionQueue::Poll(size_t limit) {
  absl::MutexLock lock(&mu_);
  const size_t count = std::min(limit, ended_.size());
  std::vector<Completion> taken;
  taken.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    taken.push_back(std::move(ended_.front()));
    ended_.pop_front();
  }
  outstanding_ -= count;
  uint64_t value = 0;
  if (count > 0 && ended_.empty()) {
    KVT_CHECK(read(event_.get(), &value, sizeof(value)) == sizeof(value));
  }
  return taken;
}

}  // namespace kvtier

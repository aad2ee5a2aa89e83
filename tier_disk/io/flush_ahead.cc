#include "tier_disk/io/flush_ahead.h"

#include <pthread.h>

#include <utility>

namespace kvtier {

FlushAhead::FlushAhead(absl::AnyInvocable<void()> flush) : flush_(std::move(flush)) {}

FlushAhead::~FlushAhead() {
  std::thread thread;
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void FlushAhead::Wrote(uint64_t bytes) {
  if (flush_ == nullptr) return;
  const absl::MutexLock lock(&mu_);
  unflushed_ += bytes;
  if (HasWork() && !thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

void FlushAhead::Loop() {
  pthread_setname_np(pthread_self(), "disk-flush");
  while (true) {
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &FlushAhead::HasWork));
      if (stopping_) return;
      unflushed_ = 0;
    }
    flush_();
  }
}

}  // namespace kvtier

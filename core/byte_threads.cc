#include "core/byte_threads.h"

#include <pthread.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier {

BytePool::BytePool(Executor* executor, const std::string& name, int threads) : executor_(executor) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
    pthread_setname_np(threads_.back().native_handle(),
                       absl::StrCat(name, "-", i).substr(0, 15).c_str());
  }
}

BytePool::~BytePool() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

Task<void> BytePool::Run(Work work) {
  struct Finished {};
  AwaitCallback<Finished> finished(executor_, [this, &work](auto done) {
    absl::MutexLock lock(&mu_);
    queue_.push_back([&work, done = std::move(done)]() mutable {
      work();
      done(Finished{});
    });
  });
  co_await finished;
}

void BytePool::Loop() {
  const auto due = [this]()
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !queue_.empty() || stopping_; };
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&due));
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace kvtier

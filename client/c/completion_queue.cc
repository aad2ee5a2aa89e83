#include "client/c/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/fork_guard.h"
#include "core/check.h"

namespace kvtier {

CompletionQueue::Ends::Ends() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  KVT_CHECK(event.is_open());
}

CompletionQueue::CompletionQueue() : ends_(std::make_unique<Ends>()) {}

CompletionQueue::~CompletionQueue() { delete childs_.load(std::memory_order_acquire); }

CompletionQueue::Ends* CompletionQueue::Here() {
  if (!InForkedChild()) return ends_.get();
  // A thread that this process does not have may hold the parent's lock, so it is not taken.
  Ends* known = childs_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto made = std::make_unique<Ends>();
  const bool first = childs_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel);
  return first ? made.release() : known;
}

bool CompletionQueue::Book() {
  Ends* const here = Here();
  absl::MutexLock lock(&here->mu);
  if (here->outstanding == kMaxOutstanding) return false;
  ++here->outstanding;
  return true;
}

void CompletionQueue::Unbook() {
  Ends* const here = Here();
  absl::MutexLock lock(&here->mu);
  KVT_CHECK(here->outstanding > 0);
  --here->outstanding;
}

void CompletionQueue::Push(CompletedCall completion) {
  Add(std::move(completion), /*ends_call=*/true);
}

void CompletionQueue::PushPart(CompletedCall part) { Add(std::move(part), /*ends_call=*/false); }

void CompletionQueue::Add(CompletedCall completion, bool ends_call) {
  Ends* const here = Here();
  absl::MutexLock lock(&here->mu);
  here->waiting.push_back({.completion = std::move(completion), .ends_call = ends_call});
  // The write is under the lock, as in Poll(), so that the eventfd agrees with the queue. It never
  // blocks: the counter is 0 or 1.
  const uint64_t one = 1;
  if (here->waiting.size() == 1) {
    KVT_CHECK(write(here->event.get(), &one, sizeof(one)) == sizeof(one));
  }
}

std::vector<CompletedCall> CompletionQueue::Poll(size_t limit) {
  Ends* const here = Here();
  absl::MutexLock lock(&here->mu);
  const size_t count = std::min(limit, here->waiting.size());
  std::vector<CompletedCall> taken;
  taken.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (here->waiting.front().ends_call) --here->outstanding;
    taken.push_back(std::move(here->waiting.front().completion));
    here->waiting.pop_front();
  }
  uint64_t value = 0;
  if (count > 0 && here->waiting.empty()) {
    KVT_CHECK(read(here->event.get(), &value, sizeof(value)) == sizeof(value));
  }
  return taken;
}

}  // namespace kvtier

#include "client/lost_pool.h"

#include <utility>

#include "absl/status/status.h"
#include "core/log.h"

namespace kvtier {
namespace {

// Whoever answers otherwise has another pool, or cannot use ours.
bool MayBeAskedAgain(const absl::Status& offered) {
  return offered.ok() || absl::IsUnavailable(offered) || absl::IsDeadlineExceeded(offered);
}

}  // namespace

void LostPool::Keep(std::shared_ptr<const GpuMemory> pool, absl::Time now) {
  if (pool == nullptr || !CanOffer(*pool)) return;
  std::erase_if(pages_,
                [&](const PoolPage& page) { return page.incarnation != pool->incarnation; });
  memory_ = std::move(pool);
  keep_memory_until_ = now + kKeepLostPool;
  handed_ = false;
}

bool LostPool::Offer(const SessionOptions& options, absl::Time now, absl::Time deadline) {
  if (now >= keep_memory_until_) LetGoOfMemory();
  // First: an agent goes on as soon as it has the memory.
  if (!OfferPages(options, deadline) || memory_ == nullptr) return false;
  const absl::Status offered = OfferPool(options, *memory_, deadline);
  if (!MayBeAskedAgain(offered)) {
    memory_.reset();
    return false;
  }
  // One that took it may die before it serves: the next one asks again.
  if (!offered.ok() || std::exchange(handed_, true)) return false;
  Log(LogLevel::kInfo, "kvtier: handed the GPU pool to the agent that starts");
  return true;
}

bool LostPool::OfferPages(const SessionOptions& options, absl::Time deadline) {
  for (size_t i = 0; i < pages_.size();) {
    const absl::Status offered = OfferPage(options, pages_[i], deadline);
    if (absl::IsUnavailable(offered) || absl::IsDeadlineExceeded(offered)) return false;
    if (offered.ok()) {
      ++i;
    } else {
      pages_.erase(pages_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return true;
}

void LostPool::LetGoOfMemory() {
  if (memory_ == nullptr) return;
  if (pages_.size() == kMaxKeptPages) pages_.erase(pages_.begin());
  pages_.push_back(PageOf(*memory_));
  memory_.reset();
}

}  // namespace kvtier

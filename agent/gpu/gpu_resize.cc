#include "agent/gpu/gpu_resize.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::Status GpuResizer::Begin(uint64_t bytes) {
  const uint64_t handle_bytes = parts_.pool->handle_bytes();
  // A slot that does not lie in one handle whole needs the next one, too.
  const uint64_t least =
      (parts_.pool->slot_bytes() + handle_bytes - 1) / handle_bytes * handle_bytes;
  if (bytes < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes: ", bytes, "; must be at least ", least, ", the handles of one block"));
  }
  if (bytes > max_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("bytes: ", bytes, "; must be at most ",
                                                   max_bytes(), ", the agent's --gpu_max_bytes"));
  }
  if (stopping_) {
    return absl::UnavailableError("the agent is stopping; ask again when it has restarted");
  }
  target_ = bytes / handle_bytes;
  deadline_ = parts_.executor->Now() + kGpuResizeTimeout;
  ended_ = absl::OkStatus();
  if (end_ != nullptr) return absl::OkStatus();  // The running resize goes on to the new target.
  end_ = std::make_shared<Event>(parts_.executor);
  parts_.scope->Spawn(Run());
  return absl::OkStatus();
}

Task<bool> GpuResizer::AwaitEnd(absl::Time deadline) {
  const std::shared_ptr<Event> end = end_;
  if (end == nullptr) co_return true;
  co_return co_await parts_.waits->Until(end.get(), deadline);
}

void GpuResizer::Stop() {
  stopping_ = true;
  deadline_ = absl::InfinitePast();
}

Task<void> GpuResizer::Run() {
  while (target_ != parts_.pool->handles().size()) {
    if (stopping_ || parts_.executor->Now() >= deadline_) {
      ended_ = absl::DeadlineExceededError(HeldUpText());
      break;
    }
    if (target_ > parts_.pool->handles().size()) {
      parts_.pool->CancelShrink();
      const absl::Status grown = co_await parts_.pool->Grow();
      // Another size may be wanted by now.
      if (grown.ok() || target_ <= parts_.pool->handles().size()) continue;
      ended_ = grown;
      break;
    }
    const bool more = co_await Shrink();
    const absl::Time next = parts_.executor->Now() + (more ? absl::ZeroDuration() : kSweepInterval);
    co_await SleepUntil(parts_.executor, next);
  }
  parts_.pool->CancelShrink();
  target_ = parts_.pool->handles().size();
  std::exchange(end_, nullptr)->Set();
}

Task<bool> GpuResizer::Shrink() {
  parts_.pool->BeginShrink(target_);
  const auto first = static_cast<uint32_t>(parts_.pool->table().closed_from());
  const size_t evicted = parts_.evictor->EvictFrom(first, kEvictedPerTurn);
  parts_.workers->Sweep();
  co_await parts_.pool->FreeClosed();
  co_return evicted == kEvictedPerTurn;
}

std::string GpuResizer::HeldUpText() const {
  const Progress now = progress();
  return absl::StrCat("GPU pool: ", now.slots_in_use, " slots beyond ", now.target_bytes,
                      " bytes were held by ", now.workers, " workers for too long; it keeps ",
                      now.bytes, " bytes");
}

GpuResizer::Progress GpuResizer::progress() const {
  const SlotTable& table = parts_.pool->table();
  Progress progress{.bytes = parts_.pool->handles().size() * parts_.pool->handle_bytes(),
                    .target_bytes = target_ * parts_.pool->handle_bytes(),
                    .slots_in_use = table.closed_in_use(),
                    .ended = ended_};
  if (progress.slots_in_use == 0) return progress;
  for (uint32_t number = 1; number < table.workers(); ++number) {
    const auto worker = static_cast<PoolWorker>(number);
    size_t index = table.closed_from();
    while (index < table.slots() && !table.busy(worker, static_cast<uint32_t>(index))) ++index;
    if (index < table.slots()) ++progress.workers;
  }
  return progress;
}

}  // namespace kvtier

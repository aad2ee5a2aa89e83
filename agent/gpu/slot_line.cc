#include "agent/gpu/slot_line.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"

namespace kvtier {

Task<absl::StatusOr<std::vector<GpuSlot>>> SlotLine::Take(Place place, size_t count,
                                                          absl::Time deadline) {
  const auto waiter = std::make_shared<Waiter>(parts_.executor, count);
  const Order order(-int64_t{place.priority}, place.age);
  line_.emplace(order, waiter);
  Serve();
  if (!waiter->ready.is_set()) {
    if (!std::exchange(is_served_, true)) parts_.scope->Spawn(ServeAll());
    co_await parts_.waits->Until(&waiter->ready, deadline);
  }
  if (waiter->ready.is_set()) co_return std::move(waiter->slots);
  const auto found = line_.find(order);
  const auto ahead = std::distance(line_.begin(), found);
  line_.erase(found);
  if (line_.empty()) gathered_.clear();
  co_return absl::ResourceExhaustedError(
      absl::StrCat("swapping in: ", count, " slots of the GPU pool were not free in time, with ",
                   ahead, " sequences ahead in line; swap in again later"));
}

void SlotLine::Serve() {
  while (!line_.empty()) {
    Waiter& first = *line_.begin()->second;
    while (gathered_.size() < first.count) {
      absl::StatusOr<GpuSlot> slot = parts_.evictor->Reserve();
      if (!slot.ok()) return;
      gathered_.push_back(*std::move(slot));
    }
    const auto from = gathered_.end() - static_cast<ptrdiff_t>(first.count);
    first.slots.assign(std::make_move_iterator(from), std::make_move_iterator(gathered_.end()));
    gathered_.erase(from, gathered_.end());
    first.ready.Set();
    line_.erase(line_.begin());
  }
  gathered_.clear();
}

Task<void> SlotLine::ServeAll() {
  while (!line_.empty() && !parts_.waits->ended()) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kSlotLineInterval);
    Serve();
  }
  is_served_ = false;
}

}  // namespace kvtier

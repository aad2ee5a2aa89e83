// EvictionOrder::Leaving: the blocks that would leave one after the other.
#include <algorithm>
#include <optional>

#include "core/eviction_order.h"

namespace kvtier {

std::optional<uint32_t> EvictionOrder::Leaving::Next() {
  if (!std::exchange(looked_, true)) next_ = walk_.Next();
  const auto bared = std::ranges::min_element(
      bared_, [](const auto& a, const auto& b) { return a.LeavesBefore(b); });
  if (bared != bared_.end() && (!next_.has_value() || bared->LeavesBefore(*next_))) {
    const uint32_t number = bared->item;
    bared_.erase(bared);
    return number;
  }
  if (!next_.has_value()) return std::nullopt;
  looked_ = false;
  return next_->item;
}

void EvictionOrder::Leaving::Left(uint32_t number) {
  const uint32_t parent = order_->places_[number].parent;
  if (parent == kNone) return;
  const Node& node = order_->places_[parent];
  if (node.is_member == 0 || node.is_held != 0 || ++left_[parent] < node.children) return;
  // The parent ranks as if it were a candidate now.
  WorthQueues::Choice choice = order_->queues_.RankOf(order_->ranked(), order_->QueueFor(node),
                                                      node.last, order_->clock_.now());
  choice.item = parent;
  bared_.push_back(choice);
}

}  // namespace kvtier

#include "core/aside_blocks.h"

#include "core/check.h"

namespace kvtier {

void AsideBlocks::Add(uint32_t number, uint32_t group, uint32_t parent) {
  if (group >= groups_.size()) groups_.resize(group + 1);
  KVT_CHECK(orders_.emplace(number, next_).second);
  groups_[group].emplace_hint(groups_[group].end(), next_++, number);
  if (parent != kNoBlock) ++children_[parent];
}

void AsideBlocks::Remove(uint32_t number, uint32_t group, uint32_t parent) {
  const auto order = orders_.find(number);
  KVT_CHECK(order != orders_.end());
  groups_[group].erase(order->second);
  orders_.erase(order);
  if (parent == kNoBlock) return;
  const auto siblings = children_.find(parent);
  if (--siblings->second == 0) children_.erase(siblings);
}

bool AsideBlocks::Contains(uint32_t number, uint32_t group) const {
  const auto order = orders_.find(number);
  if (order == orders_.end() || group >= groups_.size()) return false;
  const auto found = groups_[group].find(order->second);
  return found != groups_[group].end() && found->second == number;
}

}  // namespace kvtier

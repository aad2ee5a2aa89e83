#include "tier_disk/log/shape_table.h"

#include "core/check.h"

namespace kvtier {

bool ShapeTable::Fits(const BlockShape& shape) const {
  return !free_.empty() || shapes_.size() < capacity_ || ids_.contains(shape);
}

ShapeId ShapeTable::Acquire(const BlockShape& shape) {
  const auto [it, added] = ids_.try_emplace(shape, ShapeId{0});
  if (added && free_.empty()) {
    KVT_CHECK(shapes_.size() < capacity_);
    it->second = static_cast<ShapeId>(shapes_.size());
    shapes_.emplace_back();
  } else if (added) {
    it->second = free_.back();
    free_.pop_back();
  }
  Counted& counted = shapes_[it->second];
  counted.shape = shape;
  ++counted.holders;
  return it->second;
}

void ShapeTable::Release(ShapeId id) {
  Counted& counted = shapes_.at(id);
  KVT_CHECK(counted.holders > 0);
  if (--counted.holders > 0) return;
  ids_.erase(counted.shape);
  free_.push_back(id);
}

uint64_t ShapeTable::memory_bytes() const {
  constexpr uint64_t kHashSlot = sizeof(std::pair<BlockShape, ShapeId>) + 1;
  return shapes_.capacity() * sizeof(Counted) + free_.capacity() * sizeof(ShapeId) +
         ids_.capacity() * kHashSlot;
}

}  // namespace kvtier

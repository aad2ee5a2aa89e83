#include "coordinator/holder_list.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {

uint32_t HolderPool::Allocate() {
  if (free_.empty()) {
    chunks_.emplace_back();
    return static_cast<uint32_t>(chunks_.size() - 1);
  }
  const uint32_t chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void HolderList::set_chunk(uint32_t chunk) {
  inline_[0] = NodeCopies::FromBits(static_cast<uint16_t>(chunk >> 16));
  inline_[1] = NodeCopies::FromBits(static_cast<uint16_t>(chunk));
}

std::span<NodeCopies> HolderList::View(HolderPool& pool) {
  return {inside() ? inline_.data() : pool.At(chunk()).data(), size_};
}

std::span<const NodeCopies> HolderList::View(const HolderPool& pool) const {
  return {inside() ? inline_.data() : pool.At(chunk()).data(), size_};
}

void HolderList::Append(NodeCopies copies, HolderPool& pool) {
  KVT_CHECK(size_ < kMaxHoldersPerKey);
  if (size_ == kInline) {
    const uint32_t moved_to = pool.Allocate();
    std::copy(inline_.begin(), inline_.end(), pool.At(moved_to).begin());
    set_chunk(moved_to);
  }
  ++size_;
  View(pool).back() = copies;
}

void HolderList::RemoveAt(size_t place, HolderPool& pool) {
  KVT_CHECK(place < size_);
  const std::span<NodeCopies> entries = View(pool);
  entries[place] = entries.back();
  if (size_ == kInline + 1) {
    const uint32_t moved_from = chunk();
    std::copy_n(pool.At(moved_from).begin(), kInline, inline_.begin());
    pool.Free(moved_from);
  }
  --size_;
}

void HolderList::Clear(HolderPool& pool) {
  if (!inside()) pool.Free(chunk());
  size_ = 0;
}

}  // namespace kvtier

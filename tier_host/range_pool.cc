#include "tier_host/range_pool.h"

#include <iterator>

#include "core/check.h"

namespace kvtier {

RangePool::RangePool(uint64_t bytes) : capacity_bytes_(bytes) {
  if (bytes > 0) AddFree(0, bytes);
}

void RangePool::AddFree(uint64_t offset, uint64_t bytes) {
  free_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void RangePool::RemoveFree(std::map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

std::optional<uint64_t> RangePool::Take(uint64_t bytes) {
  const auto smallest = by_size_.lower_bound({bytes, 0});
  if (smallest == by_size_.end()) return std::nullopt;
  const auto [had, offset] = *smallest;
  RemoveFree(free_.find(offset));
  if (had > bytes) AddFree(offset + bytes, had - bytes);
  used_bytes_ += bytes;
  return offset;
}

void RangePool::Free(uint64_t offset, uint64_t bytes) {
  KVT_CHECK(bytes <= used_bytes_ && bytes <= capacity_bytes_ && offset <= capacity_bytes_ - bytes);
  used_bytes_ -= bytes;
  auto behind = free_.lower_bound(offset);
  KVT_CHECK(behind == free_.end() || offset + bytes <= behind->first);
  if (behind != free_.end() && behind->first == offset + bytes) {
    bytes += behind->second;
    RemoveFree(std::exchange(behind, std::next(behind)));
  }
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    const uint64_t before_end = before->first + before->second;
    KVT_CHECK(before_end <= offset);
    if (before_end == offset) {
      offset = before->first;
      bytes += before->second;
      RemoveFree(before);
    }
  }
  AddFree(offset, bytes);
}

void RangePool::Audit() const {
  KVT_CHECK(free_.size() == by_size_.size());
  uint64_t free_bytes = 0;
  uint64_t end = 0;
  for (const auto& [offset, bytes] : free_) {
    KVT_CHECK(bytes > 0 && (free_bytes == 0 || offset > end));
    KVT_CHECK(by_size_.contains({bytes, offset}));
    end = offset + bytes;
    free_bytes += bytes;
  }
  KVT_CHECK(end <= capacity_bytes_ && free_bytes + used_bytes_ == capacity_bytes_);
}

}  // namespace kvtier

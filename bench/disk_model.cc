#include "bench/disk_model.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier::bench {

SegmentDisk::SegmentDisk(const Trace& trace, uint64_t blocks)
    : trace_(trace),
      segment_blocks_(blocks / kSegments),
      children_(trace.parents.size()),
      children_here_(trace.parents.size(), 0),
      segment_of_(trace.parents.size(), kNoSegment),
      touched_(trace.parents.size(), false),
      records_(kSegments) {
  KVT_CHECK(segment_blocks_ > 0);
  for (uint32_t block = 0; block < trace.parents.size(); ++block) {
    if (trace.parents[block] != kNoBlock) children_[trace.parents[block]].push_back(block);
  }
  for (uint32_t segment = 0; segment < kSegments; ++segment) free_.push_back(segment);
}

bool SegmentDisk::Append(uint32_t block, size_t segments_to_leave) {
  if (open_ && records_[*open_].size() == segment_blocks_) {
    sealed_.push_back(*open_);
    open_.reset();
  }
  if (!open_) {
    if (free_.size() <= segments_to_leave) return false;
    open_ = free_.front();
    free_.pop_front();
  }
  records_[*open_].push_back(block);
  if (!Contains(block) && trace_.parents[block] != kNoBlock) {
    ++children_here_[trace_.parents[block]];
  }
  segment_of_[block] = *open_;
  touched_[block] = false;
  return true;
}

uint64_t SegmentDisk::Write(uint32_t block) {
  uint64_t written = 1;
  while (!Append(block, /*segments_to_leave=*/1)) written += Reclaim();
  return written;
}

std::vector<uint32_t> SegmentDisk::WorthKeeping(uint32_t victim) const {
  std::vector<uint32_t> worth;
  std::vector<bool> is_worth(trace_.parents.size(), false);
  for (uint32_t block : records_[victim]) {
    if (segment_of_[block] != victim || !touched_[block]) continue;
    const size_t first = worth.size();
    while (block != kNoBlock && segment_of_[block] == victim && !is_worth[block]) {
      is_worth[block] = true;
      worth.push_back(block);
      block = trace_.parents[block];
    }
    std::reverse(worth.begin() + static_cast<std::ptrdiff_t>(first), worth.end());
  }
  return worth;
}

uint64_t SegmentDisk::Reclaim() {
  const uint32_t victim = sealed_.front();
  sealed_.pop_front();
  std::vector<uint32_t> kept = WorthKeeping(victim);
  // A prefix of the list has every parent before its children.
  kept.resize(std::min<uint64_t>(kept.size(), segment_blocks_ / 2));
  for (const uint32_t block : kept) KVT_CHECK(Append(block, /*segments_to_leave=*/0));
  for (const uint32_t block : std::exchange(records_[victim], {})) {
    if (segment_of_[block] == victim) DropWithDescendants(block);
  }
  free_.push_back(victim);
  return kept.size();
}

void SegmentDisk::Forget(uint32_t block) {
  segment_of_[block] = kNoSegment;
  if (trace_.parents[block] != kNoBlock) --children_here_[trace_.parents[block]];
}

void SegmentDisk::DropWithDescendants(uint32_t block) {
  std::vector<uint32_t> next = {block};
  while (!next.empty()) {
    const uint32_t dropped = next.back();
    next.pop_back();
    if (!Contains(dropped)) continue;
    Forget(dropped);
    if (children_here_[dropped] == 0) continue;
    next.insert(next.end(), children_[dropped].begin(), children_[dropped].end());
  }
}

LruDisk::LruDisk(const Trace& trace, uint64_t blocks)
    : trace_(trace), blocks_(blocks), children_here_(trace.parents.size(), 0) {
  KVT_CHECK(blocks_ > 0);
}

void LruDisk::Touch(uint32_t block) {
  if (const auto place = order_.Find(KeyOf(block))) order_.Touch(*place);
}

uint64_t LruDisk::Write(uint32_t block) {
  if (order_.size() == blocks_) {
    const BlockKey victim = *order_.Victim();
    order_.Erase(*order_.Find(victim));
    const uint32_t parent = trace_.parents[BlockOf(victim)];
    if (parent != kNoBlock) --children_here_[parent];
  }
  EvictionOrder::Newcomer newcomer{.key = KeyOf(block)};
  if (const uint32_t parent = trace_.parents[block]; parent != kNoBlock) {
    newcomer.parent = KeyOf(parent);
    ++children_here_[parent];
  }
  order_.Insert(newcomer);
  return 1;
}

}  // namespace kvtier::bench

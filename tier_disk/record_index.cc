#include "tier_disk/record_index.h"

#include "core/check.h"

namespace kvtier {

void RecordIndex::Insert(const DiskBlock& block, const RecordPlace& place) {
  const auto [it, inserted] = entries_.try_emplace(block.key, Entry{block, place});
  KVT_CHECK(inserted);
  if (block.parent) children_.emplace(*block.parent, block.key);
  Occupy(it->second);
}

void RecordIndex::Erase(const BlockKey& key) {
  const auto it = entries_.find(key);
  KVT_CHECK(it != entries_.end());
  if (it->second.block.parent) children_.erase({*it->second.block.parent, key});
  Vacate(it->second);
  entries_.erase(it);
}

void RecordIndex::Move(const BlockKey& key, const RecordPlace& to) {
  const auto it = entries_.find(key);
  KVT_CHECK(it != entries_.end());
  Vacate(it->second);
  it->second.place = to;
  Occupy(it->second);
}

void RecordIndex::Occupy(const Entry& entry) {
  Segment& segment = At(entry.place.segment);
  KVT_CHECK(segment.records.emplace(entry.place.offset, entry.block.key).second);
  const uint64_t bytes = RecordBytes(entry.block.length);
  segment.live_bytes += bytes;
  used_bytes_ += bytes;
}

void RecordIndex::Vacate(const Entry& entry) {
  Segment& segment = At(entry.place.segment);
  KVT_CHECK(segment.records.erase(entry.place.offset) == 1);
  const uint64_t bytes = RecordBytes(entry.block.length);
  segment.live_bytes -= bytes;
  used_bytes_ -= bytes;
}

const RecordIndex::Entry* RecordIndex::Find(const BlockKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

bool RecordIndex::IsAt(const BlockKey& key, const RecordPlace& place) const {
  const Entry* entry = Find(key);
  return entry != nullptr && entry->place == place;
}

std::vector<BlockKey> RecordIndex::ChildrenOf(const BlockKey& parent) const {
  std::vector<BlockKey> result;
  for (auto it = children_.lower_bound({parent, BlockKey{}});
       it != children_.end() && it->first == parent; ++it) {
    result.push_back(it->second);
  }
  return result;
}

std::vector<DiskBlock> RecordIndex::Blocks() const {
  std::vector<DiskBlock> result;
  result.reserve(entries_.size());
  for (const Segment& segment : segments_) {
    for (const auto& [offset, key] : segment.records) result.push_back(Find(key)->block);
  }
  return result;
}

void RecordIndex::Audit() const {
  uint64_t used = 0;
  size_t records = 0;
  size_t with_parent = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    uint64_t live = 0;
    uint64_t end = 0;  // Of the record before.
    for (const auto& [offset, key] : segments_[i].records) {
      const Entry* entry = Find(key);
      KVT_CHECK(entry != nullptr && entry->block.key == key);
      KVT_CHECK(static_cast<size_t>(entry->place.segment) == i && entry->place.offset == offset);
      KVT_CHECK(offset >= end);
      end = offset + RecordBytes(entry->block.length);
      live += RecordBytes(entry->block.length);
      if (!entry->block.parent) continue;
      ++with_parent;
      KVT_CHECK(children_.contains({*entry->block.parent, key}));
    }
    KVT_CHECK(live == segments_[i].live_bytes);
    used += live;
    records += segments_[i].records.size();
  }
  KVT_CHECK(records == entries_.size());
  KVT_CHECK(with_parent == children_.size());
  KVT_CHECK(used == used_bytes_);
}

}  // namespace kvtier

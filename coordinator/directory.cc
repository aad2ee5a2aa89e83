#include "coordinator/directory.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {
namespace {

// Returns the place of `node` in `entries`, or their number.
size_t PlaceOf(NodeIndex node, std::span<const NodeCopies> entries) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [node](NodeCopies copies) { return copies.node() == node; });
  return static_cast<size_t>(found - entries.begin());
}

}  // namespace

NodeIndex Directory::Enrol() {
  NodeIndex node;
  if (!free_.empty()) {
    node = free_.back();
    free_.pop_back();
  } else {
    KVT_CHECK(ever_enrolled_ < kMaxNodeIndices);
    node = static_cast<NodeIndex>(ever_enrolled_++);
  }
  enrolled_.set(static_cast<size_t>(node));
  return node;
}

void Directory::Retire(NodeIndex node) {
  KVT_CHECK(enrolled(node));
  enrolled_.reset(static_cast<size_t>(node));
  blocks_[static_cast<size_t>(node)] = 0;
  retired_.push_back({.node = node, .swept_at = sweeps_ + kShards});
  // One sweep here bounds the retired indices to kShards, however rarely others sweep.
  Sweep();
}

void Directory::Add(const PeerName& name, NodeIndex node, Tier tier) {
  KVT_CHECK(enrolled(node) && tier != Tier::kGpu);
  Shard& shard = shards_[ShardOf(name)];
  auto place = shard.find(name);
  if (place == shard.end()) {
    if (keys_ >= max_keys_) {
      ++refusals_.keys;
      return;
    }
    place = shard.try_emplace(name).first;
    ++keys_;
  }
  HolderList& holders = place->second;
  const std::span<NodeCopies> entries = holders.View(pool_);
  if (const size_t known = PlaceOf(node, entries); known < entries.size()) {
    entries[known].Add(tier);
    return;
  }
  if (holders.size() == kMaxHoldersPerKey) Prune(holders);
  if (holders.size() == kMaxHoldersPerKey) {
    ++refusals_.holders;
    return;
  }
  holders.Append(NodeCopies(node, tier), pool_);
  ++blocks_[static_cast<size_t>(node)];
}

void Directory::Remove(const PeerName& name, NodeIndex node, Tier tier) {
  KVT_CHECK(enrolled(node) && tier != Tier::kGpu);
  Shard& shard = shards_[ShardOf(name)];
  const auto place = shard.find(name);
  if (place == shard.end()) return;
  HolderList& holders = place->second;
  const std::span<NodeCopies> entries = holders.View(pool_);
  const size_t known = PlaceOf(node, entries);
  if (known == entries.size()) return;
  entries[known].Remove(tier);
  if (entries[known].HasAny()) return;
  holders.RemoveAt(known, pool_);
  --blocks_[static_cast<size_t>(node)];
  if (holders.size() > 0) return;
  shard.erase(place);
  --keys_;
}

HolderSet Directory::Find(const PeerName& name) const {
  HolderSet found;
  const Shard& shard = shards_[ShardOf(name)];
  const auto place = shard.find(name);
  if (place == shard.end()) return found;
  for (const NodeCopies copies : place->second.View(pool_)) {
    if (enrolled(copies.node())) found.entries[found.size++] = copies;
  }
  return found;
}

HolderSet Directory::FindUsable(const PeerName& name,
                                absl::FunctionRef<bool(NodeIndex)> usable) const {
  HolderSet holders = Find(name);
  const auto end = std::remove_if(holders.entries.begin(), holders.entries.begin() + holders.size,
                                  [&usable](NodeCopies copies) { return !usable(copies.node()); });
  holders.size = static_cast<uint8_t>(end - holders.entries.begin());
  return holders;
}

void Directory::Sweep() {
  if (retired_.empty()) return;
  Shard& shard = shards_[sweeps_ % kShards];
  const size_t before = shard.size();
  absl::erase_if(shard, [this](auto& entry) {
    Prune(entry.second);
    return entry.second.size() == 0;
  });
  keys_ -= before - shard.size();
  ++sweeps_;
  while (!retired_.empty() && retired_.front().swept_at <= sweeps_) {
    free_.push_back(retired_.front().node);
    retired_.pop_front();
  }
}

void Directory::Prune(HolderList& holders) {
  for (size_t i = holders.size(); i-- > 0;) {
    if (!enrolled(holders.View(pool_)[i].node())) holders.RemoveAt(i, pool_);
  }
}

void Directory::Audit() const {
  std::vector<uint32_t> blocks(kMaxNodeIndices);
  size_t keys = 0;
  size_t chunks = 0;
  for (size_t i = 0; i < kShards; ++i) {
    for (const auto& [name, holders] : shards_[i]) {
      KVT_CHECK(ShardOf(name) == i);
      const std::span<const NodeCopies> entries = holders.View(pool_);
      KVT_CHECK(!entries.empty());
      for (size_t j = 0; j < entries.size(); ++j) {
        KVT_CHECK(entries[j].HasAny());
        KVT_CHECK(PlaceOf(entries[j].node(), entries) == j);
        if (enrolled(entries[j].node())) ++blocks[static_cast<size_t>(entries[j].node())];
      }
      if (entries.size() > 3) ++chunks;
      ++keys;
    }
  }
  KVT_CHECK(keys == keys_ && keys <= max_keys_);
  KVT_CHECK(blocks == blocks_);
  KVT_CHECK(chunks == pool_.used());
  KVT_CHECK(enrolled_.count() + free_.size() + retired_.size() == ever_enrolled_);
}

}  // namespace kvtier

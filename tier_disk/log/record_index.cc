#include "tier_disk/log/record_index.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {
namespace {

// Grows the list by a quarter at a time: after doubling, up to half of the list would be unused.
template <typename T>
void PushTight(T value, std::vector<T>* to) {
  constexpr size_t kFirst = 16;
  if (to->size() == to->capacity()) to->reserve(to->size() + std::max(kFirst, to->size() / 4));
  to->push_back(value);
}

BlockShape ShapeOf(const DiskBlock& block) {
  return {
      .space = block.space, .length = block.length, .owner = block.owner, .key_id = block.key_id};
}

}  // namespace

RecordIndex::RecordIndex(uint32_t segments) : segments_(segments) {}

RecordIndex::NodeId RecordIndex::NodeOf(const BlockKey& key) const { return ids_.Find(key); }

RecordIndex::NodeId RecordIndex::ResidentOf(const BlockKey& key) const {
  const NodeId id = NodeOf(key);
  return id == kNone || At(id).segment == kGhost ? kNone : id;
}

RecordIndex::NodeId RecordIndex::Allocate(const BlockKey& key) {
  NodeId id = free_;
  if (id != kNone) {
    free_ = At(id).next;
  } else {
    id = static_cast<NodeId>(nodes_.size());
    KVT_CHECK(id != kNone);
    nodes_.Grow();
  }
  Node& node = At(id);
  node = Node{};
  node.key = key;
  node.touched = static_cast<uint8_t>(epoch_ - 1);  // Differs from the present epoch.
  ids_.Insert(id);
  return id;
}

void RecordIndex::Free(NodeId id) {
  ids_.Erase(id);
  At(id) = Node{};
  At(id).next = free_;
  free_ = id;
}

void RecordIndex::Adopt(NodeId parent, NodeId child) {
  Node& node = At(child);
  node.parent = parent;
  node.previous_sibling = kNone;
  node.next_sibling = At(parent).first_child;
  if (node.next_sibling != kNone) At(node.next_sibling).previous_sibling = child;
  At(parent).first_child = child;
}

void RecordIndex::Orphan(NodeId child) {
  Node& node = At(child);
  const NodeId parent = node.parent;
  if (parent == kNone) return;
  if (node.next_sibling != kNone) At(node.next_sibling).previous_sibling = node.previous_sibling;
  NodeId& link = node.previous_sibling == kNone ? At(parent).first_child
                                                : At(node.previous_sibling).next_sibling;
  link = node.next_sibling;
  node.parent = node.next_sibling = node.previous_sibling = kNone;
  if (At(parent).segment == kGhost && At(parent).first_child == kNone) Free(parent);
}

uint64_t RecordIndex::BytesOf(const Node& node) const {
  return RecordBytes(shapes_.At(node.shape).length);
}

// A segment has blocks of few tenants, so the list is searched linearly.
void RecordIndex::Count(const Node& node) {
  Segment& segment = At(SegmentId{node.segment});
  const TenantTag owner = shapes_.At(node.shape).owner;
  const uint64_t bytes = BytesOf(node);
  segment.live_bytes += bytes;
  used_bytes_ += bytes;
  bytes_by_owner_[owner] += bytes;
  const auto owned = std::ranges::find(segment.owners, owner, &OwnedBytes::owner);
  if (owned != segment.owners.end()) {
    owned->bytes += bytes;
  } else {
    segment.owners.push_back({.owner = owner, .bytes = bytes});
  }
}

void RecordIndex::Uncount(const Node& node) {
  Segment& segment = At(SegmentId{node.segment});
  const TenantTag owner = shapes_.At(node.shape).owner;
  const uint64_t bytes = BytesOf(node);
  segment.live_bytes -= bytes;
  used_bytes_ -= bytes;
  const auto all = bytes_by_owner_.find(owner);
  if ((all->second -= bytes) == 0) bytes_by_owner_.erase(all);
  const auto owned = std::ranges::find(segment.owners, owner, &OwnedBytes::owner);
  if ((owned->bytes -= bytes) > 0) return;
  *owned = segment.owners.back();
  segment.owners.pop_back();
}

void RecordIndex::Occupy(NodeId id, const RecordPlace& place) {
  Node& node = At(id);
  Segment& segment = At(place.segment);
  if (segment.live_bytes == 0) {
    segment.nodes.clear();
    segment.generation = place.generation;
    if (++segments_begun_ * uint64_t{kEpochsPerTurn} >= segments_.size()) {
      segments_begun_ = 0;
      ++epoch_;
    }
    segment.epoch = epoch_;
  }
  KVT_CHECK(segment.generation == place.generation);
  const uint64_t page = place.offset / kRecordHeaderBytes;
  KVT_CHECK(place.offset % kRecordHeaderBytes == 0 && page < kGhost);
  node.segment = static_cast<uint32_t>(place.segment);
  node.page = static_cast<uint32_t>(page);
  Count(node);
  PushTight(id, &segment.nodes);
}

void RecordIndex::Vacate(NodeId id) {
  Node& node = At(id);
  Segment& segment = At(SegmentId{node.segment});
  Uncount(node);
  node.segment = kGhost;
  if (segment.live_bytes > 0) return;
  segment.nodes = {};
  segment.owners = {};
}

bool RecordIndex::Fits(const DiskBlock& block) const { return shapes_.Fits(ShapeOf(block)); }

void RecordIndex::Insert(const DiskBlock& block, const RecordPlace& place) {
  NodeId id = NodeOf(block.key);
  if (id == kNone) id = Allocate(block.key);
  KVT_CHECK(At(id).segment == kGhost);
  At(id).shape = shapes_.Acquire(ShapeOf(block));
  Occupy(id, place);
  At(id).touched = static_cast<uint8_t>(epoch_ - 1);
  if (block.parent && *block.parent != block.key) {
    NodeId parent = NodeOf(*block.parent);
    if (parent == kNone) parent = Allocate(*block.parent);
    Adopt(parent, id);
    Touch(*block.parent);
  }
  ++size_;
}

void RecordIndex::Erase(const BlockKey& key) {
  const NodeId id = ResidentOf(key);
  KVT_CHECK(id != kNone);
  Vacate(id);
  shapes_.Release(At(id).shape);
  At(id).use = {};
  --size_;
  Orphan(id);
  if (At(id).first_child == kNone) Free(id);
}

void RecordIndex::Move(const BlockKey& key, const RecordPlace& to, KeyId key_id) {
  const NodeId id = ResidentOf(key);
  KVT_CHECK(id != kNone);
  Vacate(id);
  BlockShape shape = shapes_.At(At(id).shape);
  shape.key_id = key_id;
  const ShapeId before = At(id).shape;
  At(id).shape = shapes_.Acquire(shape);
  shapes_.Release(before);
  Occupy(id, to);
}

bool RecordIndex::Contains(const BlockKey& key) const { return ResidentOf(key) != kNone; }

std::optional<DiskEntry> RecordIndex::Find(const BlockKey& key) const {
  const NodeId id = ResidentOf(key);
  if (id == kNone) return std::nullopt;
  const Node& node = At(id);
  const BlockShape& shape = shapes_.At(node.shape);
  DiskEntry entry{.block = {.key = key,
                            .space = shape.space,
                            .length = shape.length,
                            .owner = shape.owner,
                            .key_id = shape.key_id},
                  .place = {.segment = SegmentId{node.segment},
                            .generation = At(SegmentId{node.segment}).generation,
                            .offset = uint64_t{node.page} * kRecordHeaderBytes}};
  entry.block.parent = ParentOf(key);
  return entry;
}

std::optional<TenantTag> RecordIndex::OwnerOf(const BlockKey& key) const {
  const NodeId id = ResidentOf(key);
  if (id == kNone) return std::nullopt;
  return shapes_.At(At(id).shape).owner;
}

bool RecordIndex::IsAt(const BlockKey& key, const RecordPlace& place) const {
  const NodeId id = ResidentOf(key);
  return id != kNone && At(id).segment == static_cast<uint32_t>(place.segment) &&
         At(place.segment).generation == place.generation &&
         uint64_t{At(id).page} * kRecordHeaderBytes == place.offset;
}

std::optional<BlockKey> RecordIndex::ParentOf(const BlockKey& key) const {
  const NodeId id = ResidentOf(key);
  if (id == kNone || At(id).parent == kNone) return std::nullopt;
  return At(At(id).parent).key;
}

std::vector<BlockKey> RecordIndex::ChildrenOf(const BlockKey& parent) const {
  std::vector<BlockKey> result;
  ForEachChildOf(parent, [&result](const BlockKey& child) {
    result.push_back(child);
    return true;
  });
  return result;
}

bool RecordIndex::HasChildOf(const BlockKey& parent) const {
  const NodeId id = NodeOf(parent);
  return id != kNone && At(id).first_child != kNone;
}

std::vector<RecordIndex::NodeId> RecordIndex::NodesIn(SegmentId segment) const {
  std::vector<NodeId> result;
  for (const NodeId id : At(segment).nodes) {
    if (At(id).segment == static_cast<uint32_t>(segment)) result.push_back(id);
  }
  const auto page = [this](NodeId id) { return At(id).page; };
  std::sort(result.begin(), result.end(), [&](NodeId a, NodeId b) { return page(a) < page(b); });
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<BlockKey> RecordIndex::InSegment(SegmentId segment) const {
  std::vector<BlockKey> keys;
  for (const NodeId id : NodesIn(segment)) keys.push_back(At(id).key);
  return keys;
}

bool RecordIndex::KeysFrom(uint32_t* node, size_t limit, std::vector<BlockKey>* keys) const {
  const size_t left = nodes_.size() - std::min<size_t>(*node, nodes_.size());
  const auto end = static_cast<NodeId>(*node + std::min(limit, left));
  for (; *node < end; ++*node) {
    if (At(*node).segment != kGhost) keys->push_back(At(*node).key);
  }
  return *node < nodes_.size();
}

std::vector<BlockKey> RecordIndex::Keys() const {
  std::vector<BlockKey> keys;
  keys.reserve(size_);
  for (size_t i = 0; i < segments_.size(); ++i) {
    for (const NodeId id : NodesIn(SegmentId{static_cast<uint32_t>(i)})) {
      keys.push_back(At(id).key);
    }
  }
  return keys;
}

std::optional<BlockKey> RecordIndex::Touch(const BlockKey& key) {
  NodeId id = NodeOf(key);
  if (id == kNone) return key;
  for (; id != kNone; id = At(id).parent) {
    Node& node = At(id);
    if (node.touched == epoch_) return std::nullopt;  // All ancestors are marked, too.
    node.touched = epoch_;
    if (node.segment == kGhost) return node.key;
  }
  return std::nullopt;
}

bool RecordIndex::IsWarm(const BlockKey& key) const {
  const NodeId id = ResidentOf(key);
  if (id == kNone) return false;
  const Node& node = At(id);
  return static_cast<int8_t>(node.touched - At(SegmentId{node.segment}).epoch) > 0;
}

BlockUse* RecordIndex::UseOf(const BlockKey& key) {
  const NodeId id = ResidentOf(key);
  return id == kNone ? nullptr : &At(id).use;
}

const BlockUse* RecordIndex::UseOf(const BlockKey& key) const {
  const NodeId id = ResidentOf(key);
  return id == kNone ? nullptr : &At(id).use;
}

uint64_t RecordIndex::BytesOf(TenantTag owner) const {
  const auto found = bytes_by_owner_.find(owner);
  return found == bytes_by_owner_.end() ? 0 : found->second;
}

std::vector<OwnedBytes> RecordIndex::Owners() const {
  std::vector<OwnedBytes> owners;
  owners.reserve(bytes_by_owner_.size());
  for (const auto& [owner, bytes] : bytes_by_owner_) {
    owners.push_back({.owner = owner, .bytes = bytes});
  }
  std::ranges::sort(owners, {}, &OwnedBytes::owner);
  return owners;
}

uint64_t RecordIndex::memory_bytes() const {
  uint64_t bytes = nodes_.memory_bytes() + ids_.memory_bytes() +
                   segments_.capacity() * sizeof(Segment) + shapes_.memory_bytes();
  for (const Segment& segment : segments_) {
    bytes +=
        segment.nodes.capacity() * sizeof(NodeId) + segment.owners.capacity() * sizeof(OwnedBytes);
  }
  return bytes;
}

void RecordIndex::Audit() const {
  size_t residents = 0;
  size_t used_nodes = 0;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = At(id);
    if (node.segment == kGhost && node.first_child == kNone) continue;  // The node is free.
    ++used_nodes;
    KVT_CHECK(NodeOf(node.key) == id);
    if (node.segment == kGhost) KVT_CHECK(node.parent == kNone);
    residents += node.segment == kGhost ? 0 : 1;
    NodeId before = kNone;
    for (NodeId child = node.first_child; child != kNone; child = At(child).next_sibling) {
      KVT_CHECK(At(child).parent == id && At(child).previous_sibling == before);
      before = child;
    }
    if (node.previous_sibling != kNone) KVT_CHECK(At(node.previous_sibling).next_sibling == id);
    if (node.parent != kNone && node.previous_sibling == kNone) {
      KVT_CHECK(At(node.parent).first_child == id);
    }
  }
  KVT_CHECK(residents == size_ && used_nodes == ids_.size());
  uint64_t used = 0;
  size_t in_segments = 0;
  absl::flat_hash_map<TenantTag, uint64_t> by_owner;
  for (size_t i = 0; i < segments_.size(); ++i) {
    uint64_t live = 0;
    uint64_t end = 0;
    absl::flat_hash_map<TenantTag, uint64_t> owned;
    for (const NodeId id : NodesIn(SegmentId{static_cast<uint32_t>(i)})) {
      const uint64_t offset = uint64_t{At(id).page} * kRecordHeaderBytes;
      KVT_CHECK(offset >= end);
      end = offset + BytesOf(At(id));
      live += BytesOf(At(id));
      owned[shapes_.At(At(id).shape).owner] += BytesOf(At(id));
      ++in_segments;
    }
    KVT_CHECK(live == segments_[i].live_bytes && owned.size() == segments_[i].owners.size());
    for (const OwnedBytes& counted : segments_[i].owners) {
      KVT_CHECK(owned[counted.owner] == counted.bytes);
      by_owner[counted.owner] += counted.bytes;
    }
    used += live;
  }
  KVT_CHECK(in_segments == size_ && used == used_bytes_ && by_owner == bytes_by_owner_);
}

}  // namespace kvtier

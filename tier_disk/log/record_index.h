// RecordIndex knows which blocks are on the disk, where their records lie, whose child
// each is and how warm: the in-memory side of the manifest, at most 64 bytes a block
// with a million of them (bench_disk measures it).
//
// Pure bookkeeping, no I/O. Executor thread only.
//
// Layout: one 56-byte node a block in a slab, named by a 32-bit number; a hash table of
// those numbers, chained through the nodes; and for each segment the numbers of its
// records in the order of their offsets, which is the order they are inserted in. A
// node links to its parent, its first child and its siblings. A parent that is not on
// the disk has a node without a record (a ghost) as long as a child is there.
//
// Recency is an epoch, modulo 256, of which a turn of the whole log has 64 at most: a
// record is reclaimed, or appended anew, long before two epochs can be mistaken for each
// other.
// Invariants, checked by Audit(): the three views (by key, by segment, by parent) name
// the same blocks; records of a segment do not overlap; a ghost has a child and no parent;
// what the owners have adds up, in each segment and in all.
#ifndef KVTIER_TIER_DISK_LOG_RECORD_INDEX_H_
#define KVTIER_TIER_DISK_LOG_RECORD_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/numbers_by_key.h"
#include "core/reuse_state.h"
#include "core/steady_vector.h"
#include "core/tenant_tag.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/log/record.h"
#include "tier_disk/log/shape_table.h"

namespace kvtier {

// What is remembered of the uses of one block.
struct BlockUse {
  ReuseState state;
  // Second of its last use, by the clock of whoever writes it here; 0: unknown.
  uint32_t last_second = 0;
};

// Records of one tenant, headers included.
struct OwnedBytes {
  TenantTag owner{};
  uint64_t bytes = 0;
  friend bool operator==(const OwnedBytes&, const OwnedBytes&) = default;
};

class RecordIndex {
 public:
  explicit RecordIndex(uint32_t segments);
  RecordIndex(const RecordIndex&) = delete;
  RecordIndex& operator=(const RecordIndex&) = delete;

  // False: there are too many different shapes of blocks already; Insert() would abort.
  bool Fits(const DiskBlock& block) const;
  // A block that names itself as its parent is kept as a root. REQUIRES: the key is
  // absent, the place free, Fits(block), and the other records of the segment are of
  // the same generation.
  void Insert(const DiskBlock& block, const RecordPlace& place);
  // REQUIRES: the key is present.
  void Erase(const BlockKey& key);
  // Its record lies elsewhere now, sealed under `key_id` (zero: in the clear). REQUIRES:
  // the key is present, and Fits() a block that differs in the key id.
  void Move(const BlockKey& key, const RecordPlace& to, KeyId key_id = KeyId{});

  bool Contains(const BlockKey& key) const;
  std::optional<DiskEntry> Find(const BlockKey& key) const;
  // Returns the tenant that put the block, at less than the cost of Find(); nullopt: not here.
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  // True when the block is here, and exactly there.
  bool IsAt(const BlockKey& key, const RecordPlace& place) const;
  // nullopt: a root, or not here. The parent itself need not be here.
  std::optional<BlockKey> ParentOf(const BlockKey& key) const;
  // The blocks here whose parent is `parent`, which itself need not be; no order.
  std::vector<BlockKey> ChildrenOf(const BlockKey& parent) const;
  // Calls `visit` with the blocks here whose parent is `parent`, which itself need not be, until it
  // returns false; no order.
  template <typename Visit>
  void ForEachChildOf(const BlockKey& parent, Visit visit) const {
    const NodeId id = NodeOf(parent);
    NodeId child = id == kNone ? kNone : At(id).first_child;
    while (child != kNone && visit(At(child).key)) child = At(child).next_sibling;
  }
  // ChildrenOf(parent) is not empty; at the cost of one look.
  bool HasChildOf(const BlockKey& parent) const;
  // The blocks whose records lie in the segment, by offset.
  std::vector<BlockKey> InSegment(SegmentId segment) const;
  // Every block, by segment and offset.
  std::vector<BlockKey> Keys() const;

  // The block was of use: marks it and all its ancestors here. Returns the first
  // ancestor that is not here (another disk may have it), unless it was known to be
  // marked; absent blocks are their own first. Costs a step for each ancestor not yet
  // marked in this epoch.
  std::optional<BlockKey> Touch(const BlockKey& key);
  // True when it was touched in a later epoch than the one in which its record was
  // appended. Moving it cools it. Absent: false.
  bool IsWarm(const BlockKey& key) const;

  // Returns what is remembered of the block's uses: nothing yet of a new one, and Move() leaves it
  // as it is. nullptr: the block is not here. Valid until the next change.
  BlockUse* UseOf(const BlockKey& key);
  const BlockUse* UseOf(const BlockKey& key) const;

  // Calls `visit` with what is remembered of each ancestor of the block, its parent first, until
  // that returns false or an ancestor is not here.
  template <typename Visit>
  void ForEachAncestor(const BlockKey& key, Visit visit) {
    const NodeId id = NodeOf(key);
    if (id == kNone) return;
    for (NodeId above = At(id).parent; above != kNone; above = At(above).parent) {
      if (At(above).segment == kGhost || !visit(&At(above).use)) return;
    }
  }

  uint64_t live_bytes(SegmentId segment) const { return At(segment).live_bytes; }
  // Returns the bytes of the tenant's records.
  uint64_t BytesOf(TenantTag owner) const;
  // Returns the tenants that have blocks here, by tag.
  std::vector<OwnedBytes> Owners() const;
  // Returns the tenants that have blocks in the segment, in no order. Valid until the next change.
  std::span<const OwnedBytes> OwnersIn(SegmentId segment) const { return At(segment).owners; }
  size_t size() const { return size_; }
  uint64_t used_bytes() const { return used_bytes_; }  // Records, headers included.
  uint64_t memory_bytes() const;                       // What the index itself takes.
  void Audit() const;

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kNone = ~NodeId{0};
  static constexpr uint32_t kGhost = ~uint32_t{0};  // In Node::segment.
  static constexpr uint32_t kEpochsPerTurn = 64;

  struct Node {
    BlockKey key;
    NodeId next = kNone;  // In its bucket of `ids_`; in the free list: the next free node.
    uint32_t segment = kGhost;
    uint32_t page = 0;  // Of the record in the segment, in units of 4 KiB.
    ShapeId shape : 24 = 0;
    uint32_t touched : 8 = 0;  // Epoch.
    NodeId parent = kNone;
    NodeId first_child = kNone;
    NodeId next_sibling = kNone;
    NodeId previous_sibling = kNone;
    BlockUse use;
  };
  static_assert(sizeof(Node) == 56);
  static_assert(sizeof(ShapeId) == sizeof(uint32_t) && ShapeTable::kMaxShapes == 1 << 24);

  struct Segment {
    uint64_t generation = 0;
    uint64_t live_bytes = 0;
    uint8_t epoch = 0;  // When its first record came.
    // By offset; those that left since, and numbers used anew, are still named here.
    std::vector<NodeId> nodes;
    std::vector<OwnedBytes> owners;  // Those with live bytes here.
  };

  Node& At(NodeId id) { return nodes_[id]; }
  const Node& At(NodeId id) const { return nodes_[id]; }
  Segment& At(SegmentId segment) { return segments_[static_cast<size_t>(segment)]; }
  const Segment& At(SegmentId segment) const { return segments_[static_cast<size_t>(segment)]; }

  NodeId NodeOf(const BlockKey& key) const;      // Ghosts too; kNone: no node.
  NodeId ResidentOf(const BlockKey& key) const;  // kNone: the block is not here.
  NodeId Allocate(const BlockKey& key);
  void Free(NodeId id);
  uint64_t BytesOf(const Node& node) const;
  // Counts the record of the node in its segment and for its owner, or no longer.
  void Count(const Node& node);
  void Uncount(const Node& node);
  void Occupy(NodeId id, const RecordPlace& place);
  void Vacate(NodeId id);
  void Adopt(NodeId parent, NodeId child);
  void Orphan(NodeId child);  // Frees its parent if that is a ghost without children now.
  std::vector<NodeId> NodesIn(SegmentId segment) const;

  SteadyVector<Node> nodes_;  // Free ones are as new, but for their link.
  NodeId free_ = kNone;       // Head of the free list.
  NumbersByKey<Node> ids_{&nodes_};
  ShapeTable shapes_;
  std::vector<Segment> segments_;
  absl::flat_hash_map<TenantTag, uint64_t> bytes_by_owner_;  // Of those with live bytes.
  size_t size_ = 0;
  uint64_t used_bytes_ = 0;
  uint8_t epoch_ = 0;
  uint32_t segments_begun_ = 0;  // In this epoch.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECORD_INDEX_H_

// RecordIndex knows which blocks are on the disk, where their records lie, which block is the
// parent of each and how recently each was used. It is the in-memory side of the manifest, at most
// 64 bytes a block with a million of them (bench_disk measures it).
//
// Pure bookkeeping, no I/O. Executor thread only.
//
// Layout: one 56-byte node a block in a slab, named by a 32-bit number; a hash table of those
// numbers, chained through the nodes; and for each segment the numbers of its records in the order
// of their offsets, which is the order of insertion. A node links to its parent, its first child
// and its siblings. A parent that is not on the disk has a node without a record (a ghost) as long
// as one of its children is there.
//
// Recency is an epoch, modulo 256; one round of the log has at most 64 epochs. So a record is
// reclaimed, or appended again, long before its epoch's number is used again.
// Invariants, checked by Audit(): the three views (by key, by segment, by parent) name the same
// blocks; records of a segment do not overlap; a ghost has a child and no parent; the bytes of the
// owners add up, in each segment and in all.
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

// Uses of one block, as ReclaimOrder noted them.
struct BlockUse {
  ReuseState state;
  // Second of the last use, by ReclaimOrder's clock; 0: unknown.
  uint32_t last_second = 0;
};

// Bytes of the records of one tenant, headers included.
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

  // Returns false if there are too many different shapes of blocks already; Insert() would abort.
  bool Fits(const DiskBlock& block) const;
  // Adds a block. A block that names itself as its parent is kept as a root. REQUIRES: the key is
  // absent, the place free, Fits(block), and the other records of the segment have the same
  // generation.
  void Insert(const DiskBlock& block, const RecordPlace& place);
  // Removes a block. REQUIRES: the key is present.
  void Erase(const BlockKey& key);
  // Changes the place of the block's record, and the key under which it is sealed (zero: in the
  // clear). REQUIRES: the key is present, and Fits() a block that differs in the key id.
  void Move(const BlockKey& key, const RecordPlace& to, KeyId key_id = KeyId{});

  bool Contains(const BlockKey& key) const;
  std::optional<DiskEntry> Find(const BlockKey& key) const;
  // Returns the tenant that put the block, at a lower cost than Find(); nullopt: not here.
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  // Returns whether the block is here, at exactly that place.
  bool IsAt(const BlockKey& key, const RecordPlace& place) const;
  // Returns the block's parent, which need not be here; nullopt: a root, or not here.
  std::optional<BlockKey> ParentOf(const BlockKey& key) const;
  // Returns the blocks here whose parent is `parent`, which need not be here; no order.
  std::vector<BlockKey> ChildrenOf(const BlockKey& parent) const;
  // Calls `visit` with the blocks here whose parent is `parent`, which need not be here, until it
  // returns false; no order.
  template <typename Visit>
  void ForEachChildOf(const BlockKey& parent, Visit visit) const {
    const NodeId id = NodeOf(parent);
    NodeId child = id == kNone ? kNone : At(id).first_child;
    while (child != kNone && visit(At(child).key)) child = At(child).next_sibling;
  }
  // Returns whether ChildrenOf(parent) is not empty, at the cost of one lookup.
  bool HasChildOf(const BlockKey& parent) const;
  // Returns the blocks whose records lie in the segment, by offset.
  std::vector<BlockKey> InSegment(SegmentId segment) const;
  // Returns every block, by segment and offset.
  std::vector<BlockKey> Keys() const;
  // Adds the blocks of the nodes from `*node` on to `keys`, looks at `limit` nodes at most, and
  // moves `*node` on. Returns false at the last node. A block keeps its node until it is erased.
  bool KeysFrom(uint32_t* node, size_t limit, std::vector<BlockKey>* keys) const;

  // Marks a block and all its ancestors here as used. Returns the first of them that is not here
  // (another disk may have it), which may be `key` itself; nullopt: all are here, or the rest was
  // already marked in this epoch. Costs a step for each block that was not yet marked.
  std::optional<BlockKey> Touch(const BlockKey& key);
  // Returns whether the block was touched in a later epoch than the one in which its record was
  // appended. Move() makes the block cold again. False if the block is absent.
  bool IsWarm(const BlockKey& key) const;

  // Returns the block's uses: empty for a new block, and unchanged by Move(). nullptr: the block is
  // not here. Valid until the next change.
  BlockUse* UseOf(const BlockKey& key);
  const BlockUse* UseOf(const BlockKey& key) const;

  // Calls `visit` with the uses of each ancestor of the block, its parent first, until `visit`
  // returns false or an ancestor is not here.
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
  uint64_t used_bytes() const { return used_bytes_; }  // Bytes of records, headers included.
  uint64_t memory_bytes() const;                       // Memory of the index itself.
  void Audit() const;

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kNone = ~NodeId{0};
  static constexpr uint32_t kGhost = ~uint32_t{0};  // Value of Node::segment.
  static constexpr uint32_t kEpochsPerTurn = 64;

  struct Node {
    BlockKey key;
    // Next node in its bucket of `ids_`; in the free list, the next free node.
    NodeId next = kNone;
    uint32_t segment = kGhost;
    uint32_t page = 0;  // Place of the record in the segment, in units of 4 KiB.
    ShapeId shape : 24 = 0;
    uint32_t touched : 8 = 0;  // Epoch of its last touch.
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
    uint8_t epoch = 0;  // Epoch of its first record.
    // Nodes of the segment by offset. The list still names nodes whose blocks have left, also if
    // their numbers were reused for other blocks.
    std::vector<NodeId> nodes;
    std::vector<OwnedBytes> owners;  // Tenants with live bytes here.
  };

  Node& At(NodeId id) { return nodes_[id]; }
  const Node& At(NodeId id) const { return nodes_[id]; }
  Segment& At(SegmentId segment) { return segments_[static_cast<size_t>(segment)]; }
  const Segment& At(SegmentId segment) const { return segments_[static_cast<size_t>(segment)]; }

  NodeId NodeOf(const BlockKey& key) const;      // Finds ghosts too; kNone: no node.
  NodeId ResidentOf(const BlockKey& key) const;  // kNone: the block is not here.
  NodeId Allocate(const BlockKey& key);
  void Free(NodeId id);
  uint64_t BytesOf(const Node& node) const;
  // Add the node's record to the bytes of its segment and of its owner, or subtract it.
  void Count(const Node& node);
  void Uncount(const Node& node);
  void Occupy(NodeId id, const RecordPlace& place);
  void Vacate(NodeId id);
  void Adopt(NodeId parent, NodeId child);
  void Orphan(NodeId child);  // Also frees a parent that is now a ghost without children.
  std::vector<NodeId> NodesIn(SegmentId segment) const;

  SteadyVector<Node> nodes_;  // Free nodes are empty but for `next`.
  NodeId free_ = kNone;       // Head of the free list.
  NumbersByKey<Node> ids_{&nodes_};
  ShapeTable shapes_;
  std::vector<Segment> segments_;
  absl::flat_hash_map<TenantTag, uint64_t> bytes_by_owner_;  // Tenants with live bytes only.
  size_t size_ = 0;
  uint64_t used_bytes_ = 0;
  uint8_t epoch_ = 0;
  uint32_t segments_begun_ = 0;  // Number of segments begun in this epoch.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECORD_INDEX_H_

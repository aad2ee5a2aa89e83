// HolderList is the list of nodes that hold one block, in 8 bytes. Most blocks have one to three
// holders, which fit inside; a list of up to 16 is stored in a HolderPool.
#ifndef KVTIER_COORDINATOR_HOLDER_LIST_H_
#define KVTIER_COORDINATOR_HOLDER_LIST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/tier.h"

namespace kvtier {

// Index of a node in the directory: small, reused, unknown outside the coordinator.
enum class NodeIndex : uint16_t {};

inline constexpr size_t kNodeIndexBits = 14;
inline constexpr size_t kMaxNodeIndices = size_t{1} << kNodeIndexBits;

// NodeCopies is one node and its tiers that hold the block, in 16 bits.
class NodeCopies {
 public:
  NodeCopies() = default;
  NodeCopies(NodeIndex node, Tier tier)
      : bits_(static_cast<uint16_t>(static_cast<uint16_t>(node) << kTierBits | Bit(tier))) {}
  NodeIndex node() const { return static_cast<NodeIndex>(bits_ >> kTierBits); }
  bool Has(Tier tier) const { return (bits_ & Bit(tier)) != 0; }
  bool HasAny() const { return (bits_ & (Bit(Tier::kHost) | Bit(Tier::kDisk))) != 0; }
  void Add(Tier tier) { bits_ |= Bit(tier); }
  void Remove(Tier tier) { bits_ &= static_cast<uint16_t>(~Bit(tier)); }
  uint16_t bits() const { return bits_; }
  static NodeCopies FromBits(uint16_t bits) {
    NodeCopies copies;
    copies.bits_ = bits;
    return copies;
  }

 private:
  static constexpr int kTierBits = 2;
  // Maps host and disk only: GPU slots are not reported.
  static constexpr uint16_t Bit(Tier tier) { return tier == Tier::kHost ? 1 : 2; }
  uint16_t bits_ = 0;
};
static_assert(sizeof(NodeCopies) == 2);

// Maximum number of holders of one block; an asker needs only one.
inline constexpr size_t kMaxHoldersPerKey = 16;

// HolderPool stores the lists that outgrow their 8 bytes. Thread-compatible.
class HolderPool {
 public:
  using Chunk = std::array<NodeCopies, kMaxHoldersPerKey>;
  uint32_t Allocate();
  void Free(uint32_t chunk) { free_.push_back(chunk); }
  Chunk& At(uint32_t chunk) { return chunks_[chunk]; }
  const Chunk& At(uint32_t chunk) const { return chunks_[chunk]; }
  size_t used() const { return chunks_.size() - free_.size(); }

 private:
  // A deque, which never moves its content, so that growth does not pause.
  std::deque<Chunk> chunks_;
  std::vector<uint32_t> free_;  // LIFO: warmest first.
};

// HolderList lists the holders. Thread-compatible. Every call gets the pool from which the list was
// filled. The owner calls Clear() before it drops a list, because a destructor would need a stored
// pointer to the pool. Invariants: at most one entry a node; each entry has a tier.
class HolderList {
 public:
  std::span<NodeCopies> View(HolderPool& pool);
  std::span<const NodeCopies> View(const HolderPool& pool) const;
  size_t size() const { return size_; }
  // Appends an entry. REQUIRES: size() < kMaxHoldersPerKey and there is no entry of copies.node().
  void Append(NodeCopies copies, HolderPool& pool);
  // Removes View()[place] and moves the last entry there.
  void RemoveAt(size_t place, HolderPool& pool);
  void Clear(HolderPool& pool);

 private:
  static constexpr size_t kInline = 3;
  bool inside() const { return size_ <= kInline; }
  uint32_t chunk() const { return uint32_t{inline_[0].bits()} << 16 | inline_[1].bits(); }
  void set_chunk(uint32_t chunk);
  // Holders while inside(), else the chunk's number in two halves.
  std::array<NodeCopies, kInline> inline_;
  uint16_t size_ = 0;
};
static_assert(sizeof(HolderList) == 8);

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_HOLDER_LIST_H_

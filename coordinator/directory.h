// Directory is the flat table from PeerName to the nodes that hold the block. A name stands for a
// whole prefix, so the longest prefix is found by a run of probes, without walking a tree. It knows
// node indices only; NodeTable knows which nodes they are and whether they live.
//
// Forgetting a node takes one step, whatever it held: its index is retired, entries of a retired
// index are ignored, and Sweep() drops them shard by shard before the index is used again. So no
// node's report delays those of other nodes.
//
// Thread-compatible. Invariants, checked by Audit(): keys() <= max_keys; no key without holders;
// blocks(n) is the number of keys that an enrolled n holds.
#ifndef KVTIER_COORDINATOR_DIRECTORY_H_
#define KVTIER_COORDINATOR_DIRECTORY_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "coordinator/holder_list.h"
#include "core/peer_name.h"
#include "core/tier.h"

namespace kvtier {

// Holders of one block, copied out of the directory.
struct HolderSet {
  std::array<NodeCopies, kMaxHoldersPerKey> entries;
  uint8_t size = 0;
  std::span<const NodeCopies> view() const { return {entries.data(), size}; }
};

class Directory {
 public:
  // Adds that were refused because something is full (law 6). Each is a hit that the directory does
  // not know.
  struct Refusals {
    uint64_t keys = 0;     // Number of adds of a new key to a full directory.
    uint64_t holders = 0;  // Number of adds of a further holder to a key that has 16.
  };

  // Makes an empty directory. REQUIRES: max_keys > 0.
  explicit Directory(size_t max_keys) : max_keys_(max_keys) {}

  // Returns a fresh index that holds nothing. REQUIRES: fewer than kMaxEnrolled are in use.
  NodeIndex Enrol();
  // Forgets everything that `node` holds. REQUIRES: enrolled.
  void Retire(NodeIndex node);
  // Half of all indices, so that as many retired ones may wait for their sweep.
  static constexpr size_t kMaxEnrolled = kMaxNodeIndices / 2;

  // Records that `node` holds `name` in `tier`; idempotent. A full directory refuses and counts it:
  // the node's copy stays unknown here. REQUIRES: enrolled; host or disk.
  void Add(const PeerName& name, NodeIndex node, Tier tier);
  // Undoes Add(); ignores an unknown copy. REQUIRES: as Add.
  void Remove(const PeerName& name, NodeIndex node, Tier tier);

  // Returns the holders of `name`, without entries of retired indices.
  HolderSet Find(const PeerName& name) const;
  // Returns the nodes that hold `name` and for which `usable` is true.
  HolderSet FindUsable(const PeerName& name, absl::FunctionRef<bool(NodeIndex)> usable) const;

  // Drops the entries of retired indices from one of kShards shards; does nothing if no index is
  // retired. Called now and then; see Retire.
  void Sweep();

  size_t keys() const { return keys_; }  // Includes keys that wait for their sweep.
  size_t blocks(NodeIndex node) const { return blocks_[static_cast<size_t>(node)]; }
  const Refusals& refusals() const { return refusals_; }
  // CHECKs the invariants above; visits every entry.
  void Audit() const;

  // There are many shards, so that neither the sweep nor the growth of one is noticed: 8,192 keys
  // each when the directory holds 8 million.
  static constexpr int kShardBits = 10;
  static constexpr size_t kShards = size_t{1} << kShardBits;
  static_assert(kMaxEnrolled + kShards <= kMaxNodeIndices);

 private:
  using Shard = absl::flat_hash_map<PeerName, HolderList>;
  struct Retired {
    NodeIndex node;
    uint64_t swept_at;  // Value of sweeps_ at which no shard can name it any more.
  };

  // Names are as good as random, so their top bits are as good as a hash.
  static size_t ShardOf(const PeerName& name) { return name.hi >> (64 - kShardBits); }
  bool enrolled(NodeIndex node) const { return enrolled_[static_cast<size_t>(node)]; }
  // Drops entries of retired indices from one list.
  void Prune(HolderList& holders);

  const size_t max_keys_;
  std::array<Shard, kShards> shards_;
  HolderPool pool_;
  size_t keys_ = 0;
  std::vector<uint32_t> blocks_ = std::vector<uint32_t>(kMaxNodeIndices);
  std::bitset<kMaxNodeIndices> enrolled_;
  size_t ever_enrolled_ = 0;     // Indices below it have been used.
  std::vector<NodeIndex> free_;  // Indices that are swept.
  std::deque<Retired> retired_;  // Oldest first.
  uint64_t sweeps_ = 0;          // Number of shards swept so far; the next is sweeps_ % kShards.
  Refusals refusals_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_DIRECTORY_H_

// BlockIndex is the node's truth: which blocks it has, in which tiers, and who
// holds them there. What is on disk the disk tier itself knows (DiskResidents); the
// index asks it, and keeps nothing of a block that is only there. Publishing is the last act of a
// put or load, unpublishing the first of an eviction (law 2).
//
// Executor thread only; no I/O. An entry lives while its block is in host or GPU memory.
// Invariants, checked by Audit(): an entry has at least one of them; the order of each
// tier, and the map of slots, have exactly the blocks of that tier; a pinned block is in its tier;
// the sums of what is pinned are those of the blocks.
#ifndef KVTIER_AGENT_INDEX_BLOCK_INDEX_H_
#define KVTIER_AGENT_INDEX_BLOCK_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "agent/index/host_order.h"
#include "agent/index/residency.h"
#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/node.h"
#include "core/reuse_leaves.h"
#include "core/tier.h"
#include "tier_disk/disk_residents.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class BlockIndex;

// One block that is in host or GPU memory. It stays where it is until the block has left both.
struct IndexedBlock {
  BlockMeta meta;
  HostSlot host;                           // Set: in the host tier.
  GpuSlot gpu;                             // Set: in the GPU tier.
  PayloadSum gpu_sum;                      // Of the bytes there, which `meta` need not be about.
  HostOrder::Place* host_place = nullptr;  // In the order of its domain, when in the host tier.
  uint32_t host_hits = 0;                  // Since it came into the host tier.
  uint32_t host_pins = 0;                  // Pins of the block in the host tier.
  uint32_t gpu_pins = 0;
};

// While a Pin lives its block stays in its tier. Move-only, never leaves the
// process. REQUIRES: outlived by the index.
class Pin {
 public:
  Pin() = default;
  Pin(Pin&& other) noexcept
      : index_(std::exchange(other.index_, nullptr)), tier_(other.tier_), block_(other.block_) {}
  Pin& operator=(Pin&& other) noexcept;
  ~Pin() { Release(); }
  explicit operator bool() const { return index_ != nullptr; }
  // REQUIRES of these: it pins a block.
  const IndexedBlock& block() const { return *block_; }
  const BlockKey& key() const { return block_->meta.key; }
  Tier tier() const { return tier_; }
  void Release();

 private:
  friend class BlockIndex;
  Pin(BlockIndex* index, Tier tier, IndexedBlock* block)
      : index_(index), tier_(tier), block_(block) {}
  BlockIndex* index_ = nullptr;
  Tier tier_ = Tier::kHost;
  IndexedBlock* block_ = nullptr;
};

class BlockIndex {
 public:
  using Entry = IndexedBlock;
  // Told of each change of host and disk, for the coordinator, after it happened.
  using Observer = absl::AnyInvocable<void(const Delta&)>;

  // `domains`: number of host domains; each has its own HostOrder.
  BlockIndex(size_t domains, Observer observer);

  // From here on the index answers for these disks too. Does not own.
  void AttachDisk(DiskResidents* disk) { disk_ = disk; }
  // From here on each change of GPU and host memory is told to the workers, too. Blocks of the
  // GPU pool are of `gpu_domain`. Does not own.
  void AttachResidency(Residency* residency, DomainId gpu_domain) {
    residency_ = residency;
    gpu_domain_ = gpu_domain;
  }

  // REQUIRES: the block is not in that tier; `slot` holds its verified bytes, and of the
  // GPU exactly those of `meta`'s sum.
  void PublishHost(const BlockMeta& meta, HostSlot slot);
  void PublishGpu(const BlockMeta& meta, GpuSlot slot, Arrival arrival = Arrival::kComputed);

  // Loads what PublishHost() of the block is about to look at into the processor's caches. It is
  // for many blocks in a row: the memory is waited for once.
  void WarmFor(DomainId domain, const BlockKey& key) const;

  // Takes the block out of the tier; the caller frees what it held by letting the
  // returned slot go. REQUIRES: it is in the tier and not pinned there.
  HostSlot UnpublishHost(const BlockKey& key);
  GpuSlot UnpublishGpu(const BlockKey& key);
  // The disks gained or are about to lose the block, which is of this tenant.
  void DiskChanged(Delta::Kind kind, const BlockKey& key, TenantTag owner);

  // nullptr: in neither host nor GPU memory. Valid until the next change.
  const Entry* Find(const BlockKey& key) const;
  bool In(Tier tier, const BlockKey& key) const;

  // nullopt: the block is not in that tier (kGpu or kHost).
  std::optional<Pin> PinIn(Tier tier, const BlockKey& key);
  bool IsPinnedInHost(const BlockKey& key) const;
  // A worker asked for the block and this node's memory had it. Ignores one that is not in
  // the host tier.
  void CountHit(const Pin& pin);
  // The domain's tenant is being erased. Who brings a block of it to memory looks at
  // erasures() before it begins, and publishes nothing when the number is another behind.
  void CountErasure(DomainId domain) { ++erasures_.at(static_cast<size_t>(domain)); }
  uint64_t erasures(DomainId domain) const { return erasures_.at(static_cast<size_t>(domain)); }
  // Marks a run as just used: its head ends up the warmest. REQUIRES: the blocks are in host or
  // GPU memory.
  void Touch(std::span<const Entry* const> run);

  // The coldest unpinned block with no child in the domain.
  std::optional<BlockKey> ColdestInHost(DomainId domain) const;
  // HostOrder::VictimsFor(); `slots` are the domain's.
  std::vector<BlockKey> VictimsInHost(DomainId domain, uint64_t slot_bytes, const SlotPool& slots);
  // The unpinned block with no child in the pool whose slot is worth the least.
  std::optional<BlockKey> CheapestInGpu() const;
  // Of those that host memory or a disk has, too; looks at the cheapest few only.
  std::optional<BlockKey> CheapestCopyInGpu() const;
  // The unpinned blocks of the pool that no other tier has, in the order in which they would
  // leave it, `limit` at most; looks at the cheapest few only.
  std::vector<BlockKey> CheapestOnlyInGpu(size_t limit) const;
  // Nobody has pinned the block, and no child of it is in the pool. REQUIRES of these two:
  // it is in the pool.
  bool MayLeaveGpu(const BlockKey& key) const { return gpu_leaves_.IsCandidate(key); }
  // Another number than before: it was used meanwhile.
  uint64_t LastUseInGpu(const BlockKey& key) const { return gpu_leaves_.LastUseOf(key); }
  // Blocks in the pool's slots from `first` on that nobody has pinned, by slot; `limit` at
  // most.
  std::vector<BlockKey> UnheldInGpuFrom(uint32_t first, size_t limit) const;

  // The tier nearest to the GPU that has the block; nullopt: none on this node.
  std::optional<Tier> NearestTier(const BlockKey& key) const;
  size_t domain_count() const { return host_.size(); }
  // HostOrder::From() of the domain.
  std::vector<BlockKey> InHostFrom(DomainId domain, size_t blocks, uint64_t bytes,
                                   uint64_t* offset) const {
    return host_.at(static_cast<size_t>(domain)).From(offset, blocks, bytes);
  }
  size_t blocks_in(Tier tier) const;
  // Counts the copies of blocks in all tiers.
  size_t copies() const;
  size_t blocks_in_host(DomainId domain) const {
    return host_.at(static_cast<size_t>(domain)).size();
  }
  // Counts the pool's blocks that host memory does not have. O(blocks there).
  size_t blocks_only_in_gpu() const;
  uint64_t pinned_bytes(Tier tier) const { return pinned_bytes_[TierIndex(tier)]; }
  // Of the pool's slots with blocks, the bytes that no payload uses. O(blocks there).
  uint64_t gpu_padding_bytes() const;
  // Host and disk copies as adds, in the order of the keys: a snapshot.
  std::vector<Delta> Snapshot() const;
  void Audit() const;

 private:
  friend class Pin;
  Entry& EntryFor(const BlockMeta& meta);
  void EraseIfEmpty(const BlockKey& key);
  // Of a block in host memory.
  HostOrder& HostOrderOf(const Entry& entry);
  void Unpin(Tier tier, Entry* entry);
  void Changed(Delta::Kind kind, Tier tier, const BlockKey& key);
  void TellWorkers(Delta::Kind kind, DomainId domain, Tier tier, const BlockKey& key);
  // The tables of the workers have exactly the blocks of GPU and host memory.
  void AuditResidency() const;

  Observer observer_;
  DiskResidents* disk_ = nullptr;   // nullptr: no disk tier.
  Residency* residency_ = nullptr;  // nullptr: no worker is told.
  DomainId gpu_domain_{};
  absl::node_hash_map<BlockKey, Entry> entries_;  // Nodes: pins point at them.
  std::vector<HostOrder> host_;                   // By domain.
  std::vector<uint64_t> erasures_;                // By domain.
  ReuseLeaves gpu_leaves_;
  std::map<uint32_t, BlockKey> gpu_slots_;  // What is in each slot of the pool.
  std::array<size_t, kTierCount> counts_{};
  std::array<uint64_t, kTierCount> pinned_bytes_{};  // Payloads of the blocks pinned in each tier.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_BLOCK_INDEX_H_

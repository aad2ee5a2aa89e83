// DiskTier keeps blocks on one disk: an append-only log of records in segments, a
// manifest that makes them findable after kill -9, and verification of every read.
// It decides where records go and which segment is reclaimed; it does no I/O of
// its own (Disk and Manifest are seams) and knows nothing of hosts or peers.
//
// Executor thread only. Does not own `executor`, `workers`, `disk`, `manifest`.
// REQUIRES: the tasks of its calls have ended, or were destroyed, before the tier is.
// Invariants, checked by Audit(): every live record lies in one segment, records
// of a segment do not overlap, used_bytes() is their sum.
#ifndef KVTIER_TIER_DISK_DISK_TIER_H_
#define KVTIER_TIER_DISK_DISK_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "core/byte_workers.h"
#include "core/eviction_policy.h"
#include "core/eviction_summary.h"
#include "core/executor.h"
#include "core/reuse_hazards.h"
#include "core/task.h"
#include "core/tier_stats.h"
#include "tier_disk/cipher/tenant_keys.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/disk_residents.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/log/room_shares.h"
#include "tier_disk/manifest/manifest.h"
#include "tier_disk/scrub.h"

namespace kvtier {

// Largest number of Put() in flight; the next one is declined, not queued.
inline constexpr size_t kMaxDiskPutsInFlight = 64;
inline constexpr size_t kMaxDiskGetsInFlight = 256;
// Where payloads are sealed, each put has a buffer of its block's size beside its slot.
inline constexpr size_t kMaxSealedPutsInFlight = 16;
// Whose blocks are in a test or bench that has no tenants.
inline constexpr char kNoTenant[] = "default";
// One open, one reserve for reclaim; more waste less.
inline constexpr uint32_t kMinSegments = 2;

struct DiskTierOptions {
  // Seals payloads; null: they lie in the clear. Not owned. What of the other kind a manifest tells
  // of is dropped. REQUIRES: made for this tier, and knows no tenant yet: its opening is that of
  // the one SegmentLog here.
  TenantKeys* keys = nullptr;
  // What reclaim appends again: ReclaimOrder.
  EvictionPolicy eviction = EvictionPolicy::kLearnt;
};

class DiskTier final : public DiskResidents {
 public:
  // Called when a block has become readable here, and before one stops being so
  // (reclaimed, damaged or erased): unpublish it (law 2), then return; bytes and
  // manifest entry go after that. Not called for what Open() finds. Must not call the
  // tier. `owner` is the tenant that put the block.
  enum class Change : uint8_t { kAdded, kDropped };
  using Observer = absl::AnyInvocable<void(Change, const BlockKey&, TenantTag owner)>;

  struct Reclaimed {  // What making room cost so far.
    uint64_t segments = 0;
    uint64_t reappended_blocks = 0;
    uint64_t reappended_bytes = 0;  // Of records: written a second time.
  };
  struct Recovery {  // What Open() found.
    uint64_t recovered_blocks = 0;
    uint64_t dropped_stale = 0;    // The segment's generation had moved on.
    uint64_t dropped_corrupt = 0;  // Manifest values that did not prove themselves.
    uint64_t dropped_misfit = 0;   // Outside the disk as it is configured now.
    uint64_t dropped_keyless = 0;  // Sealed under a key that exists no longer.
  };

  // Reclaim runs in the background. A tier whose I/O is real may only be destroyed when
  // Idle() has said true, or with the process.
  DiskTier(Executor* executor, ByteWorkers* workers, Disk* disk, Manifest* manifest,
           Observer observer, const DiskTierOptions& options = {});
  ~DiskTier() override;

  // Loads the manifest, forgets what cannot be trusted and gives every segment that
  // holds no block a new generation; call once, before anything else. Errors: the
  // manifest's; kInvalidArgument, the disk has fewer than kMinSegments segments.
  Task<absl::StatusOr<Recovery>> Open();

  // Waits until no reclaim runs; false: one still does at the deadline.
  Task<bool> Idle(absl::Time deadline);

  // Writes the record, then the manifest; on return the block is durable and
  // readable here. `slot` holds SlotBytes(length) bytes, the payload first, and
  // must stay unchanged until then. A block already here is kOk and writes nothing.
  // `tenant` is whose block it is. If payloads are sealed, a new tenant gets a salt, on the
  // device before anything is sealed with it. Errors: kResourceExhausted, declined (too many
  // in flight, no room could be made for it or for its row, larger than a segment, or one
  // tenant too many: drop it or try later); kUnavailable, the disk or the manifest failed.
  // If sealed: kAborted, the tenant is being erased; kDataLoss, the payload has not the sum
  // of `meta`; kInvalidArgument, the tenant's name.
  Task<absl::Status> Put(BlockMeta meta, std::span<const std::byte> slot,
                         std::string tenant = kNoTenant);
  // Reads into `slot` (SlotBytes(length) bytes, page-aligned), verifies, and returns
  // what the record says of the block. Errors: kNotFound, not here, reclaimed
  // meanwhile, or of a length that `slot` is not for; kDataLoss, the bytes were not the block's
  // (dropped, counted); kUnavailable; kResourceExhausted, too many in flight. On any error the
  // bytes of `slot` are undefined. `io_class`: kForeground when somebody waits, else kPrefetch.
  Task<absl::StatusOr<BlockMeta>> Get(BlockKey key, std::span<std::byte> slot,
                                      IoClass io_class = IoClass::kForeground);
  // A Get() of the block that runs as a prefetch is waited for now.
  void Hasten(const BlockKey& key);
  // Forgets the block: index, then manifest. kOk when it is not here. Errors:
  // kUnavailable, the manifest failed; the block may be back after a restart.
  Task<absl::Status> Erase(BlockKey key);

  // Verifies the records of the disk pass after pass, at `bytes_per_second` (0: only
  // when VerifyAll() asks), with IoClass::kScrub and one read at a time. What is damaged
  // goes the way of a damaged Get(). Ends after StopScrub(). Call once, after Open().
  Task<void> RunScrub(uint64_t bytes_per_second);
  void StopScrub();  // Also before RunScrub().
  // Begins a pass over the whole disk now, at this rate; see scrub(). Errors:
  // kAlreadyExists, one that was asked for is under way; kFailedPrecondition, RunScrub()
  // does not run. REQUIRES: the rate is not 0.
  absl::Status VerifyAll(uint64_t bytes_per_second);
  ScrubReport scrub() const;

  // Destroys the tenant's key, then forgets its blocks; returns how many. On return nobody
  // can open a record of the tenant, with the secret or without; reads that were under way
  // may still end well. The tenant may come back, with another key. Calling it again is
  // harmless, and the way on after an error or a crash. Errors: kFailedPrecondition, payloads
  // are not sealed here; kInvalidArgument, the name; kAborted, another call is erasing it;
  // kUnavailable, the manifest failed: nothing hits any more, and may again after a restart.
  Task<absl::StatusOr<uint64_t>> EraseTenant(std::string tenant);
  // The disk has a key of the tenant, or an erasure of it failed, so that it may still have.
  // REQUIRES: Open() has succeeded.
  bool KnowsTenant(const std::string& tenant) const;

  // Says what each tenant may have of the disk's room, from now on: RoomShares::Set(). A tenant
  // whose put exceeds its maximum gives up blocks of its own for it; the put is declined where
  // that is not enough. Errors: kInvalidArgument, nothing changes.
  absl::Status SetShares(std::span<const OwnerShare> shares);
  std::vector<TenantRoom> Tenants() const;  // RoomShares::Report().
  uint64_t divided_bytes() const;           // RoomShares::divided_bytes().

  std::optional<DiskBlock> Find(const BlockKey& key) const;
  // RecordIndex::OwnerOf().
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  bool Contains(const BlockKey& key) const override;
  bool HasChildOf(const BlockKey& key) const override;
  void ForEachChildOf(const BlockKey& key,
                      absl::FunctionRef<bool(const BlockKey&)> visit) const override;
  std::vector<BlockKey> Keys() const override;
  size_t block_count() const override;
  void Touch(const BlockKey& key, const ReuseHint& hint) override;
  // The two halves of Touch(), for several disks. NoteUse() tells the order of reclaim of the use
  // of one block; MarkWarm() is RecordIndex::Touch().
  void NoteUse(const BlockKey& key, const ReuseHint& hint);
  std::optional<BlockKey> MarkWarm(const BlockKey& key);
  // Returns ReclaimOrder::Summary().
  EvictionSummary eviction() const;
  // Returns ReclaimOrder::hazards().
  ReuseHazards* hazards();
  uint64_t capacity_bytes() const;  // Of all segments but the reserve.
  uint64_t used_bytes() const;      // Of live records, headers included.
  uint64_t index_bytes() const;     // Memory that the index takes.
  uint64_t manifest_bytes() const;  // Memory that the manifest takes.
  const TierStats& stats() const;
  const Reclaimed& reclaimed() const;
  void Audit() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_TIER_H_

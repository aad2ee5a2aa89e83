// DiskTier keeps blocks on one disk: an append-only log of records in segments, a manifest that
// finds the records again after kill -9, and verification of every read. It decides where records
// go and which segment is reclaimed. It does no I/O itself (Disk and Manifest are seams) and knows
// nothing of hosts or peers.
//
// Executor thread only. Does not own `executor`, `byte_threads`, `disk`, `manifest`.
// REQUIRES: the tasks of its calls have ended, or were destroyed, before the tier is.
// Invariants, checked by Audit(): every live record lies in one segment, records of a segment do
// not overlap, used_bytes() is their sum.
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
#include "core/byte_threads.h"
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

// Maximum number of Put() in flight; the next one is declined, not queued.
inline constexpr size_t kMaxDiskPutsInFlight = 64;
inline constexpr size_t kMaxDiskGetsInFlight = 256;
// Maximum number of puts in flight where payloads are sealed: each needs a buffer of its block's
// size in addition to its slot.
inline constexpr size_t kMaxSealedPutsInFlight = 16;
// Tenant of blocks in a test or bench that has no tenants.
inline constexpr char kNoTenant[] = "default";
// Minimum number of segments: one open, and one reserve for reclaim. More segments waste a smaller
// part.
inline constexpr uint32_t kMinSegments = 2;

struct DiskTierOptions {
  // Keys that seal payloads; null: payloads are in the clear. Borrowed. Open() drops manifest rows
  // of sealed blocks if null, and of blocks in the clear if not. REQUIRES: the keys know no tenant
  // yet, and seal for this tier only, because a second SegmentLog would repeat nonces.
  TenantKeys* keys = nullptr;
  // Policy that decides which blocks reclaim appends again: ReclaimOrder.
  EvictionPolicy eviction = EvictionPolicy::kLearnt;
};

class DiskTier final : public DiskResidents {
 public:
  // Called when a block has become readable here, and before a block stops being readable
  // (reclaimed, damaged or erased). In the latter case the follower unpublishes it (law 2) before
  // it returns; bytes and manifest entry are removed after that. Not called for blocks that Open()
  // finds. Must not call the tier. `owner` is the tenant that put the block.
  enum class Change : uint8_t { kAdded, kDropped };
  using Follower = absl::AnyInvocable<void(Change, const BlockKey&, TenantTag owner)>;

  struct Reclaimed {  // Cost of making room so far.
    uint64_t segments = 0;
    uint64_t reappended_blocks = 0;
    uint64_t reappended_bytes = 0;  // Bytes of records that were written a second time.
  };
  struct Recovery {  // Result of Open().
    uint64_t recovered_blocks = 0;
    uint64_t dropped_stale = 0;  // Number of rows of an older generation of their segment.
    // Number of manifest values that failed their checksum or format.
    uint64_t dropped_corrupt = 0;
    uint64_t dropped_misfit = 0;   // Number of rows outside the disk as it is configured now.
    uint64_t dropped_keyless = 0;  // Number of rows sealed under a key that no longer exists.
  };

  // Makes a tier that is not open. Reclaim runs in the background. A tier with real I/O may be
  // destroyed only after Idle() has returned true, or with the process.
  DiskTier(Executor* executor, ByteThreads* byte_threads, Disk* disk, Manifest* manifest,
           Follower follower, const DiskTierOptions& options = {});
  ~DiskTier() override;

  // Loads the manifest, drops what cannot be trusted, and gives every segment without blocks a new
  // generation. Call it once, before anything else. Errors: the manifest's; kInvalidArgument, the
  // disk has fewer than kMinSegments segments.
  Task<absl::StatusOr<Recovery>> Open();

  // Waits until no reclaim runs; returns false if one still runs at the deadline.
  Task<bool> Idle(absl::Time deadline);

  // Writes the record, then the manifest; on return the block is durable and readable here. `slot`
  // holds SlotBytes(length) bytes, the payload first, and must stay unchanged until then. If the
  // block is already here, its record is read and verified first: kOk, and nothing is written, or
  // the record is damaged and is replaced. `tenant` owns the block. If payloads are
  // sealed, a new tenant gets a salt, which is on the device before anything is sealed with it.
  // Errors: kResourceExhausted, declined (too many in flight, no room could be made for it or for
  // its row, larger than a segment, or one tenant too many: drop it or try later); kUnavailable,
  // the disk or the manifest failed. If sealed: kAborted, the tenant is being erased; kDataLoss,
  // the payload does not have the sum in `meta`; kInvalidArgument, the tenant's name.
  Task<absl::Status> Put(BlockMeta meta, std::span<const std::byte> slot,
                         std::string tenant = kNoTenant);
  // Reads into `slot` (SlotBytes(length) bytes, page-aligned), verifies, and returns what the
  // record says of the block. `io_class`: kForeground when somebody waits, else kPrefetch. On any
  // error the bytes of `slot` are undefined.
  // Errors: kNotFound, not here, reclaimed meanwhile, or of a length that does not match `slot`;
  // kDataLoss, the bytes were damaged (the block is dropped and counted); kUnavailable;
  // kResourceExhausted, too many in flight.
  Task<absl::StatusOr<BlockMeta>> Get(BlockKey key, std::span<std::byte> slot,
                                      IoClass io_class = IoClass::kForeground);
  // Moves a Get() of the block that runs as a prefetch to the foreground, because somebody waits
  // for it now.
  void MoveToForeground(const BlockKey& key);
  // Erases the block: from the index, then from the manifest. kOk if it is not here. Errors:
  // kUnavailable, the manifest failed; the block may be back after a restart.
  Task<absl::Status> Erase(BlockKey key);
  // Returns whether the blocks that are here now survive the end of the process. Errors: those of
  // an empty Manifest::Commit().
  Task<absl::Status> Confirm();
  // Returns Manifest::HasRoom(): while it is not OK, each Put() is declined.
  absl::Status HasRoom() const;

  // Verifies the records of the disk pass after pass, at `bytes_per_second` (0: only when
  // VerifyAll() asks), with IoClass::kScrub and one read at a time. A damaged record is handled as
  // by Get(). Ends after StopScrub(). Call it once, after Open().
  Task<void> RunScrub(uint64_t bytes_per_second);
  void StopScrub();  // Callable also before RunScrub().
  // Begins a pass over the whole disk now, at this rate; see scrub(). Errors: kAlreadyExists, a
  // requested pass is running; kFailedPrecondition, RunScrub() does not run. REQUIRES: the rate is
  // not 0.
  absl::Status VerifyAll(uint64_t bytes_per_second);
  ScrubReport scrub() const;

  // Destroys the tenant's key, then erases its blocks; returns how many. On return nobody can open
  // a record of the tenant, with or without the secret; reads that were in progress may still
  // succeed. The tenant may come back, with another key. Calling it again is harmless, and
  // completes it after an error or a crash. Errors: kFailedPrecondition, payloads are not sealed
  // here; kInvalidArgument, the name; kAborted, another call is erasing it; kUnavailable, the
  // manifest failed: no block of it is served any more, but may be again after a restart.
  Task<absl::StatusOr<uint64_t>> EraseTenant(std::string tenant);
  // Returns whether the disk has a key of the tenant, or may have it because an erasure failed.
  // REQUIRES: Open() has succeeded.
  bool KnowsTenant(const std::string& tenant) const;

  // Sets the share of each tenant in the disk's room, from now on: RoomShares::Set(). A tenant
  // whose put exceeds its maximum gives up blocks of its own for it; the put is declined if that is
  // not enough. Errors: kInvalidArgument, nothing changes.
  absl::Status SetShares(std::span<const OwnerShare> shares);
  std::vector<TenantRoom> Tenants() const;  // Returns RoomShares::Report().
  uint64_t divided_bytes() const;           // Returns RoomShares::divided_bytes().

  std::optional<DiskBlock> Find(const BlockKey& key) const;
  // Returns RecordIndex::OwnerOf().
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  bool Contains(const BlockKey& key) const override;
  bool HasChildOf(const BlockKey& key) const override;
  void ForEachChildOf(const BlockKey& key,
                      absl::FunctionRef<bool(const BlockKey&)> visit) const override;
  bool KeysFrom(DiskWalk* at, size_t limit, std::vector<BlockKey>* keys) const override;
  size_t block_count() const override;
  void Touch(const BlockKey& key, const ReuseHint& hint) override;
  // The two halves of Touch(), for several disks. NoteUse() notes a use of this one block in the
  // order of reclaim. MarkWarm() returns RecordIndex::Touch().
  void NoteUse(const BlockKey& key, const ReuseHint& hint);
  std::optional<BlockKey> MarkWarm(const BlockKey& key);
  // Returns ReclaimOrder::Summary().
  EvictionSummary eviction() const;
  // Returns ReclaimOrder::hazards().
  ReuseHazards* hazards();
  uint64_t capacity_bytes() const;  // Bytes of all segments but the reserve.
  uint64_t used_bytes() const;      // Bytes of live records, headers included.
  uint64_t index_bytes() const;     // Memory of the index.
  uint64_t manifest_bytes() const;  // Memory of the manifest.
  const TierStats& stats() const;
  const Reclaimed& reclaimed() const;
  void Audit() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_TIER_H_

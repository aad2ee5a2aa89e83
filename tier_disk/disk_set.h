// DiskSet is the disk tier of a node with several disks: it has a DiskTier for each, and one set of
// calls over them. It decides on which disk a block goes, takes the blocks of a quarantined disk
// out of service and puts them back. It moves no bytes itself.
//
// Executor thread only. Owns no disk. Background work (opening, announcing, erasing) runs in
// `scope`.
// REQUIRES: the tasks of its calls and of `scope` have ended, or were destroyed, before the set is;
// the members outlive it.
// Invariants, checked by Audit(): a block is on at most one disk, except for hidden copies,
// which are never served and wait for their erase.
#ifndef KVTIER_TIER_DISK_DISK_SET_H_
#define KVTIER_TIER_DISK_DISK_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tier_stats.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/disk_residents.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/io/watched_disk.h"
#include "tier_disk/placement.h"

namespace kvtier {

// Number of blocks announced in one turn of the executor when a disk joins or leaves.
inline constexpr size_t kAnnouncedPerTurn = 256;

class DiskSet final : public DiskResidents {
 public:
  // Disk of the set. `tier` is over `disk`, and its follower calls TierChanged() with the member's
  // index.
  struct Member {
    DiskId id;
    DiskTier* tier = nullptr;
    WatchedDisk* disk = nullptr;
  };
  // Called like the follower of a tier, for the whole set. The follower may get kAdded for a block
  // that it knows, when a disk came back with the block. It may get kDropped for a block that it
  // does not know, when the disk is quarantined and the block was already unreadable. It is not
  // called for blocks that Open() finds by its deadline. It must not call the set.
  using Change = DiskTier::Change;
  using Follower = DiskTier::Follower;
  struct Recovery {
    DiskTier::Recovery total;  // recovered_blocks: the blocks that are served.
    // Number of blocks found on two disks, of which one copy is dropped.
    uint64_t dropped_duplicates = 0;
    // Result of each member, in their order. kDeadlineExceeded: the disk is not yet open; its
    // blocks come later by kAdded.
    std::vector<absl::StatusOr<DiskTier::Recovery>> disks;
  };
  struct DiskStatus {
    DiskId id;
    bool serving = false;
    // DiskHealth::Describe(), why the disk is not open, or why it takes no blocks although it
    // serves.
    std::string health;
    uint64_t quarantines = 0;
    size_t block_count = 0;  // Number of its blocks, served or not.
    uint64_t capacity_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t index_bytes = 0;     // Memory of its index.
    uint64_t manifest_bytes = 0;  // Memory of its manifest.
    uint64_t bytes_in = 0;        // Same meaning as in TierStats, as has bytes_out.
    uint64_t bytes_out = 0;
    uint64_t written_bytes = 0;     // WatchedDisk::written_bytes().
    uint64_t reappended_bytes = 0;  // Part of written_bytes; as in DiskTier::Reclaimed.
    uint64_t io_errors = 0;
    ScrubReport scrub;
  };
  struct Calls {
    size_t puts = 0;
    size_t gets = 0;
  };

  // Returns the bytes that a block of `length` payload bytes takes on a disk.
  static uint64_t BytesOnDisk(uint64_t length);

  // Makes a set. REQUIRES: at least one member; ids are distinct.
  DiskSet(Executor* executor, TaskScope* scope, const std::vector<Member>& members,
          Follower follower);
  ~DiskSet() override;

  // Opens all disks at the same time; call it once, before anything else. Ends by `deadline`: a
  // disk that opens later joins the set then, and a disk that fails to open stays out until the
  // next start, also if it is the only one.
  Task<Recovery> Open(absl::Time deadline);

  // Scrubs every disk, in `scope`, from when it opens: DiskTier::RunScrub(). Call it once, after
  // Open().
  void StartScrub(uint64_t bytes_per_second);
  void StopScrub();
  // Calls DiskTier::VerifyAll() on every disk; returns the results in the order of the members.
  std::vector<absl::Status> VerifyAll(uint64_t bytes_per_second);

  // Waits until no reclaim runs on any disk; returns false if one still runs at the deadline.
  Task<bool> Idle(absl::Time deadline);

  // Calls DiskTier::Put() on the disk that has the block, or else on the one where it belongs; if
  // that one does not take it, on the next. A disk that hangs holds up only the calls that use this
  // disk, which wait because the device may still use their bytes; this is so for all methods.
  // Errors: those of the last disk tried; kUnavailable, no disk serves, or the disk that took the
  // block no longer does.
  Task<absl::Status> Put(BlockMeta meta, std::span<const std::byte> slot,
                         std::string tenant = kNoTenant);
  // Calls DiskTier::Get() on the disk that has the block. Errors: that disk's; kNotFound, no
  // serving disk has it.
  Task<absl::StatusOr<BlockMeta>> Get(BlockKey key, std::span<std::byte> slot,
                                      IoClass io_class = IoClass::kForeground);
  // Calls DiskTier::MoveToForeground() on the disk that has the block.
  void MoveToForeground(const BlockKey& key);
  // Erases the block on every disk, on a quarantined disk when it comes back. (A disk that is not
  // open yet may still bring the block.) Errors: kUnavailable, a manifest failed; the block may be
  // back after a restart.
  Task<absl::Status> Erase(BlockKey key);

  // Calls DiskTier::Confirm() on a member; a disk whose files are gone is then out of service.
  // Errors: the tier's; kUnavailable, it does not serve.
  Task<absl::Status> Confirm(size_t member);

  struct TenantErasure {
    uint64_t blocks = 0;  // Number of blocks dropped from the disks that completed it.
    size_t disks = 0;     // Number of disks that completed it.
    absl::Status status;
  };
  // Calls DiskTier::EraseTenant() on every disk; until it ends the tenant's puts are kAborted. The
  // status is the first disk's error, or kUnavailable, naming a disk that is not open or out of
  // service. The other disks have completed it, so call it again when that disk is back.
  Task<TenantErasure> EraseTenant(std::string tenant);
  // Returns whether DiskTier::KnowsTenant() of any disk. Errors: kUnavailable, no open disk knows
  // it, and a disk that is not open may.
  absl::StatusOr<bool> KnowsTenant(const std::string& tenant) const;

  // Divides each tenant's share of the node over all disks, in proportion to their capacities, and
  // sets it there: DiskTier::SetShares(). Callable at any time, also before Open(). Errors:
  // kInvalidArgument, nothing changes.
  absl::Status SetShares(std::span<const OwnerShare> shares);
  // Returns the room of the tenants on all disks, serving or not, by tag.
  std::vector<TenantRoom> Tenants() const;
  uint64_t divided_bytes() const;  // Sum of DiskTier::divided_bytes() of all disks.

  // Returns the block's entry on a serving disk; nullopt: none has it.
  std::optional<DiskBlock> Find(const BlockKey& key) const;
  // Returns the tenant that put the block; nullopt: no serving disk has it.
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  bool Contains(const BlockKey& key) const override { return Holder(key) != nullptr; }
  bool HasChildOf(const BlockKey& key) const override;
  void ForEachChildOf(const BlockKey& key,
                      absl::FunctionRef<bool(const BlockKey&)> visit) const override;
  bool KeysFrom(DiskWalk* at, size_t limit, std::vector<BlockKey>* keys) const override;
  size_t block_count() const override;
  // Marks the block and its ancestors as used; follows the prefix from disk to disk.
  void Touch(const BlockKey& key, const ReuseHint& hint) override;
  uint64_t capacity_bytes() const;
  uint64_t used_bytes() const;  // Includes hidden copies.

  // Return the number of members, one member's tier, and whether the member serves. Members are
  // numbered in the constructor's order.
  size_t disk_count() const { return disks_.size(); }
  const DiskTier& tier(size_t member) const;
  bool serves(size_t member) const;
  // Returns whether the follower knows exactly the blocks that the disks serve. False: a disk has
  // just joined or left, and its blocks are being announced or withdrawn.
  bool settled() const;
  // Returns the member on which Put() tries the block first; nullopt: none serves.
  std::optional<size_t> DiskFor(const BlockKey& key) const;
  // Returns the serving member that has the block; nullopt: none has.
  std::optional<size_t> HolderOf(const BlockKey& key) const;

  TierStats stats() const;  // Sum over all disks; a put that two disks declined counts twice.
  std::vector<DiskStatus> Statuses() const;
  // Returns the number of calls in flight on disks out of service, which may never end. A bound on
  // calls in flight should not count these calls, or one bad disk could use up the bound.
  Calls stuck() const;
  void Audit() const;

  // Receives the changes that the members' followers report.
  void TierChanged(size_t member, Change change, const BlockKey& key, TenantTag owner);

 private:
  struct Disk;
  // Returns the serving disk that has the block, with at most one look at each index.
  Disk* Holder(const BlockKey& key) const;
  // Returns whether a serving disk other than `disk` has the block.
  bool IsElsewhere(const Disk* disk, const BlockKey& key) const;
  Task<absl::Status> PutOn(Disk* disk, const BlockMeta& meta, std::span<const std::byte> slot,
                           const std::string& tenant);
  // Ends a put on this disk: keeps the new copy and hides those on other disks, or hides the new
  // copy.
  absl::Status KeepOneCopy(Disk* disk, const BlockKey& key);
  // Hides the disk's copy, if it has one, and erases it when that is possible.
  void HideCopy(Disk* disk, const BlockKey& key);
  Task<absl::Status> EraseOn(Disk* disk, BlockKey key);
  Task<void> EraseHidden(Disk* disk);

  static std::string HealthOf(const Disk& disk);  // Returns DiskStatus::health.
  Task<void> OpenOne(Disk* disk);
  void ScrubIfOpen(Disk* disk);
  // Hides, when a disk has opened, its copies of blocks that other disks have. Hides the other copy
  // instead if the other disk is quarantined. Returns how many copies of `disk` are hidden.
  uint64_t HideDuplicates(Disk* disk);
  // Does so a few blocks a turn; the disk does not serve yet.
  Task<void> HideDuplicatesInTurns(Disk* disk);
  void HideDuplicates(Disk* disk, std::span<const BlockKey> keys);
  void HealthChanged(Disk* disk);
  void StartUpdate(Disk* disk);
  void StartErasing(Disk* disk);
  // Announces or withdraws the disk's blocks until the follower knows what the disk serves.
  Task<void> UpdateAnnouncements(Disk* disk);
  Task<void> Withdraw(Disk* disk);
  Task<void> Admit(Disk* disk);

  Executor* const executor_;  // Borrowed.
  TaskScope* const scope_;    // Borrowed.
  const Placement placement_;
  Follower follower_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::shared_ptr<Event> all_ended_opening_;
  size_t opening_ = 0;
  bool open_ = false;
  absl::flat_hash_set<std::string> erasing_;        // Tenants that are being erased.
  std::optional<uint64_t> scrub_bytes_per_second_;  // Set from StartScrub() until StopScrub().
  uint64_t misses_ = 0;                             // Number of gets of blocks on no serving disk.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_SET_H_

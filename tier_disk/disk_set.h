// DiskSet is the disk tier of a node with several disks: a DiskTier each, and one set
// of calls over them. It decides on which disk a block goes, takes the blocks of a
// quarantined disk out of service and puts them back. It moves no bytes of its own.
//
// Executor thread only. Owns no disk. Background work (opening, announcing, erasing)
// runs in `scope`. REQUIRES: the tasks of its calls and of `scope` have ended, or were
// destroyed, before the set is; the members outlive it.
// Invariants, checked by Audit(): a block is on one disk at most, but for copies that
// are forgotten, which are never served and wait for their erase.
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

// Blocks announced in one turn of the executor when a disk comes or goes.
inline constexpr size_t kAnnouncedPerTurn = 256;

class DiskSet final : public DiskResidents {
 public:
  // `tier` is over `disk`, and its observer calls TierChanged() with the member's index.
  struct Member {
    DiskId id;
    DiskTier* tier = nullptr;
    WatchedDisk* disk = nullptr;
  };
  // As the tier's. kAdded also when a disk came back with the block: may tell of a known
  // one. kDropped also when the disk is quarantined and the block already unreadable:
  // may tell of an unknown one. Not called for what Open() finds in time. Must not call
  // the set.
  using Change = DiskTier::Change;
  using Observer = DiskTier::Observer;
  struct Recovery {
    DiskTier::Recovery total;         // recovered_blocks: the ones that are served.
    uint64_t dropped_duplicates = 0;  // Blocks found on two disks: one copy goes.
    // As the members are. kDeadlineExceeded: not yet open, comes by kAdded.
    std::vector<absl::StatusOr<DiskTier::Recovery>> disks;
  };
  struct DiskStatus {
    DiskId id;
    bool serving = false;
    std::string health;  // DiskHealth::Describe(), or why the disk is not open.
    uint64_t quarantines = 0;
    size_t block_count = 0;  // Served or not.
    uint64_t capacity_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t index_bytes = 0;     // Memory that its index takes.
    uint64_t manifest_bytes = 0;  // Memory that its manifest takes.
    uint64_t bytes_in = 0;        // These two: as in TierStats.
    uint64_t bytes_out = 0;
    uint64_t written_bytes = 0;     // WatchedDisk::written_bytes().
    uint64_t reappended_bytes = 0;  // As in DiskTier::Reclaimed; part of the written.
    uint64_t io_errors = 0;
    ScrubReport scrub;
  };
  struct Calls {
    size_t puts = 0;
    size_t gets = 0;
  };

  // Returns the bytes that a block of `length` payload bytes takes on a disk.
  static uint64_t BytesOnDisk(uint64_t length);

  // REQUIRES: at least one member; ids are distinct.
  DiskSet(Executor* executor, TaskScope* scope, const std::vector<Member>& members,
          Observer observer);
  ~DiskSet() override;

  // Opens all disks at the same time; call once, before anything else. Ends by
  // `deadline`: a disk that opens later joins then, one that fails stays out until the
  // next start. Errors: the first disk's, if none opened.
  Task<absl::StatusOr<Recovery>> Open(absl::Time deadline);

  // Scrubs every disk from when it opens on, in `scope`: DiskTier::RunScrub(). Call once,
  // after Open().
  void StartScrub(uint64_t bytes_per_second);
  void StopScrub();
  // DiskTier::VerifyAll() on every disk; what each said, as the members are.
  std::vector<absl::Status> VerifyAll(uint64_t bytes_per_second);

  // Waits until no reclaim runs on any disk; false: one still does at the deadline.
  Task<bool> Idle(absl::Time deadline);

  // DiskTier::Put() on the disk where the block belongs or, if that one does not take
  // it, on the next. As with all calls, a disk that hangs holds the call that it has
  // (the device may still use the bytes), and no other. Errors: those of the last disk
  // tried; kUnavailable, no disk serves, or the one that took the block no longer does.
  Task<absl::Status> Put(BlockMeta meta, std::span<const std::byte> slot,
                         std::string tenant = kNoTenant);
  // DiskTier::Get() on the disk that has the block. Errors: that disk's; kNotFound, no
  // disk that serves has it.
  Task<absl::StatusOr<BlockMeta>> Get(BlockKey key, std::span<std::byte> slot,
                                      IoClass io_class = IoClass::kForeground);
  // DiskTier::Hasten() on the disk that has the block.
  void Hasten(const BlockKey& key);
  // Forgets the block on every disk; on a quarantined one when it comes back. (One that
  // is not open yet may still bring it.) Errors: kUnavailable, a manifest failed; the
  // block may be back after a restart.
  Task<absl::Status> Erase(BlockKey key);

  struct TenantErasure {
    uint64_t blocks = 0;  // Dropped, from the disks that have done it.
    size_t disks = 0;     // That have.
    absl::Status status;
  };
  // DiskTier::EraseTenant() on every disk; until it ends the tenant's puts are kAborted.
  // Its status: the first disk's error, and kUnavailable, naming it, of a disk that is not open
  // or out of service: the others have done it, so call again when that one is back.
  Task<TenantErasure> EraseTenant(std::string tenant);
  // DiskTier::KnowsTenant() of any disk. Errors: kUnavailable, none of the open ones does, and
  // one that is not open may.
  absl::StatusOr<bool> KnowsTenant(const std::string& tenant) const;

  // Divides each tenant's share of the node over all disks, in proportion to their capacities, and
  // sets it there: DiskTier::SetShares(). At any time, also before Open(). Errors:
  // kInvalidArgument, nothing changes.
  absl::Status SetShares(std::span<const OwnerShare> shares);
  // Returns what the tenants have of all disks, whether these serve or not, by tag.
  std::vector<TenantRoom> Tenants() const;
  uint64_t divided_bytes() const;  // DiskTier::divided_bytes(), of all disks.

  // Of the disks that serve.
  std::optional<DiskBlock> Find(const BlockKey& key) const;
  // Returns the tenant that put the block; nullopt: no disk that serves has it.
  std::optional<TenantTag> OwnerOf(const BlockKey& key) const;
  bool Contains(const BlockKey& key) const override { return Holder(key) != nullptr; }
  bool HasChildOf(const BlockKey& key) const override;
  void ForEachChildOf(const BlockKey& key,
                      absl::FunctionRef<bool(const BlockKey&)> visit) const override;
  std::vector<BlockKey> Keys() const override;
  size_t block_count() const override;
  // Follows a prefix from disk to disk.
  void Touch(const BlockKey& key, const ReuseHint& hint) override;
  uint64_t capacity_bytes() const;
  uint64_t used_bytes() const;  // Of forgotten copies as well.

  // Members, in the constructor's order, whether they serve or not.
  size_t disk_count() const { return disks_.size(); }
  const DiskTier& tier(size_t member) const;
  bool serves(size_t member) const;
  // What the observer was told is what the disks serve. False: a disk has just come or gone, and
  // its blocks are being told of.
  bool settled() const;
  // The member on which Put() tries the block first; nullopt: none serves.
  std::optional<size_t> DiskFor(const BlockKey& key) const;
  // The member that has the block; nullopt: none that serves.
  std::optional<size_t> HolderOf(const BlockKey& key) const;

  TierStats stats() const;  // Summed over all disks; a put that two declined counts twice.
  std::vector<DiskStatus> Statuses() const;
  // Calls that disks out of service have not ended yet, perhaps never will: a bound on
  // calls in flight should not count them, or one bad disk uses it up for all.
  Calls stuck() const;
  void Audit() const;

  // For the members' observers.
  void TierChanged(size_t member, Change change, const BlockKey& key, TenantTag owner);

 private:
  struct Disk;
  // Of the disks that serve: the one that has the block, by at most one look at the
  // index of each.
  Disk* Holder(const BlockKey& key) const;
  // One of them has the block, this one left aside.
  bool IsElsewhere(const Disk* disk, const BlockKey& key) const;
  Task<absl::Status> PutOn(Disk* disk, const BlockMeta& meta, std::span<const std::byte> slot,
                           const std::string& tenant);
  // After a put: makes this the block's only copy, or gives it up.
  absl::Status Settle(Disk* disk, const BlockKey& key);
  // Takes the disk's copy, if it has one, out of sight, and erases it when it can be.
  void Forget(Disk* disk, const BlockKey& key);
  Task<absl::Status> EraseOn(Disk* disk, BlockKey key);
  Task<void> EraseForgotten(Disk* disk);

  Task<void> OpenOne(Disk* disk);
  void ScrubIfOpen(Disk* disk);
  // A disk has opened: what others have already is forgotten on it.
  uint64_t ForgetDuplicates(Disk* disk);
  void HealthChanged(Disk* disk);
  void StartFollowing(Disk* disk);
  void StartErasing(Disk* disk);
  // Lets announcements follow the disk's health, until they agree.
  Task<void> Follow(Disk* disk);
  Task<void> Withdraw(Disk* disk);
  Task<void> Admit(Disk* disk);

  Executor* const executor_;  // Not owned.
  TaskScope* const scope_;    // Not owned.
  const Placement placement_;
  Observer observer_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::shared_ptr<Event> all_ended_opening_;
  size_t opening_ = 0;
  bool open_ = false;
  absl::flat_hash_set<std::string> erasing_;        // Tenants.
  std::optional<uint64_t> scrub_bytes_per_second_;  // From StartScrub() until StopScrub().
  uint64_t misses_ = 0;                             // Of blocks on no disk that serves.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_SET_H_

// DiskTier's state, shared by its flows: disk_put.cc, disk_get.cc, disk_reclaim.cc,
// disk_room.cc, disk_scrub.cc, disk_tenants.cc. Private to tier_disk.
#ifndef KVTIER_TIER_DISK_DISK_STATE_H_
#define KVTIER_TIER_DISK_DISK_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/event.h"
#include "core/task_scope.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/io/page_pool.h"
#include "tier_disk/log/reclaim.h"
#include "tier_disk/log/reclaim_order.h"
#include "tier_disk/log/record.h"
#include "tier_disk/log/record_index.h"
#include "tier_disk/log/room_shares.h"
#include "tier_disk/log/segment_log.h"
#include "tier_disk/manifest/group_commit.h"
#include "tier_disk/scrub.h"

namespace kvtier {

// Result of a flow that others wait for.
struct SharedOutcome {
  explicit SharedOutcome(Executor* executor) : done(executor) {}
  Event done;
  absl::Status status;
};

struct DiskTier::State {
  State(Executor* executor, ByteWorkers* workers, Disk* disk, Manifest* manifest, Observer observer,
        const DiskTierOptions& options)
      : executor(executor),
        workers(workers),
        disk(disk),
        manifest(manifest),
        keys(options.keys),
        observer(std::move(observer)),
        commits(executor, manifest),
        index(disk->segment_count()),
        order(options.eviction, disk->segment_count(), &index),
        shares(usable_bytes(), disk->segment_bytes()),
        background(executor) {}

  Executor* const executor;
  ByteWorkers* const workers;
  Disk* const disk;
  Manifest* const manifest;
  TenantKeys* const keys;  // Null: payloads lie in the clear.
  Observer observer;

  GroupCommit commits;
  RecordIndex index;
  ReclaimOrder order;  // Its clock is the executor's.
  RoomShares shares;
  absl::flat_hash_map<TenantTag, uint64_t> arriving;  // Bytes of records of puts in flight.
  std::optional<SegmentLog> log;                      // From Open() on.
  PagePool header_pages;
  absl::flat_hash_map<BlockKey, std::shared_ptr<SharedOutcome>> putting;
  std::shared_ptr<SharedOutcome> reclaiming;  // Null: no reclaim runs.
  bool hurried = false;                       // Somebody waits for the one that runs.
  std::shared_ptr<Event> write_ended;         // Null: nobody waits for the end of a write.
  Reclaimed reclaimed;
  // Tenants whose salt is being made durable, and those whose key is being destroyed.
  absl::flat_hash_map<std::string, std::shared_ptr<SharedOutcome>> salting;
  absl::flat_hash_set<std::string> erasing;
  // Their erasure failed: whether the salt's row is still there is not known. Bounded as keys.
  absl::flat_hash_set<std::string> half_erased;
  size_t gets_in_flight = 0;
  std::optional<Scrub> scrub;         // From RunScrub() on.
  std::shared_ptr<Event> scrub_wake;  // What RunScrub() waits for.
  bool scrub_stopped = false;
  TierStats stats;
  TaskScope background;  // Last: its tasks go first.

  // The two ways a block becomes readable here and stops being so; whoever listens is
  // told (law 2: after all else, and before all else).
  void Publish(const DiskEntry& entry);
  void Unpublish(const BlockKey& key);

  // Why the tier would not even begin to put this block; OK: it would.
  absl::Status Accepts(const DiskBlock& block) const;
  Task<absl::Status> PutNew(const BlockMeta& meta, std::span<const std::byte> slot,
                            const std::string& tenant);
  // Room for one record, reclaiming when there is none. Errors: kResourceExhausted;
  // the manifest's. The caller ends the write (SegmentLog::EndWrite).
  Task<absl::StatusOr<RecordPlace>> ReservePlace(uint64_t record_bytes);
  // Writes the record, then its manifest entry; publishes nothing.
  Task<absl::Status> WriteRecord(const DiskEntry& entry, const RecordHeader& header,
                                 std::span<const std::byte> slot);
  // The same with a payload that is sealed first, in a buffer of its own.
  Task<absl::Status> WriteSealed(const DiskEntry& entry, const RecordCipher& cipher,
                                 const PayloadSum& sum, std::span<const std::byte> slot);
  // The record alone.
  Task<absl::Status> WriteData(IoClass io_class, const RecordHeader& header,
                               std::span<const std::byte> slot);
  // The cipher for a new record of the tenant, who gets a salt if it has none. Errors: as
  // Put(). REQUIRES: there are keys.
  Task<absl::StatusOr<RecordCipher>> CipherToPut(std::string tenant);
  Task<absl::Status> MakeSalt(std::string tenant);
  // False: the tenant's key was destroyed while the record was written.
  bool Opens(const DiskBlock& block) const {
    return block.key_id == KeyId{} || keys->Opens(block.key_id);
  }
  // The header for what is in `slot`, which is sealed in place for `entry` if that has a key.
  // Errors: kNotFound, the key is gone; RecordCipher::Seal()'s.
  Task<absl::StatusOr<RecordHeader>> HeaderForCopy(DiskEntry* entry, const PayloadSum& sum,
                                                   std::span<std::byte> slot);
  // Unpublishes all blocks under these keys, then forgets them; returns how many.
  Task<uint64_t> DropSealedUnder(std::vector<KeyId> key_ids);
  // Reads and verifies one record. Errors: kNotFound, it was reclaimed meanwhile;
  // kDataLoss, already dropped; the disk's.
  Task<absl::StatusOr<PayloadSum>> ReadRecord(IoClass io_class, DiskEntry entry,
                                              std::span<std::byte> slot);
  // Reads the block where it lies now, again when it moved under the read.
  Task<absl::StatusOr<BlockMeta>> ReadNewest(IoClass io_class, BlockKey key,
                                             std::span<std::byte> slot);
  // Unpublishes a record whose bytes were not its own, then forgets it.
  Task<void> DropDamaged(const BlockKey& key, const RecordPlace& place);
  // Frees one segment so that a record of `record_bytes` fits, or joins the reclaim
  // that runs. Errors: kResourceExhausted, no segment can be freed now; the manifest's.
  Task<absl::Status> MakeRoom(uint64_t record_bytes);
  // Starts reclaiming in the background when few segments are left, so that puts find
  // room without waiting.
  void ReclaimAhead();
  Task<void> ReclaimUntilAhead();
  // Puts beside the reserve.
  size_t free_segments_wanted() const;
  // Returns what to reclaim now: ChooseVictim().
  std::optional<ReclaimChoice> Choose(uint64_t budget_bytes);
  // Carries the choice out. Errors: kResourceExhausted, there is none; the manifest's.
  Task<absl::Status> ReclaimOne(std::optional<ReclaimChoice> choice, uint64_t budget_bytes);
  Task<absl::Status> Reclaim(ReclaimChoice choice, uint64_t budget_bytes);
  // Ends the write of a record, for which puts may wait whose segment could be reclaimed then.
  void EndWrite(const RecordPlace& place);
  ReclaimPlan PlanFor(const ReclaimChoice& choice, uint64_t budget_bytes) const;
  // Unpublishes blocks to make room; their rows remain to be erased.
  void Evict(const std::vector<BlockKey>& keys);
  // Copies what is worth it, and what may not be taken from its tenant. Errors:
  // kResourceExhausted, there was no room for all of the latter.
  Task<absl::Status> CopyWhatStays(const ReclaimChoice& choice, uint64_t budget_bytes);
  struct Copied {
    uint64_t bytes = 0;    // Of records.
    bool is_full = false;  // There was no room for more.
  };
  // Copies these blocks one after the other, as slowly as may be.
  Task<Copied> CopySurvivors(SegmentId victim, std::vector<BlockKey> keys);
  // Returns the bytes by which what the tenant has, and what is being put, exceed its maximum.
  uint64_t BeyondMaximum(TenantTag owner) const;
  // Drops blocks of the tenant until it is within its maximum. Errors: kResourceExhausted, too
  // little could be dropped.
  Task<absl::Status> DropForMaximum(TenantTag owner);
  // Bytes of all segments but the reserve.
  uint64_t usable_bytes() const {
    return (std::max<uint64_t>(disk->segment_count(), kMinSegments) - kReserveSegments) *
           disk->segment_bytes();
  }
  // Copies one block's record to the open segment; the index then points there.
  // `slot` holds SlotBytes(length) bytes.
  Task<absl::Status> Reappend(const BlockKey& key, std::span<std::byte> slot);
  // Verifies one record where it lies now. `slot` holds SlotBytes(length) bytes.
  Task<Scrub::Outcome> ScrubRecord(DiskEntry entry, std::span<std::byte> slot);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_STATE_H_

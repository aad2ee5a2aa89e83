// Holds DiskTier's state, shared by its flows: disk_put.cc, disk_get.cc, disk_reclaim.cc,
// disk_room.cc, disk_scrub.cc, disk_tenants.cc. Private to tier_disk.
#ifndef KVTIER_TIER_DISK_DISK_STATE_H_
#define KVTIER_TIER_DISK_DISK_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  State(Executor* executor, ByteThreads* byte_threads, Disk* disk, Manifest* manifest,
        Follower follower, const DiskTierOptions& options)
      : executor(executor),
        byte_threads(byte_threads),
        disk(disk),
        manifest(manifest),
        keys(options.keys),
        follower(std::move(follower)),
        commits(executor, manifest, disk),
        index(disk->segment_count()),
        order(options.eviction, disk->segment_count(), &index),
        shares(usable_bytes(), disk->segment_bytes()),
        background(executor) {}

  Executor* const executor;
  ByteThreads* const byte_threads;
  Disk* const disk;
  Manifest* const manifest;
  TenantKeys* const keys;  // Keys that seal payloads; null: payloads are in the clear.
  Follower follower;

  GroupCommit commits;
  RecordIndex index;
  ReclaimOrder order;  // Uses the executor's clock.
  RoomShares shares;
  absl::flat_hash_map<TenantTag, uint64_t> arriving;  // Record bytes of puts in flight.
  std::optional<SegmentLog> log;                      // Log of the disk, set by Open().
  PagePool header_pages;
  absl::flat_hash_map<BlockKey, std::shared_ptr<SharedOutcome>> putting;
  // Outcome of the running reclaim; null: no reclaim runs.
  std::shared_ptr<SharedOutcome> reclaiming;
  bool hurried = false;  // Whether a put waits for the running reclaim.
  // Event that is set when a write ends; null: no reclaim waits for one.
  std::shared_ptr<Event> write_ended;
  Reclaimed reclaimed;
  // Tenants whose salt is being made durable, and tenants whose key is being destroyed.
  absl::flat_hash_map<std::string, std::shared_ptr<SharedOutcome>> salting;
  absl::flat_hash_set<std::string> erasing;
  // Tenants whose erasure failed, so it is unknown whether the salt's row is still there. Bounded
  // like keys.
  absl::flat_hash_set<std::string> half_erased;
  size_t gets_in_flight = 0;
  std::optional<Scrub> scrub;         // Scrub of the disk, set by RunScrub().
  std::shared_ptr<Event> scrub_wake;  // Event that RunScrub() waits for.
  bool scrub_stopped = false;
  TierStats stats;
  TaskScope background;  // Last member, so that its tasks are destroyed first.

  // Publish() makes a block readable here, as the last step of a put, and Unpublish() ends that, as
  // the first step of a removal (law 2). Both tell the follower.
  void Publish(const DiskEntry& entry);
  void Unpublish(const BlockKey& key);

  // Returns why the tier would not begin to put this block; OK: it would.
  absl::Status Accepts(const DiskBlock& block) const;
  Task<absl::Status> PutNew(const BlockMeta& meta, std::span<const std::byte> slot,
                            const std::string& tenant);
  // Reserves room for one record, and reclaims if there is none. The caller ends the write
  // (SegmentLog::EndWrite). Errors: kResourceExhausted; the manifest's.
  Task<absl::StatusOr<RecordPlace>> ReservePlace(uint64_t record_bytes);
  // Writes the record, then its manifest entry; publishes nothing.
  Task<absl::Status> WriteRecord(const DiskEntry& entry, const RecordHeader& header,
                                 std::span<const std::byte> slot);
  // Does as WriteRecord(), with a payload that is sealed first, in a buffer of its own.
  Task<absl::Status> WriteSealed(const DiskEntry& entry, const RecordCipher& cipher,
                                 const PayloadSum& sum, std::span<const std::byte> slot);
  // Writes the record only.
  Task<absl::Status> WriteData(IoClass io_class, const RecordHeader& header,
                               std::span<const std::byte> slot);
  // Returns the cipher for a new record of the tenant; makes a salt if the tenant has none. Errors:
  // as Put(). REQUIRES: there are keys.
  Task<absl::StatusOr<RecordCipher>> CipherToPut(std::string tenant);
  Task<absl::Status> MakeSalt(std::string tenant);
  // Returns whether the block's record can be opened; false: its tenant's key was destroyed.
  bool Opens(const DiskBlock& block) const {
    return block.key_id == KeyId{} || keys->Opens(block.key_id);
  }
  // Returns the header for the payload in `slot`; seals it in place for `entry` if the entry has a
  // key. Errors: kNotFound, the key is gone; RecordCipher::Seal()'s.
  Task<absl::StatusOr<RecordHeader>> HeaderForCopy(DiskEntry* entry, const PayloadSum& sum,
                                                   std::span<std::byte> slot);
  // Unpublishes all blocks that these keys seal, then erases their rows; returns how many.
  Task<uint64_t> DropSealedUnder(std::vector<KeyId> key_ids);
  // Reads and verifies one record. Errors: kNotFound, it was reclaimed meanwhile; kDataLoss,
  // damaged and already dropped; the disk's.
  Task<absl::StatusOr<PayloadSum>> ReadRecord(IoClass io_class, DiskEntry entry,
                                              std::span<std::byte> slot);
  // Reads the block at its present place; reads again if it moved during the read.
  Task<absl::StatusOr<BlockMeta>> ReadNewest(IoClass io_class, BlockKey key,
                                             std::span<std::byte> slot);
  // Unpublishes a record whose bytes are damaged, then erases it.
  Task<void> DropDamaged(const BlockKey& key, const RecordPlace& place);
  // Frees one segment so that a record of `record_bytes` fits, or joins the running reclaim.
  // Errors: kResourceExhausted, no segment can be freed now; the manifest's.
  Task<absl::Status> MakeRoom(uint64_t record_bytes);
  // Starts reclaiming in the background when few segments are free, so that puts find room without
  // waiting.
  void ReclaimAhead();
  Task<void> ReclaimUntilAhead();
  // Returns how many free segments puts should find, beside the reserve.
  size_t free_segments_wanted() const;
  // Calls ChooseVictim() for the present state of the disk.
  std::optional<ReclaimChoice> Choose(uint64_t budget_bytes);
  // Carries the choice out. Errors: kResourceExhausted, there is none; the manifest's.
  Task<absl::Status> ReclaimOne(std::optional<ReclaimChoice> choice, uint64_t budget_bytes);
  Task<absl::Status> Reclaim(ReclaimChoice choice, uint64_t budget_bytes);
  // Ends the write of a record, and wakes reclaims that wait until a segment has no writes in
  // flight.
  void EndWrite(const RecordPlace& place);
  ReclaimPlan PlanFor(const ReclaimChoice& choice, uint64_t budget_bytes) const;
  // Unpublishes blocks to make room; their rows remain to be erased.
  void Evict(const std::vector<BlockKey>& keys);
  // Copies the blocks that are worth a second write, and those that must not be taken from their
  // tenants. Returns the blocks to drop now, children before parents. Errors: kResourceExhausted,
  // there was no room for all that must stay.
  Task<absl::StatusOr<std::vector<BlockKey>>> CopyWhatStays(const ReclaimChoice& choice,
                                                            uint64_t budget_bytes);
  // Copies of survivors of one segment, made by several streams.
  struct Copying {
    Copying(Executor* executor, SegmentId victim, std::vector<BlockKey> keys, size_t streams)
        : victim(victim),
          keys(std::move(keys)),
          started(executor->Now()),
          streams(streams),
          done(executor) {}
    const SegmentId victim;
    const std::vector<BlockKey> keys;
    const absl::Time started;
    size_t next = 0;       // Index of the next key to copy.
    uint64_t bytes = 0;    // Bytes of the copied records.
    bool is_full = false;  // Whether room for more ran out.
    size_t streams = 0;    // Number of streams that have not ended.
    Event done;            // Event that is set when the last stream ends.
  };
  // Copies these blocks, several at a time and as slowly as permitted.
  Task<std::shared_ptr<Copying>> CopySurvivors(SegmentId victim, std::vector<BlockKey> keys);
  // Copies one block after another until none is left or the room ran out.
  Task<void> CopySome(std::shared_ptr<Copying> copying);
  // Returns the bytes by which the tenant's blocks and puts in flight exceed its maximum.
  uint64_t BeyondMaximum(TenantTag owner) const;
  // Drops blocks of the tenant until it is within its maximum. Errors: kResourceExhausted, too
  // little could be dropped.
  Task<absl::Status> DropForMaximum(TenantTag owner);
  // Returns the bytes of all segments but the reserve.
  uint64_t usable_bytes() const {
    return (std::max<uint64_t>(disk->segment_count(), kMinSegments) - kReserveSegments) *
           disk->segment_bytes();
  }
  // Copies one block's record to `place`; the index then points there. `slot` holds
  // SlotBytes(length) bytes. The caller ends the write.
  Task<absl::Status> Reappend(DiskEntry from, RecordPlace place, std::span<std::byte> slot);
  // Verifies one record at its present place. `slot` holds SlotBytes(length) bytes.
  Task<Scrub::Outcome> ScrubRecord(IoClass io_class, DiskEntry entry, std::span<std::byte> slot);
  // Verifies the block's record, and drops one that is damaged or cannot be read. Errors:
  // kDataLoss, the block is not here (any more); kResourceExhausted, the disk's queue is full.
  Task<absl::Status> Prove(BlockKey key);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_STATE_H_

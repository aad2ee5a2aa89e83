// DiskTier's state, shared by its flows: disk_put.cc, disk_get.cc, disk_reclaim.cc.
// Private to tier_disk.
#ifndef KVTIER_TIER_DISK_DISK_STATE_H_
#define KVTIER_TIER_DISK_DISK_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/event.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/group_commit.h"
#include "tier_disk/record.h"
#include "tier_disk/record_index.h"
#include "tier_disk/segment_log.h"

namespace kvtier {

// Result of a flow that others wait for.
struct SharedOutcome {
  explicit SharedOutcome(Executor* executor) : done(executor) {}
  Event done;
  absl::Status status;
};

struct DiskTier::State {
  State(Executor* executor, ByteWorkers* workers, Disk* disk, Manifest* manifest, OnDrop on_drop)
      : executor(executor),
        workers(workers),
        disk(disk),
        manifest(manifest),
        on_drop(std::move(on_drop)),
        commits(executor, manifest),
        index(disk->segment_count()) {}

  Executor* const executor;
  ByteWorkers* const workers;
  Disk* const disk;
  Manifest* const manifest;
  OnDrop on_drop;

  GroupCommit commits;
  RecordIndex index;
  std::optional<SegmentLog> log;  // From Open() on.
  absl::flat_hash_map<BlockKey, std::shared_ptr<SharedOutcome>> putting;
  std::shared_ptr<SharedOutcome> reclaiming;  // Null: no reclaim runs.
  size_t gets_in_flight = 0;
  TierStats stats;

  // The record that `block` must be at `place`.
  static Record RecordAt(const DiskBlock& block, const RecordPlace& place);
  static ManifestEntry EntryAt(const DiskBlock& block, const RecordPlace& place);

  Task<absl::Status> PutNew(const DiskBlock& block, std::span<const std::byte> slot);
  // Room for one record, reclaiming when there is none. Errors: kResourceExhausted;
  // the manifest's. The caller ends the write (SegmentLog::EndWrite).
  Task<absl::StatusOr<RecordPlace>> ReservePlace(uint64_t record_bytes);
  // Writes a sealed record at `place`, then its manifest entry; publishes nothing.
  Task<absl::Status> WriteRecord(const DiskBlock& block, const RecordPlace& place,
                                 std::span<const std::byte> slot);
  // The record alone.
  Task<absl::Status> WriteData(const DiskBlock& block, const RecordPlace& place,
                               std::span<const std::byte> slot);
  // Reads and verifies the record of `block` at `place`. Errors: kNotFound, it was
  // reclaimed meanwhile; kDataLoss, already dropped; the disk's.
  Task<absl::Status> ReadRecord(const DiskBlock& block, const RecordPlace& place,
                                std::span<std::byte> slot);
  // Unpublishes a record whose bytes were not its own, then forgets it.
  Task<void> DropDamaged(const BlockKey& key, const RecordPlace& place);
  // Frees one segment so that a record of `record_bytes` fits, or joins the reclaim
  // that runs. Errors: kResourceExhausted, no segment can be freed now; the manifest's.
  Task<absl::Status> MakeRoom(uint64_t record_bytes);
  Task<absl::Status> Reclaim(SegmentId victim, uint64_t budget_bytes);
  // Copies one block's record to the open segment; the index then points there.
  Task<absl::Status> Reappend(const BlockKey& key);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_STATE_H_

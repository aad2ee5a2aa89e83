// DiskTier's reclaim: frees one segment. Survivors are copied first, then the rest
// is unpublished, then one manifest batch erases it and moves the segment's
// generation on; only after that may the segment be written again.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/kill_point.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/page_buffer.h"
#include "tier_disk/reclaim.h"

namespace kvtier {

Task<absl::Status> DiskTier::State::MakeRoom(uint64_t record_bytes) {
  if (const std::shared_ptr<SharedOutcome> running = reclaiming; running != nullptr) {
    KVT_KILL_POINT("reclaim.joined");
    co_await running->done.WaitUntil(absl::InfiniteFuture());
    co_return running->status;
  }
  const std::optional<SegmentId> victim = ChooseVictim(*log, index);
  if (!victim) {
    co_return absl::ResourceExhaustedError("every segment is free, open or being written");
  }
  KVT_KILL_POINT("reclaim.victim_chosen");
  // What is re-appended leaves room in a fresh segment for the record that waits.
  const uint64_t segment_bytes = log->segment_bytes();
  const uint64_t budget = std::min(segment_bytes / 2, segment_bytes - record_bytes);
  const auto outcome = std::make_shared<SharedOutcome>(executor);
  reclaiming = outcome;
  outcome->status = co_await Reclaim(*victim, budget);
  KVT_KILL_POINT("reclaim.done");
  reclaiming.reset();
  outcome->done.Set();
  co_return outcome->status;
}

Task<absl::Status> DiskTier::State::Reclaim(SegmentId victim, uint64_t budget_bytes) {
  log->BeginReclaim(victim);
  KVT_KILL_POINT("reclaim.begun");
  ReclaimPlan plan = PlanReclaim(index, victim, budget_bytes);
  while (!plan.reappend.empty()) {
    for (const BlockKey& key : plan.reappend) {
      const std::optional<DiskEntry> entry = index.Find(key);
      if (!entry.has_value() || entry->place.segment != victim) continue;  // Erased meanwhile.
      const uint64_t bytes = RecordBytes(entry->block.length);
      const absl::Status moved = co_await Reappend(key);
      if (!moved.ok()) {
        budget_bytes = 0;
        break;
      }
      budget_bytes -= std::min(budget_bytes, bytes);
    }
    // Children may have come while the copies were under way: decide anew.
    plan = PlanReclaim(index, victim, budget_bytes);
  }

  // From the plan to here nothing waits, so no child can appear in between.
  ManifestBatch batch;
  KVT_KILL_POINT("reclaim.before_drop");
  for (const BlockKey& key : plan.drop) Unpublish(key);
  KVT_KILL_POINT("reclaim.unpublished");
  stats.evictions += plan.drop.size();
  KVT_CHECK(index.InSegment(victim).empty());
  batch.erases = std::move(plan.drop);
  const uint64_t generation = log->NextGeneration();
  batch.generations.push_back({.segment = victim, .generation = generation});
  KVT_KILL_POINT("reclaim.before_commit");
  const absl::Status committed = co_await commits.Commit(std::move(batch));
  KVT_KILL_POINT("reclaim.committed");
  if (committed.ok()) {
    log->Free(victim, generation);
    KVT_KILL_POINT("reclaim.freed");
  } else {
    log->PutBack(victim);  // Empty now; its entries are erased or stale after the next try.
  }
  co_return committed;
}

Task<absl::Status> DiskTier::State::Reappend(const BlockKey& key) {
  const DiskEntry from = *index.Find(key);
  PageBuffer slot(from.block.length);
  KVT_KILL_POINT("reclaim.before_read");
  const absl::StatusOr<PayloadSum> sum = co_await ReadRecord(IoClass::kReclaim, from, slot.bytes());
  KVT_KILL_POINT("reclaim.after_read");
  // Gone or damaged, and dropped as such: nothing is left to keep.
  if (absl::IsNotFound(sum.status()) || absl::IsDataLoss(sum.status())) co_return absl::OkStatus();
  if (!sum.ok()) co_return sum.status();
  const std::optional<RecordPlace> place =
      log->Reserve(RecordBytes(from.block.length), SegmentLog::Use::kReclaim);
  if (!place) co_return absl::ResourceExhaustedError("no free segment to re-append into");
  const DiskEntry to{.block = from.block, .place = *place};
  KVT_KILL_POINT("reclaim.before_write");
  absl::Status moved = co_await WriteData(IoClass::kReclaim, to, *sum, slot.bytes());
  KVT_KILL_POINT("reclaim.after_write");
  // An entry of a block that was erased while it was copied must not come back.
  if (moved.ok() && index.IsAt(key, from.place)) {
    ManifestBatch batch;
    batch.puts.push_back(to);
    KVT_KILL_POINT("reclaim.before_row");
    moved = co_await commits.Commit(std::move(batch));
    KVT_KILL_POINT("reclaim.before_move");
    if (moved.ok() && index.IsAt(key, from.place)) index.Move(key, *place);
    KVT_KILL_POINT("reclaim.moved");
  }
  log->EndWrite(*place);
  co_return moved;
}

}  // namespace kvtier

// Implements DiskTier's reclaim, which frees one segment. It copies survivors first, then
// unpublishes the rest, then commits one manifest batch that erases the rest and raises the
// segment's generation. Only after that may the segment be written again.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/io/page_buffer.h"
#include "tier_disk/log/reclaim.h"

namespace kvtier {
namespace {

// Maximum number of free segments that the background keeps ready beside the reserve. A disk of few
// segments cannot spare them.
constexpr size_t kMaxFreeAhead = 2;
constexpr size_t kSegmentsPerFreeAhead = 32;
// Rate at which survivors are copied while nobody waits for the room. A segment of 128 MiB, of
// which half survives, takes a quarter of a second. Foreground reads go first in any case
// (IoClass::kReclaim); this bounds what is taken from offload.
constexpr double kReclaimBytesPerSecond = 256 << 20;
// Bytes of survivors that are copied at a time, and the maximum number of survivors. A copy is a
// read, a check, a write and a commit one after another; as many copies at a time as a put load has
// puts keep the disk busy while a put waits for the room.
constexpr uint64_t kCopyBytes = 4 << 20;
constexpr size_t kMaxCopyStreams = 16;

}  // namespace

size_t DiskTier::State::free_segments_wanted() const {
  return kReserveSegments +
         std::min<size_t>(kMaxFreeAhead, disk->segment_count() / kSegmentsPerFreeAhead);
}

void DiskTier::State::ReclaimAhead() {
  if (reclaiming != nullptr || log->free_segments() >= free_segments_wanted()) return;
  background.Spawn(ReclaimUntilAhead());
}

Task<void> DiskTier::State::ReclaimUntilAhead() {
  while (reclaiming == nullptr && log->free_segments() < free_segments_wanted()) {
    const uint64_t budget_bytes = log->segment_bytes() / 2;
    const absl::Status freed = co_await ReclaimOne(Choose(budget_bytes), budget_bytes);
    if (!freed.ok()) break;  // The next put tries again.
  }
}

std::optional<ReclaimChoice> DiskTier::State::Choose(uint64_t budget_bytes) {
  order.AdvanceTo(executor->Now());
  return ChooseVictim({.log = &*log, .index = &index, .order = &order, .shares = &shares},
                      budget_bytes);
}

Task<absl::Status> DiskTier::State::MakeRoom(uint64_t record_bytes) {
  // Leaves room, in a fresh segment with the re-appended records, for the record that waits.
  const uint64_t segment_bytes = log->segment_bytes();
  const uint64_t budget = std::min(segment_bytes / 2, segment_bytes - record_bytes);
  std::optional<ReclaimChoice> choice;
  while (reclaiming == nullptr) {
    choice = Choose(budget);
    // Too much must stay of the segments that can be reclaimed now, but others will become
    // reclaimable.
    if (choice || shares.is_lone() || !log->AwaitsWrites()) break;
    if (write_ended == nullptr) write_ended = std::make_shared<Event>(executor);
    const std::shared_ptr<Event> ended = write_ended;
    co_await ended->WaitUntil(absl::InfiniteFuture());
  }
  hurried = true;
  if (const std::shared_ptr<SharedOutcome> running = reclaiming; running != nullptr) {
    KVT_KILL_POINT("reclaim.joined");
    co_await running->done.WaitUntil(absl::InfiniteFuture());
    co_return running->status;
  }
  co_return co_await ReclaimOne(std::move(choice), budget);
}

void DiskTier::State::EndWrite(const RecordPlace& place) {
  log->EndWrite(place);
  if (const auto ended = std::exchange(write_ended, nullptr)) ended->Set();
}

Task<absl::Status> DiskTier::State::ReclaimOne(std::optional<ReclaimChoice> choice,
                                               uint64_t budget_bytes) {
  if (!choice) {
    hurried = false;
    co_return absl::ResourceExhaustedError(
        "every segment is free, open, being written or within the shares of other tenants");
  }
  KVT_KILL_POINT("reclaim.victim_chosen");
  const auto outcome = std::make_shared<SharedOutcome>(executor);
  reclaiming = outcome;
  outcome->status = co_await Reclaim(*std::move(choice), budget_bytes);
  KVT_KILL_POINT("reclaim.done");
  reclaiming.reset();
  hurried = false;
  outcome->done.Set();
  co_return outcome->status;
}

Task<void> DiskTier::State::CopySome(std::shared_ptr<Copying> copying) {
  std::optional<PageBuffer> buffer;  // Kept for all records, as new pages are expensive.
  while (!copying->is_full && copying->next < copying->keys.size()) {
    const BlockKey key = copying->keys[copying->next++];
    const std::optional<DiskEntry> entry = index.Find(key);
    // The block was erased meanwhile.
    if (!entry.has_value() || entry->place.segment != copying->victim) continue;
    // The places are in the order of the keys, whichever copy ends first.
    const std::optional<RecordPlace> place =
        log->Reserve(RecordBytes(entry->block.length), SegmentLog::Use::kReclaim);
    if (!place) {
      copying->is_full = true;
      break;
    }
    const uint64_t bytes = SlotBytes(entry->block.length);
    if (!buffer || buffer->bytes().size() < bytes) buffer.emplace(bytes);
    const absl::Status moved = co_await Reappend(*entry, *place, buffer->bytes().first(bytes));
    EndWrite(*place);
    if (absl::IsResourceExhausted(moved)) {
      copying->is_full = true;
      break;
    }
    // Any other failure concerns this block only: it is dropped with its segment, and the room that
    // was reserved for it is lost until that is reclaimed.
    copying->bytes += RecordBytes(entry->block.length);
    if (!shares.is_lone()) log->ReserveForReclaim(index.live_bytes(copying->victim));
    if (hurried) continue;
    const absl::Duration due =
        absl::Seconds(static_cast<double>(copying->bytes) / kReclaimBytesPerSecond);
    co_await SleepUntil(executor, copying->started + due);
  }
  if (--copying->streams == 0) copying->done.Set();
}

Task<std::shared_ptr<DiskTier::State::Copying>> DiskTier::State::CopySurvivors(
    SegmentId victim, std::vector<BlockKey> keys) {
  uint64_t largest = 0;
  for (const BlockKey& key : keys) {
    if (const auto entry = index.Find(key)) largest = std::max(largest, entry->block.length);
  }
  const uint64_t streams = std::clamp<uint64_t>(kCopyBytes / std::max<uint64_t>(largest, 1), 1,
                                                std::min(kMaxCopyStreams, keys.size()));
  const auto copying = std::make_shared<Copying>(executor, victim, std::move(keys), streams);
  for (uint64_t i = 0; i < streams; ++i) background.Spawn(CopySome(copying));
  co_await copying->done.WaitUntil(absl::InfiniteFuture());
  co_return copying;
}

ReclaimPlan DiskTier::State::PlanFor(const ReclaimChoice& choice, uint64_t budget_bytes) const {
  ReclaimTerms terms{.victim = choice.victim, .budget_bytes = budget_bytes};
  if (!choice.take_from) return PlanReclaim(index, order, terms);
  const Allowances allowances = shares.MayTake(index, *choice.take_from);
  terms.allowances = &allowances;
  return PlanReclaim(index, order, terms);
}

void DiskTier::State::Evict(const std::vector<BlockKey>& keys) {
  for (const BlockKey& key : keys) {
    const DiskBlock block = index.Find(key)->block;
    shares.NoteEviction(block.owner, RecordBytes(block.length));
    Unpublish(key);
  }
  stats.evictions += keys.size();
}

Task<absl::StatusOr<std::vector<BlockKey>>> DiskTier::State::CopyWhatStays(
    const ReclaimChoice& choice, uint64_t budget_bytes) {
  const SegmentId victim = choice.victim;
  if (choice.take_from) log->ReserveForReclaim(index.live_bytes(victim));
  // Plans again after the copies, because blocks may be touched while copies are in flight.
  absl::flat_hash_set<BlockKey> tried;
  while (true) {
    ReclaimPlan plan = PlanFor(choice, budget_bytes);
    if (plan.reappend.empty()) co_return std::move(plan.drop);
    std::vector<BlockKey> keys = std::move(plan.reappend);
    std::erase_if(keys, [&](const BlockKey& key) { return !tried.insert(key).second; });
    if (keys.empty()) break;
    const auto copied = co_await CopySurvivors(victim, std::move(keys));
    budget_bytes -= std::min(budget_bytes, copied->bytes);
    if (!copied->is_full) continue;
    if (choice.is_forced) break;
    budget_bytes = 0;
    if (PlanFor(choice, 0).held_bytes > 0) {
      co_return absl::ResourceExhaustedError("no room to copy what its tenants are guaranteed");
    }
  }
  co_return PlanFor(choice, 0).drop;
}

Task<absl::Status> DiskTier::State::Reclaim(ReclaimChoice choice, uint64_t budget_bytes) {
  const SegmentId victim = choice.victim;
  log->BeginReclaim(victim);
  order.AdvanceTo(executor->Now());
  order.BeginReclaim(victim);
  shares.BeginReclaim();
  KVT_KILL_POINT("reclaim.begun");
  if (!choice.trim.empty()) {
    Evict(choice.trim);
    ManifestBatch trimmed{.erases = std::move(choice.trim)};
    // If this fails, the blocks are back after a restart.
    (co_await commits.Commit(std::move(trimmed))).IgnoreError();
  }
  absl::StatusOr<std::vector<BlockKey>> drop = co_await CopyWhatStays(choice, budget_bytes);
  if (!drop.ok()) {
    log->PutBack(victim);
    co_return drop.status();
  }
  log->ReserveForReclaim(0);
  // Nothing is awaited between that plan and Evict(), so no child of a dropped block can appear.
  ManifestBatch batch{.erases = *std::move(drop)};
  KVT_KILL_POINT("reclaim.before_drop");
  Evict(batch.erases);
  // Drops records that were to stay and could not be copied, with their segment.
  const ReclaimPlan rest = PlanReclaim(index, order, {.victim = victim});
  Evict(rest.drop);
  batch.erases.insert(batch.erases.end(), rest.drop.begin(), rest.drop.end());
  KVT_KILL_POINT("reclaim.unpublished");
  KVT_CHECK(index.InSegment(victim).empty());
  const uint64_t generation = log->NextGeneration();
  batch.generations.push_back({.segment = victim, .generation = generation});
  KVT_KILL_POINT("reclaim.before_commit");
  const absl::Status committed = co_await commits.Commit(std::move(batch));
  KVT_KILL_POINT("reclaim.committed");
  if (committed.ok()) {
    ++reclaimed.segments;
    log->Free(victim, generation);
    KVT_KILL_POINT("reclaim.freed");
  } else {
    // The segment is empty now. Rows that were not erased become stale when the next reclaim raises
    // its generation.
    log->PutBack(victim);
  }
  co_return committed;
}

Task<absl::StatusOr<RecordHeader>> DiskTier::State::HeaderForCopy(DiskEntry* entry,
                                                                  const PayloadSum& sum,
                                                                  std::span<std::byte> slot) {
  if (entry->block.key_id == KeyId{}) co_return HeaderOf(*entry, sum);
  const absl::StatusOr<RecordCipher> cipher = keys->CipherToSealAgain(entry->block.key_id);
  if (!cipher.ok()) co_return cipher.status();
  entry->block.key_id = cipher->key_id();  // Differs after a rotation.
  if (!index.Fits(entry->block)) {
    co_return absl::UnavailableError("blocks of too many different shapes");
  }
  absl::StatusOr<RecordHeader> header;
  // The payload was opened just now, in a buffer that nothing else writes, so no sum needs
  // checking.
  ByteThreads::Work seal = [&] { header = SealRecord(*entry, *cipher, nullptr, slot); };
  Task<void> sealed = byte_threads->Run(std::move(seal));
  co_await sealed;
  co_return header;
}

Task<absl::Status> DiskTier::State::Reappend(DiskEntry from, RecordPlace place,
                                             std::span<std::byte> slot) {
  const BlockKey key = from.block.key;
  KVT_KILL_POINT("reclaim.before_read");
  const absl::StatusOr<PayloadSum> sum = co_await ReadRecord(IoClass::kReclaim, from, slot);
  KVT_KILL_POINT("reclaim.after_read");
  // The block is gone, or was damaged and dropped: there is nothing to keep.
  if (absl::IsNotFound(sum.status()) || absl::IsDataLoss(sum.status())) co_return absl::OkStatus();
  if (!sum.ok()) co_return sum.status();
  DiskEntry to{.block = from.block, .place = place};
  const absl::StatusOr<RecordHeader> header = co_await HeaderForCopy(&to, *sum, slot);
  absl::Status moved = header.status();
  KVT_KILL_POINT("reclaim.before_write");
  if (moved.ok()) moved = co_await WriteData(IoClass::kReclaim, *header, slot);
  KVT_KILL_POINT("reclaim.after_write");
  // The entry of a block that was erased while it was copied must not come back.
  if (moved.ok() && index.IsAt(key, from.place)) {
    ManifestBatch batch;
    batch.puts.push_back(to);
    KVT_KILL_POINT("reclaim.before_row");
    moved = co_await commits.Commit(std::move(batch));
    KVT_KILL_POINT("reclaim.before_move");
    if (moved.ok() && index.IsAt(key, from.place)) index.Move(key, place, to.block.key_id);
    KVT_KILL_POINT("reclaim.moved");
  }
  if (moved.ok()) {
    ++reclaimed.reappended_blocks;
    reclaimed.reappended_bytes += RecordBytes(from.block.length);
  }
  co_return moved;
}

}  // namespace kvtier

#include "tier_disk/disk_tier.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/manifest/recovery.h"

namespace kvtier {

void DiskTier::State::Publish(const DiskEntry& entry) {
  index.Insert(entry.block, entry.place);
  order.AdvanceTo(executor->Now());
  order.NotePut(entry.block.key);
  follower(Change::kAdded, entry.block.key, entry.block.owner);
}

void DiskTier::State::Unpublish(const BlockKey& key) {
  follower(Change::kDropped, key, *index.OwnerOf(key));
  index.Erase(key);
}

DiskTier::DiskTier(Executor* executor, ByteThreads* byte_threads, Disk* disk, Manifest* manifest,
                   Follower follower, const DiskTierOptions& options)
    : state_(std::make_unique<State>(executor, byte_threads, disk, manifest, std::move(follower),
                                     options)) {}

DiskTier::~DiskTier() = default;

Task<absl::StatusOr<DiskTier::Recovery>> DiskTier::Open() {
  State& state = *state_;
  KVT_CHECK(!state.log.has_value());
  const uint32_t segments = state.disk->segment_count();
  if (segments < kMinSegments) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("the disk has ", segments, " segments; must have at least ", kMinSegments));
  }
  absl::StatusOr<ManifestImage> image = co_await state.manifest->Load();
  if (!image.ok()) co_return image.status();
  KVT_KILL_POINT("open.loaded");
  KVT_CHECK(state.keys == nullptr || state.keys->size() == 0);
  for (const TenantSalt& salt : image->salts) {
    if (state.keys == nullptr) continue;
    // If this fails, no block of the tenant can be opened: Recover() drops them.
    if (const absl::Status added = state.keys->Add(salt); !added.ok()) {
      Log(LogLevel::kError, absl::StrCat("disk: ", added.message()));
    }
  }
  const auto readable = [&](KeyId key_id) {
    return state.keys == nullptr ? LiesInTheClear(key_id) : state.keys->Opens(key_id);
  };
  RecoveredDisk found = Recover(*std::move(image), segments, state.disk->segment_bytes(), readable);
  KVT_KILL_POINT("open.before_repair");
  // Committed before the first append: no record on the disk may have a generation that is about to
  // be written again.
  KVT_CO_RETURN_IF_ERROR(co_await state.commits.Commit(std::move(found.repair)));
  KVT_KILL_POINT("open.repaired");

  state.order.AdvanceTo(state.executor->Now());
  state.log.emplace(found.segments, state.disk->segment_bytes());
  for (const DiskEntry& entry : found.live) {
    state.index.Insert(entry.block, {.segment = entry.place.segment,
                                     .generation = state.log->generation(entry.place.segment),
                                     .offset = entry.place.offset});
    state.shares.NoteOwner(entry.block.owner);
    KVT_KILL_POINT("open.block_indexed");
  }
  KVT_KILL_POINT("open.done");
  Recovery recovery{.recovered_blocks = found.live.size(),
                    .dropped_stale = found.dropped_stale,
                    .dropped_corrupt = found.dropped_corrupt,
                    .dropped_misfit = found.dropped_misfit,
                    .dropped_keyless = found.dropped_keyless};
  co_return recovery;
}

Task<absl::Status> DiskTier::Erase(BlockKey key) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  while (true) {
    const auto putting = state.putting.find(key);
    if (putting == state.putting.end()) break;
    const std::shared_ptr<SharedOutcome> outcome = putting->second;
    co_await outcome->done.WaitUntil(absl::InfiniteFuture());
  }
  if (!state.index.Contains(key)) co_return absl::OkStatus();
  KVT_KILL_POINT("erase.begun");
  state.Unpublish(key);
  KVT_KILL_POINT("erase.unpublished");
  ManifestBatch batch;
  batch.erases.push_back(key);
  absl::Status forgotten = co_await state.commits.Commit(std::move(batch));
  KVT_KILL_POINT("erase.committed");
  co_return forgotten;
}

Task<absl::Status> DiskTier::Confirm() { return state_->commits.Commit({}); }

absl::Status DiskTier::HasRoom() const { return state_->manifest->HasRoom(); }

std::optional<DiskBlock> DiskTier::Find(const BlockKey& key) const {
  const std::optional<DiskEntry> entry = state_->index.Find(key);
  if (!entry.has_value()) return std::nullopt;
  return entry->block;
}

std::optional<TenantTag> DiskTier::OwnerOf(const BlockKey& key) const {
  return state_->index.OwnerOf(key);
}

bool DiskTier::Contains(const BlockKey& key) const { return state_->index.Contains(key); }

bool DiskTier::HasChildOf(const BlockKey& key) const { return state_->index.HasChildOf(key); }

void DiskTier::ForEachChildOf(const BlockKey& key,
                              absl::FunctionRef<bool(const BlockKey&)> visit) const {
  state_->index.ForEachChildOf(key, visit);
}

bool DiskTier::KeysFrom(DiskWalk* at, size_t limit, std::vector<BlockKey>* keys) const {
  return state_->index.KeysFrom(&at->record, limit, keys);
}

void DiskTier::Touch(const BlockKey& key, const ReuseHint& hint) {
  NoteUse(key, hint);
  MarkWarm(key);
}

void DiskTier::NoteUse(const BlockKey& key, const ReuseHint& hint) {
  state_->order.AdvanceTo(state_->executor->Now());
  state_->order.NoteUse(key, hint);
}

std::optional<BlockKey> DiskTier::MarkWarm(const BlockKey& key) { return state_->index.Touch(key); }

Task<bool> DiskTier::Idle(absl::Time deadline) { return state_->background.Idle(deadline); }

const DiskTier::Reclaimed& DiskTier::reclaimed() const { return state_->reclaimed; }

size_t DiskTier::block_count() const { return state_->index.size(); }

uint64_t DiskTier::capacity_bytes() const { return state_->usable_bytes(); }

uint64_t DiskTier::used_bytes() const { return state_->index.used_bytes(); }

uint64_t DiskTier::manifest_bytes() const { return state_->manifest->memory_bytes(); }
EvictionSummary DiskTier::eviction() const { return state_->order.Summary(); }

ReuseHazards* DiskTier::hazards() { return state_->order.hazards(); }
uint64_t DiskTier::index_bytes() const { return state_->index.memory_bytes(); }

const TierStats& DiskTier::stats() const { return state_->stats; }

void DiskTier::Audit() const {
  state_->index.Audit();
  state_->order.Audit();
  if (!state_->log.has_value()) return;
  state_->log->Audit();
  if (state_->keys != nullptr) state_->keys->Audit();
  KVT_CHECK(state_->putting.size() <= kMaxDiskPutsInFlight);
  KVT_CHECK(state_->gets_in_flight <= kMaxDiskGetsInFlight);
  for (const BlockKey& key : state_->index.Keys()) {
    const DiskEntry entry = *state_->index.Find(key);
    const RecordPlace& place = entry.place;
    KVT_CHECK((entry.block.key_id == KeyId{}) == (state_->keys == nullptr));
    KVT_CHECK(SameGeneration(place.generation, state_->log->generation(place.segment)));
    KVT_CHECK(place.offset + RecordBytes(entry.block.length) <= state_->log->tail(place.segment));
  }
}

}  // namespace kvtier

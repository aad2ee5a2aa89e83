#include "tier_disk/disk_tier.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"
#include "tier_disk/recovery.h"

namespace kvtier {

Record DiskTier::State::RecordAt(const DiskBlock& block, const RecordPlace& place) {
  const BlockIdentity identity{.key = block.key,
                               .space = block.space,
                               .length = block.length,
                               .generation = place.generation};
  return SealRecord(identity, block.sum);
}

ManifestEntry DiskTier::State::EntryAt(const DiskBlock& block, const RecordPlace& place) {
  return {.key = block.key,
          .parent = block.parent,
          .space = block.space,
          .segment = place.segment,
          .generation = place.generation,
          .offset = place.offset,
          .length = block.length,
          .sum = block.sum,
          .seal = RecordAt(block, place).seal};
}

DiskTier::DiskTier(Executor* executor, ByteWorkers* workers, Disk* disk, Manifest* manifest,
                   OnDrop on_drop)
    : state_(std::make_unique<State>(executor, workers, disk, manifest, std::move(on_drop))) {}

DiskTier::~DiskTier() = default;

Task<absl::StatusOr<DiskTier::Recovery>> DiskTier::Open() {
  State& state = *state_;
  KVT_CHECK(!state.log.has_value());
  const uint32_t segments = state.disk->segment_count();
  if (segments < kMinSegments) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("disk of ", segments, " segments; at least ", kMinSegments, " are needed"));
  }
  absl::StatusOr<ManifestImage> image = co_await state.manifest->Load();
  if (!image.ok()) co_return image.status();
  RecoveredDisk found = Recover(*std::move(image), segments, state.disk->segment_bytes());
  // Before the first append: no record on the disk may carry a generation that is
  // about to be written under.
  KVT_CO_RETURN_IF_ERROR(co_await state.commits.Commit(std::move(found.repair)));

  state.log.emplace(found.segments, state.disk->segment_bytes());
  for (const ManifestEntry& entry : found.live) {
    const DiskBlock block{.key = entry.key,
                          .parent = entry.parent,
                          .space = entry.space,
                          .length = entry.length,
                          .sum = entry.sum};
    const RecordPlace place{.segment = entry.segment,
                            .generation = state.log->generation(entry.segment),
                            .offset = entry.offset};
    state.index.Insert(block, place);
  }
  Recovery recovery{.recovered_blocks = found.live.size(),
                    .dropped_stale = found.dropped_stale,
                    .dropped_corrupt = found.dropped_corrupt,
                    .dropped_misfit = found.dropped_misfit};
  co_return recovery;
}

Task<absl::Status> DiskTier::Erase(const BlockKey& key) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  while (true) {
    const auto putting = state.putting.find(key);
    if (putting == state.putting.end()) break;
    const std::shared_ptr<SharedOutcome> outcome = putting->second;
    co_await outcome->done.WaitUntil(absl::InfiniteFuture());
  }
  if (state.index.Find(key) == nullptr) co_return absl::OkStatus();
  state.index.Erase(key);
  ManifestBatch batch;
  batch.erases.push_back(key);
  co_return co_await state.commits.Commit(std::move(batch));
}

std::optional<DiskBlock> DiskTier::Find(const BlockKey& key) const {
  const RecordIndex::Entry* entry = state_->index.Find(key);
  if (entry == nullptr) return std::nullopt;
  return entry->block;
}

std::vector<DiskBlock> DiskTier::Blocks() const { return state_->index.Blocks(); }

size_t DiskTier::block_count() const { return state_->index.size(); }

uint64_t DiskTier::capacity_bytes() const {
  return (state_->disk->segment_count() - kReserveSegments) * state_->disk->segment_bytes();
}

uint64_t DiskTier::used_bytes() const { return state_->index.used_bytes(); }

const TierStats& DiskTier::stats() const { return state_->stats; }

void DiskTier::Audit() const {
  state_->index.Audit();
  if (!state_->log.has_value()) return;
  state_->log->Audit();
  KVT_CHECK(state_->putting.size() <= kMaxDiskPutsInFlight);
  KVT_CHECK(state_->gets_in_flight <= kMaxDiskGetsInFlight);
  for (const DiskBlock& block : state_->index.Blocks()) {
    const RecordPlace& place = state_->index.Find(block.key)->place;
    KVT_CHECK(SameGeneration(place.generation, state_->log->generation(place.segment)));
    KVT_CHECK(place.offset + RecordBytes(block.length) <= state_->log->tail(place.segment));
  }
}

}  // namespace kvtier

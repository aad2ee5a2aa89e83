#include "agent/gpu/gpu_offload.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/log.h"

namespace kvtier {

size_t GpuOffloader::SpareOf(size_t watermark) const {
  const size_t slots = parts_.pool->table().slots();
  return slots == 1 ? 0 : std::max<size_t>(slots / watermark, 1);
}

void GpuOffloader::Pump() {
  if (spare() >= SpareOf(kGpuHighWatermarkSpare)) return;
  for (size_t evicted = 0; spare() < SpareOf(kGpuLowWatermarkSpare); ++evicted) {
    if (evicted == kMaxEvictedAhead) return;
    if (!parts_.evictor->EvictCopy()) {
      StartCopies();
      return;
    }
    ++parts_.stats->evicted_ahead;
  }
}

void GpuOffloader::StartCopies() {
  if (stopping_ || !parts_.device->state().ok()) return;
  for (size_t begun = running_; begun < kMaxGpuOffloadsRunning; ++begun) {
    const size_t coming = spare() + leaving_;
    const size_t wanted = SpareOf(kGpuLowWatermarkSpare);
    if (coming >= wanted) return;
    Batch batch = NextBatch(std::min(wanted - coming, kMaxBlocksOffloaded));
    if (batch.copies.empty()) return;
    parts_.scope->Spawn(Run(std::move(batch)));
  }
}

GpuOffloader::Batch GpuOffloader::NextBatch(size_t blocks) {
  Batch batch;
  for (const BlockKey& key : parts_.blocks->CheapestOnlyHere(blocks)) {
    const GpuBlock& block = *parts_.blocks->Find(key);
    absl::StatusOr<HostSlot> host =
        parts_.host_evictor->ReserveHost(parts_.domain, block.meta.length);
    if (!host.ok()) {
      ++parts_.stats->offload_declined;
      break;
    }
    CopiedBlock copy{.slot = block.slot.ref(),
                     .bytes = host->bytes(),
                     .host = *std::move(host),
                     .pin = *parts_.blocks->PinOf(key),
                     .meta = block.meta};
    batch.copies.push_back(std::move(copy));
    batch.last_uses.push_back(parts_.blocks->LastUseOf(key));
  }
  return batch;
}

Task<void> GpuOffloader::Run(Batch batch) {
  const uint64_t erasures = parts_.index->erasures(parts_.domain);
  const size_t blocks = batch.copies.size();
  ++running_;
  leaving_ += blocks;
  const absl::Status copied =
      co_await parts_.copies->CopyOut(std::span(batch.copies), CopyUrgency::kBackground);
  --running_;
  leaving_ -= blocks;
  if (!copied.ok()) co_return;  // The blocks stay until the next look.
  for (CopiedBlock& copy : batch.copies) copy.pin.Release();
  const bool forgotten = parts_.index->erasures(parts_.domain) != erasures;
  for (size_t i = 0; i < blocks; ++i) {
    Finish(std::move(batch.copies[i]), batch.last_uses[i], forgotten);
  }
  StartCopies();
}

void GpuOffloader::Finish(CopiedBlock copy, uint64_t last_use, bool forgotten) {
  const BlockKey& key = copy.meta.key;
  const bool may_leave = parts_.blocks->MayLeave(key);
  if (forgotten || !copy.proved) {
    if (!forgotten) {
      Log(LogLevel::kError, absl::StrCat("block ", key.ToHex(),
                                         " was dropped: its bytes in the GPU pool changed after "
                                         "its commit, so a worker writes into committed blocks"));
    }
    if (may_leave) parts_.evictor->Drop(key);
    return;
  }
  // A put or a fetch may have come first.
  if (!parts_.index->In(Tier::kHost, key)) {
    ++parts_.stats->offloaded;
    ++parts_.host_stats->inserts;
    parts_.host_stats->bytes_in += copy.meta.length;
    // Nobody asked for it here: it makes room in the pool.
    parts_.index->PublishHost(copy.meta, std::move(copy.host), Arrival::kPrefetched, ReuseHint(),
                              parts_.index->Now());
  }
  const bool used = parts_.blocks->LastUseOf(key) != last_use;
  if (!may_leave || used || spare() >= SpareOf(kGpuLowWatermarkSpare)) return;
  parts_.evictor->Drop(key);
  ++parts_.stats->evicted_ahead;
}

}  // namespace kvtier

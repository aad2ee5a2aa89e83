#include "agent/gpu/gpu_load.h"

#include <utility>

#include "core/check.h"
#include "core/space.h"

namespace kvtier {

bool GpuLoader::Serves(DomainId domain, const BlockLengths& lengths) const {
  return domain == parts_.domain && !lengths.any &&
         SlotBytes(lengths.longest) == parts_.pool->slot_bytes();
}

SharedLoad GpuLoader::Start(Pin host_pin) {
  const BlockKey key = host_pin.key();
  if (SharedLoad load = parts_.loads->Find(key)) return load;
  absl::StatusOr<GpuSlot> slot = parts_.evictor->ReserveGpu();
  if (!slot.ok()) return nullptr;
  SharedLoad load = parts_.loads->Start(key, Tier::kHost);
  const BlockIndex::Entry& entry = *parts_.index->Find(key);
  started_.push_back({.slot = slot->ref(),
                      .bytes = entry.host.bytes(),
                      .gpu = *std::move(slot),
                      .pin = std::move(host_pin),
                      .meta = entry.meta});
  if (started_.size() == kMaxCopySegments) Flush();
  return load;
}

void GpuLoader::Flush() {
  if (started_.empty()) return;
  parts_.scope->Spawn(Move(std::exchange(started_, {})));
  parts_.offloader->Pump();
}

Task<void> GpuLoader::Move(std::vector<CopiedBlock> batch) {
  const absl::Time start = executor_->Now();
  const absl::Status status = co_await parts_.copies->Onboard(std::span(batch));
  const absl::Duration took = executor_->Now() - start;
  for (CopiedBlock& block : batch) {
    const BlockMeta& meta = block.meta;
    if (status.ok()) {
      if (!parts_.index->In(Tier::kGpu, meta.key)) {
        KVT_CHECK(parts_.pool->table().Seal(block.slot).ok());
        parts_.index->PublishGpu(meta, std::move(block.gpu), Arrival::kAskedFor);
      }
      ++parts_.stats->gpu.inserts;
      parts_.stats->gpu.bytes_in += meta.length;
      parts_.stats->gpu.write_latency.Record(took);
    } else {
      ++parts_.stats->gpu.io_errors;
    }
    parts_.loads->Finish(meta.key, status);
  }
}

}  // namespace kvtier

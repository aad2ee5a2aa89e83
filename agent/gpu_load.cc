#include "agent/gpu_load.h"

#include <utility>

#include "core/check.h"
#include "core/kill_point.h"
#include "core/space.h"

namespace kvtier {

bool GpuLoader::Serves(DomainId domain, uint64_t block_bytes) const {
  return domain == parts_.domain && SlotBytes(block_bytes) == parts_.pool->slot_bytes();
}

SharedLoad GpuLoader::Start(Pin host_pin) {
  const BlockKey key = host_pin.key();
  if (SharedLoad load = parts_.loads->Find(key)) return load;
  absl::StatusOr<GpuSlot> slot = parts_.evictor->ReserveGpu();
  if (!slot.ok()) return nullptr;
  SharedLoad load = parts_.loads->Start(key, Tier::kHost);
  started_.push_back({.host_pin = std::move(host_pin), .slot = *std::move(slot)});
  if (started_.size() == kMaxCopySegments) Flush();
  return load;
}

void GpuLoader::Flush() {
  if (started_.empty()) return;
  parts_.scope->Spawn(Move(std::exchange(started_, {})));
  parts_.offloader->Pump();
}

Task<void> GpuLoader::Move(std::vector<Moving> batch) {
  std::vector<GpuTransfer> transfers;
  transfers.reserve(batch.size());
  for (const Moving& block : batch) {
    transfers.push_back(
        {.slot = block.slot.ref(), .host = parts_.index->Find(block.host_pin.key())->host.bytes()});
  }
  const absl::Time start = executor_->Now();
  KVT_KILL_POINT("gpu.load_begun");
  const absl::Status status = co_await parts_.copies->Onboard(transfers);
  KVT_KILL_POINT("gpu.load_copied");
  const absl::Duration took = executor_->Now() - start;
  for (Moving& block : batch) {
    const BlockKey key = block.host_pin.key();
    if (status.ok()) {
      const BlockMeta meta = parts_.index->Find(key)->meta;
      if (!parts_.index->In(Tier::kGpu, key)) {
        KVT_CHECK(parts_.pool->table().Seal(block.slot.ref()).ok());
        parts_.index->PublishGpu(meta, std::move(block.slot), Arrival::kAskedFor);
        KVT_KILL_POINT("gpu.load_published");
      }
      ++parts_.stats->gpu.inserts;
      parts_.stats->gpu.bytes_in += meta.length;
      parts_.stats->gpu.write_latency.Record(took);
    } else {
      ++parts_.stats->gpu.io_errors;
    }
    parts_.loads->Finish(key, status);
  }
}

}  // namespace kvtier

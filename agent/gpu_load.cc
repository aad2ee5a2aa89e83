#include "agent/gpu_load.h"

#include <utility>

#include "core/check.h"
#include "core/space.h"

namespace kvtier {

bool GpuLoader::Serves(DomainId domain, uint64_t block_bytes) const {
  return domain == domain_ && SlotBytes(block_bytes) == pool_->slot_bytes();
}

SharedLoad GpuLoader::Start(Pin host_pin) {
  const BlockKey key = host_pin.key();
  if (SharedLoad load = loads_->Find(key)) return load;
  absl::StatusOr<GpuSlot> slot = evictor_->ReserveGpu();
  if (!slot.ok()) return nullptr;
  SharedLoad load = loads_->Start(key, Tier::kHost);
  started_.push_back({.host_pin = std::move(host_pin), .slot = *std::move(slot)});
  if (started_.size() == kMaxCopySegments) Flush();
  return load;
}

void GpuLoader::Flush() {
  if (!started_.empty()) scope_->Spawn(Move(std::exchange(started_, {})));
}

Task<void> GpuLoader::Move(std::vector<Moving> batch) {
  std::vector<GpuTransfer> transfers;
  transfers.reserve(batch.size());
  for (const Moving& block : batch) {
    transfers.push_back(
        {.slot = block.slot.ref(), .host = index_->Find(block.host_pin.key())->host.bytes()});
  }
  const absl::Time start = executor_->Now();
  const absl::Status status = co_await pool_->Scatter(transfers);
  const absl::Duration took = executor_->Now() - start;
  for (Moving& block : batch) {
    const BlockKey key = block.host_pin.key();
    if (status.ok()) {
      const BlockMeta meta = index_->Find(key)->meta;
      if (!index_->In(Tier::kGpu, key)) {
        KVT_CHECK(pool_->table().Seal(block.slot.ref()).ok());
        index_->PublishGpu(meta, std::move(block.slot));
      }
      ++stats_->gpu.inserts;
      stats_->gpu.bytes_in += meta.length;
      stats_->gpu.write_latency.Record(took);
    } else {
      ++stats_->gpu.io_errors;
    }
    loads_->Finish(key, status);
  }
}

}  // namespace kvtier

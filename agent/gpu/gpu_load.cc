#include "agent/gpu/gpu_load.h"

#include <utility>

namespace kvtier {

SharedLoad GpuLoader::Start(Pin host_pin, const ReuseHint& hint) {
  const BlockKey key = host_pin.key();
  if (SharedLoad load = loads_.Find(key)) return load;
  if (host_pin.block().is_condemned) return nullptr;
  absl::StatusOr<GpuSlot> slot = parts_.evictor->Reserve();
  if (!slot.ok()) return nullptr;
  SharedLoad load = loads_.Start(key, Tier::kHost);
  const auto& block = static_cast<const HostBlock&>(host_pin.block());
  started_.push_back({.slot = slot->ref(),
                      .bytes = block.slot.bytes(),
                      .gpu = *std::move(slot),
                      .pin = std::move(host_pin),
                      .meta = block.meta,
                      .hint = hint});
  if (started_.size() == kMaxCopySegments) Flush();
  return load;
}

void GpuLoader::Flush() {
  if (started_.empty()) return;
  parts_.scope->Spawn(Move(std::exchange(started_, {})));
  parts_.offloader->Pump();
}

Task<void> GpuLoader::Move(std::vector<CopiedBlock> batch) {
  const absl::Time start = parts_.executor->Now();
  const absl::Status copied = co_await parts_.copies->Onboard(std::span(batch));
  const absl::Duration took = parts_.executor->Now() - start;
  for (CopiedBlock& block : batch) {
    const BlockMeta& meta = block.meta;
    absl::Status status = copied;
    // The pool may have got bytes that were damaged already.
    if (status.ok() && block.pin.block().is_condemned) {
      status = absl::DataLossError("the block was damaged in host memory");
    }
    if (status.ok()) {
      if (!parts_.blocks->Contains(meta.key)) {
        parts_.blocks->Publish(meta, std::move(block.gpu), Arrival::kAskedFor, block.hint);
      }
      ++parts_.stats->inserts;
      parts_.stats->bytes_in += meta.length;
      parts_.stats->write_latency.Record(took);
    } else {
      ++parts_.stats->io_errors;
    }
    loads_.Finish(meta.key, status);
  }
}

}  // namespace kvtier

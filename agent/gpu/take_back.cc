#include "agent/gpu/take_back.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/space.h"

namespace kvtier {

PoolSurvivors ReadSurvivors(GpuPool* pool, const PoolLedger& ledger) {
  PoolSurvivors survivors;
  std::vector<GpuSlot> free;
  free.reserve(pool->table().slots());
  for (size_t i = 0; i < pool->table().slots(); ++i) {
    absl::StatusOr<GpuSlot> slot = pool->Reserve();
    KVT_CHECK(slot.ok());
    PoolLedger::Slot written = ledger.slot(slot->ref().index);
    switch (written.state) {
      case PoolLedger::SlotState::kFree:
        free.push_back(*std::move(slot));
        break;
      case PoolLedger::SlotState::kHandedOut:
        survivors.handed_out.push_back(*std::move(slot));
        break;
      case PoolLedger::SlotState::kPublished:
        survivors.blocks.push_back({.meta = written.meta, .slot = *std::move(slot)});
        break;
    }
  }
  return survivors;
}

Task<void> TakeBack::Run() {
  const uint64_t erasures = parts_.index->erasures(parts_.domain);
  while (!stopping_ && !blocks_.empty()) {
    std::vector<CopiedBlock> batch = NextBatch();
    KVT_KILL_POINT("gpu.take_batch");
    // Who was not copied is not proved.
    if (!batch.empty()) {
      (void)co_await parts_.copies->CopyOut(std::span(batch), CopyUrgency::kForeground);
      KVT_KILL_POINT("gpu.take_copied");
    }
    for (CopiedBlock& copy : batch) {
      if (copy.proved && parts_.index->erasures(parts_.domain) == erasures) {
        Publish(std::move(copy));
      } else {
        Drop(copy.meta.key, copy.slot);
      }
    }
  }
  blocks_.clear();
  const AgentStats& stats = *parts_.stats;
  Log(LogLevel::kInfo, absl::StrCat("GPU pool: ", stats.gpu_taken_back, " blocks taken back, ",
                                    stats.gpu_dropped, " dropped"));
}

std::vector<CopiedBlock> TakeBack::NextBatch() {
  std::vector<CopiedBlock> batch;
  batch.reserve(kMaxBlocksTakenBack);
  while (batch.size() < kMaxBlocksTakenBack && !blocks_.empty()) {
    Block block = std::move(blocks_.back());
    blocks_.pop_back();
    const uint64_t length = block.meta.length;
    absl::StatusOr<HostSlot> host = absl::InvalidArgumentError("no block of this pool");
    if (SlotBytes(length) == parts_.pool->slot_bytes()) {
      host = parts_.evictor->ReserveHost(parts_.domain, length);
    }
    // Without host memory there is no proof.
    if (!host.ok()) {
      Drop(block.meta.key, block.slot.ref());
      continue;
    }
    batch.push_back({.slot = block.slot.ref(),
                     .bytes = host->bytes(),
                     .gpu = std::move(block.slot),
                     .host = *std::move(host),
                     .meta = block.meta});
  }
  return batch;
}

void TakeBack::Publish(CopiedBlock copy) {
  const BlockMeta& meta = copy.meta;
  --parts_.stats->gpu_unproved;
  ++parts_.stats->gpu_taken_back;
  // One that came another way meanwhile stays as it came.
  if (!parts_.index->In(Tier::kHost, meta.key)) {
    parts_.index->PublishHost(meta, std::move(copy.host));
  }
  KVT_KILL_POINT("gpu.take_in_host");
  if (parts_.index->In(Tier::kGpu, meta.key)) return;
  KVT_CHECK(parts_.pool->table().Seal(copy.slot).ok());
  parts_.index->PublishGpu(meta, std::move(copy.gpu));
  KVT_KILL_POINT("gpu.take_published");
}

void TakeBack::Drop(const BlockKey& key, SlotRef slot) {
  --parts_.stats->gpu_unproved;
  ++parts_.stats->gpu_dropped;
  // Ahead of the slot's next life.
  parts_.ledger->HandOut(slot.index);
  KVT_KILL_POINT("gpu.take_dropped");
  Log(LogLevel::kWarning, absl::StrCat("GPU pool: block ", key.ToHex(),
                                       " could not be proved, or its tenant is erased: dropped"));
}

}  // namespace kvtier

#include "agent/take_back.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/checksum.h"
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
  while (!stopping_ && !blocks_.empty()) {
    std::vector<Proving> batch = NextBatch();
    co_await Prove(&batch);
    for (Proving& proving : batch) {
      if (proving.proved) {
        Publish(std::move(proving));
      } else {
        Drop(std::move(proving.block));
      }
    }
  }
  blocks_.clear();
  const AgentStats& stats = *parts_.stats;
  Log(LogLevel::kInfo, absl::StrCat("GPU pool: ", stats.gpu_taken_back, " blocks taken back, ",
                                    stats.gpu_dropped, " dropped"));
}

std::vector<TakeBack::Proving> TakeBack::NextBatch() {
  std::vector<Proving> batch;
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
      Drop(std::move(block));
      continue;
    }
    batch.push_back({.block = std::move(block), .host = *std::move(host)});
  }
  return batch;
}

Task<void> TakeBack::Prove(std::vector<Proving>* batch) {
  std::vector<GpuTransfer> transfers;
  transfers.reserve(batch->size());
  for (const Proving& proving : *batch) {
    transfers.push_back({.slot = proving.block.slot.ref(), .host = proving.host.bytes()});
  }
  if (transfers.empty()) co_return;
  const absl::Status copied = co_await parts_.copies->Offload(transfers);
  if (!copied.ok()) co_return;
  ByteWorkers::Work sums = [batch] {
    for (Proving& proving : *batch) {
      const BlockMeta& meta = proving.block.meta;
      const std::span<std::byte> slot = proving.host.bytes();
      proving.proved = SumPayload(slot.first(meta.length)) == meta.sum;
      // As at commit: the slot's tail goes to disk with it.
      std::fill(slot.begin() + static_cast<ptrdiff_t>(meta.length), slot.end(), std::byte{0});
    }
  };
  co_await parts_.workers->Run(std::move(sums));
}

void TakeBack::Publish(Proving proving) {
  const BlockMeta& meta = proving.block.meta;
  --parts_.stats->gpu_unproved;
  ++parts_.stats->gpu_taken_back;
  ++parts_.stats->gpu.verified;
  // One that came another way meanwhile stays as it came.
  if (!parts_.index->In(Tier::kHost, meta.key)) {
    parts_.index->PublishHost(meta, std::move(proving.host));
  }
  GpuSlot& slot = proving.block.slot;
  parts_.ledger->HandOut(slot.ref().index);
  if (parts_.index->In(Tier::kGpu, meta.key)) return;
  KVT_CHECK(parts_.pool->table().Seal(slot.ref()).ok());
  parts_.index->PublishGpu(meta, std::move(slot));
}

void TakeBack::Drop(Block block) {
  --parts_.stats->gpu_unproved;
  ++parts_.stats->gpu_dropped;
  ++parts_.stats->gpu.verify_failures;
  // Ahead of the slot's next life.
  parts_.ledger->HandOut(block.slot.ref().index);
  Log(LogLevel::kWarning, absl::StrCat("GPU pool: block ", block.meta.key.ToHex(),
                                       " could not be proved and is dropped"));
}

}  // namespace kvtier

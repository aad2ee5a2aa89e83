#include "agent/gpu/gpu_copies.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/index/slot_sum.h"
#include "core/log.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

Task<absl::Status> GpuCopies::Onboard(std::span<CopiedBlock> blocks) {
  const std::vector<GpuTransfer> transfers = TransfersOf(blocks);
  const absl::Time began = parts_.executor->Now();
  Begin(&parts_.stats->onboard);
  const absl::Status status = co_await parts_.pool->Scatter(transfers);
  End(&parts_.stats->onboard, began, blocks.size() * parts_.pool->slot_bytes(), status.ok());
  KeepIfAbandoned(status, blocks);
  co_return status;
}

Task<absl::Status> GpuCopies::Offload(std::span<CopiedBlock> blocks, CopyUrgency urgency) {
  const std::vector<GpuTransfer> transfers = TransfersOf(blocks);
  const absl::Time began = parts_.executor->Now();
  Begin(&parts_.stats->offload);
  const absl::Status status = co_await parts_.pool->Gather(transfers, urgency);
  End(&parts_.stats->offload, began, blocks.size() * parts_.pool->slot_bytes(), status.ok());
  parts_.tier_stats->read_latency.Record(parts_.executor->Now() - began);
  if (!status.ok()) parts_.tier_stats->io_errors += blocks.size();
  KeepIfAbandoned(status, blocks);
  co_return status;
}

Task<absl::Status> GpuCopies::CopyOut(std::span<CopiedBlock> blocks, CopyUrgency urgency) {
  const absl::Status copied = co_await Offload(blocks, urgency);
  if (!copied.ok()) co_return copied;
  ByteThreads::Work prove = [blocks] {
    for (CopiedBlock& block : blocks) {
      block.proved = SumSlot(block.bytes, block.meta.length) == block.meta.sum;
    }
  };
  co_await parts_.byte_threads->Run(std::move(prove));
  for (const CopiedBlock& block : blocks) {
    parts_.tier_stats->bytes_out += block.meta.length;
    ++(block.proved ? parts_.tier_stats->verified : parts_.tier_stats->verify_failures);
  }
  co_return absl::OkStatus();
}

std::vector<GpuTransfer> GpuCopies::TransfersOf(std::span<const CopiedBlock> blocks) {
  std::vector<GpuTransfer> transfers;
  transfers.reserve(blocks.size());
  for (const CopiedBlock& block : blocks) {
    transfers.push_back({.slot = block.slot, .host = block.bytes});
  }
  return transfers;
}

void GpuCopies::KeepIfAbandoned(const absl::Status& copied, std::span<CopiedBlock> blocks) {
  if (!IsAbandoned(copied)) return;
  Log(LogLevel::kWarning, absl::StrCat("GPU pool: the slots of ", blocks.size(),
                                       " blocks cannot be used until this agent restarts, because "
                                       "a copy of theirs did not end: ",
                                       copied.message()));
  std::ranges::move(blocks, std::back_inserter(abandoned_));
}

void GpuCopies::Begin(GpuLinkStats* link) {
  if (link->in_flight++ == 0) link->busy_since = parts_.executor->Now();
}

void GpuCopies::End(GpuLinkStats* link, absl::Time began, uint64_t bytes, bool ok) {
  const absl::Time now = parts_.executor->Now();
  const absl::Duration took = now - began;
  if (--link->in_flight == 0) link->busy += now - link->busy_since;
  ++link->copies;
  link->latency.Record(took);
  if (!ok) {
    ++link->failed;
    return;
  }
  link->bytes += bytes;
  if (took <= absl::ZeroDuration()) return;
  link->best_bytes_per_second = std::max(link->best_bytes_per_second,
                                         static_cast<double>(bytes) / absl::ToDoubleSeconds(took));
}

}  // namespace kvtier

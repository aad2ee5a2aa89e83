#include "agent/gpu_copies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/slot_sum.h"

namespace kvtier {

Task<absl::Status> GpuCopies::Onboard(std::span<const GpuTransfer> blocks) {
  const absl::Time began = executor_->Now();
  Begin(&stats_->gpu_onboard);
  const absl::Status status = co_await pool_->Scatter(blocks);
  End(&stats_->gpu_onboard, began, blocks.size() * pool_->slot_bytes(), status.ok());
  co_return status;
}

Task<absl::Status> GpuCopies::Offload(std::span<const GpuTransfer> blocks, CopyUrgency urgency) {
  const absl::Time began = executor_->Now();
  Begin(&stats_->gpu_offload);
  const absl::Status status = co_await pool_->Gather(blocks, urgency);
  End(&stats_->gpu_offload, began, blocks.size() * pool_->slot_bytes(), status.ok());
  stats_->gpu.read_latency.Record(executor_->Now() - began);
  if (!status.ok()) stats_->gpu.io_errors += blocks.size();
  co_return status;
}

Task<absl::Status> GpuCopies::CopyOut(std::span<BlockCopyOut> blocks, CopyUrgency urgency) {
  std::vector<GpuTransfer> transfers;
  transfers.reserve(blocks.size());
  for (const BlockCopyOut& block : blocks) {
    transfers.push_back({.slot = block.slot, .host = block.host.bytes()});
  }
  const absl::Status copied = co_await Offload(transfers, urgency);
  if (!copied.ok()) co_return copied;
  ByteWorkers::Work prove = [blocks] {
    for (BlockCopyOut& block : blocks) {
      block.proved = SumSlot(block.host.bytes(), block.meta.length) == block.meta.sum;
    }
  };
  co_await workers_->Run(std::move(prove));
  for (const BlockCopyOut& block : blocks) {
    stats_->gpu.bytes_out += block.meta.length;
    ++(block.proved ? stats_->gpu.verified : stats_->gpu.verify_failures);
  }
  co_return absl::OkStatus();
}

void GpuCopies::Begin(GpuLinkStats* link) {
  if (link->in_flight++ == 0) link->busy_since = executor_->Now();
}

void GpuCopies::End(GpuLinkStats* link, absl::Time began, uint64_t bytes, bool ok) {
  const absl::Time now = executor_->Now();
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

#include "agent/gpu_copies.h"

#include <algorithm>

namespace kvtier {

Task<absl::Status> GpuCopies::Onboard(std::span<const GpuTransfer> blocks) {
  const absl::Time began = executor_->Now();
  Begin(&stats_->gpu_onboard);
  const absl::Status status = co_await pool_->Scatter(blocks);
  End(&stats_->gpu_onboard, began, blocks.size() * pool_->slot_bytes(), status.ok());
  co_return status;
}

Task<absl::Status> GpuCopies::Offload(std::span<const GpuTransfer> blocks) {
  const absl::Time began = executor_->Now();
  Begin(&stats_->gpu_offload);
  const absl::Status status = co_await pool_->Gather(blocks);
  End(&stats_->gpu_offload, began, blocks.size() * pool_->slot_bytes(), status.ok());
  co_return status;
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

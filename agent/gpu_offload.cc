#include "agent/gpu_offload.h"

namespace kvtier {

void GpuOffloader::Pump() {
  const size_t slots = pool_->table().slots();
  if (spare() >= slots / kGpuHighWatermarkSpare) return;
  for (size_t evicted = 0; evicted < kMaxEvictedAhead; ++evicted) {
    if (spare() >= slots / kGpuLowWatermarkSpare || !evictor_->EvictGpuCopy()) return;
    ++stats_->gpu_evicted_ahead;
  }
}

}  // namespace kvtier

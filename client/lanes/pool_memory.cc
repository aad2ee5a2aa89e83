#include "client/lanes/pool_memory.h"

#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<LaneRunner::Copy> PlanJob(const LaneParts& parts, const PoolMemory& memory,
                                         const PlannedJob& job) {
  const bool onboard = job.direction == CopyDirection::kHostToDevice;
  const CopyRequest request = {
      .blocks = job.blocks,
      .direction = job.direction,
      .order = job.progress == nullptr ? PlanOrder::kWhole : PlanOrder::kLayerWise,
      .lane = LaneOwner::kWorker,
      .chunks = {.base = job.arena->base(), .chunk_bytes = parts.pin_chunk_bytes},
      .borders = memory.borders};
  KVT_ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopies(memory.geometry, request, *parts.table));
  LaneRunner::Copy copy = {.direction = job.direction,
                           .urgency = onboard ? CopyUrgency::kForeground : CopyUrgency::kBackground,
                           .region = memory.region.get()};
  copy.batches.reserve(plan.batches.size());
  uint32_t complete = 0;
  for (const PlannedBatch& planned : plan.batches) {
    const auto segments = plan.SegmentsOf(planned);
    LaneRunner::Batch& batch = copy.batches.emplace_back();
    batch.path = planned.path;
    batch.segments.assign(segments.begin(), segments.end());
    if (job.progress == nullptr || planned.layers_complete == complete) continue;
    complete = planned.layers_complete;
    batch.before = {.word = job.progress->word,
                    .value = job.progress->base + complete,
                    .page = job.progress->page};
  }
  return copy;
}

}  // namespace kvtier

#include "tier_gpu/planned_copy.h"

namespace kvtier {

LaneRunner::Copy RunnerCopy(const CopyPlan& plan, const PlannedCopy& what) {
  LaneRunner::Copy copy = {
      .direction = what.direction, .urgency = what.urgency, .region = what.region};
  copy.batches.reserve(plan.batches.size());
  uint32_t complete = 0;
  for (const PlannedBatch& planned : plan.batches) {
    const auto segments = plan.SegmentsOf(planned);
    LaneRunner::Batch& batch = copy.batches.emplace_back();
    batch.path = planned.path;
    batch.segments.assign(segments.begin(), segments.end());
    if (what.mark == nullptr || planned.layers_complete == complete) continue;
    complete = planned.layers_complete;
    batch.before = what.mark(complete);
  }
  return copy;
}

}  // namespace kvtier

// RunnerCopy() makes of a plan what a LaneRunner runs.
#ifndef KVTIER_TIER_GPU_PLANNED_COPY_H_
#define KVTIER_TIER_GPU_PLANNED_COPY_H_

#include "tier_gpu/device/device.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {

struct PlannedCopy {
  CopyDirection direction{};
  CopyUrgency urgency = CopyUrgency::kForeground;
  DeviceRegion* region = nullptr;  // The plan's geometry lies in it.
  // The word, with what it says before the first layer: behind each batch that completes
  // layers, the lane adds how many are complete by then. A null word: nobody is told.
  LaneRunner::Mark progress{};
};

LaneRunner::Copy RunnerCopy(const CopyPlan& plan, const PlannedCopy& what);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLANNED_COPY_H_

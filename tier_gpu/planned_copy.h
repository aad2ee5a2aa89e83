// RunnerCopy() makes of a plan what a LaneRunner runs.
#ifndef KVTIER_TIER_GPU_PLANNED_COPY_H_
#define KVTIER_TIER_GPU_PLANNED_COPY_H_

#include <cstdint>
#include <functional>

#include "tier_gpu/device/device.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {

struct PlannedCopy {
  CopyDirection direction{};
  CopyUrgency urgency = CopyUrgency::kForeground;
  DeviceRegion* region = nullptr;  // The plan's geometry lies in it.
  // What the lane writes behind each batch that completes layers, `layers` from the first on.
  // Null: nobody is told.
  std::function<LaneRunner::Mark(uint32_t layers)> mark{};
};

LaneRunner::Copy RunnerCopy(const CopyPlan& plan, const PlannedCopy& what);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLANNED_COPY_H_

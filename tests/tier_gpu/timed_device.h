// TimedDevice runs plans on an emulated device in virtual time. Nothing moves, so jobs
// may be as long as a sweep has them: memory is addresses only, and nobody looks at it.
#ifndef KVTIER_TESTS_TIER_GPU_TIMED_DEVICE_H_
#define KVTIER_TESTS_TIER_GPU_TIMED_DEVICE_H_

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "core/check.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/emulated_device.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {

class TimedDevice {
 public:
  static constexpr uint64_t kBytes = uint64_t{64} << 30;  // Of host memory, and of the device.

  explicit TimedDevice(const LinkModel& link)
      : device_(&executor_, {.link = link, .pin_chunk_bytes = kBytes, .moves_bytes = false}) {
    const std::array<std::span<std::byte>, 1> tensors = {{{Host(kBytes), kBytes}}};
    region_ = *device_.AdoptRegion(tensors);
    KVT_CHECK(device_.Pin({Host(0), kBytes}).ok());
  }

  static std::byte* Host(uint64_t offset) {
    return reinterpret_cast<std::byte*>((uintptr_t{1} << 40) + offset);  // NOLINT
  }
  EmulatedDevice& device() { return device_; }
  DeviceRegion* region() { return region_.get(); }
  testing::SimTime& time() { return time_; }
  testing::SimExecutor& executor() { return executor_; }

  // From the first submission to the last end, with as many batches in flight as flows
  // have (LaneSchedule).
  absl::Duration Run(CopyDirection direction, const CopyPlan& plan) {
    const absl::Time start = time_.Now();
    std::array<Completion, kMaxBatchesInFlight> ends;
    size_t submitted = 0;
    size_t ended = 0;
    while (ended < plan.batches.size()) {
      for (; submitted < std::min(ended + kMaxBatchesInFlight, plan.batches.size()); ++submitted) {
        const PlannedBatch& batch = plan.batches[submitted];
        const auto ticket = device_.Submit({.direction = direction,
                                            .path = batch.path,
                                            .region = region_.get(),
                                            .segments = plan.SegmentsOf(batch)});
        KVT_CHECK(ticket.ok());
      }
      time_.RunUntil(device_.next_poll());
      ended += device_.Poll(ends);
    }
    return time_.Now() - start;
  }

 private:
  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  EmulatedDevice device_;
  std::unique_ptr<DeviceRegion> region_;
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_TIER_GPU_TIMED_DEVICE_H_

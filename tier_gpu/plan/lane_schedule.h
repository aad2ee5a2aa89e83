// LaneSchedule says which of the planned batches is submitted next in each direction's lane.
// Something waits for a foreground batch: an onboard before the first token, or a swap-out that
// makes room. Nothing waits for a background batch: offload, prefetch.
//
// Background yields to waiting foreground of its own direction, and to waiting or running
// foreground of the other direction, because a link that is busy both ways is slower each way. It
// does not yield for ever: after kMaxPassedOver foreground batches of either direction have passed
// a background batch, it goes next in its own direction.
//
// Pure; executor thread only. It submits nothing, and does not know what is in a batch. Each queue
// is in the order of Add().
#ifndef KVTIER_TIER_GPU_PLAN_LANE_SCHEDULE_H_
#define KVTIER_TIER_GPU_PLAN_LANE_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/device/lane_depth.h"

namespace kvtier {

enum class CopyUrgency : uint8_t { kForeground, kBackground };
inline constexpr size_t kCopyUrgencies = 2;

// Maximum number of queued batches of one direction and urgency: 4 GiB of batches of kMaxCopyBytes.
inline constexpr size_t kMaxQueuedBatches = 1024;
// Maximum number of foreground batches that pass a background batch: with kMaxCopyBytes each, they
// take 0.6 ms on PCIe 5.0.
inline constexpr uint32_t kMaxPassedOver = 8;

struct ScheduledBatch {
  CopyDirection direction = CopyDirection::kHostToDevice;
  CopyUrgency urgency = CopyUrgency::kForeground;
  uint64_t batch = 0;  // Number that the caller chose for it.
  bool operator==(const ScheduledBatch&) const = default;
};

class LaneSchedule {
 public:
  // Appends the batch to those of the same direction and urgency. Errors: kResourceExhausted,
  // kMaxQueuedBatches wait already (retry when some have gone).
  absl::Status Add(const ScheduledBatch& batch);
  // Returns the batch to submit now, which then runs until Done(). nullopt: kMaxBatchesInFlight run
  // in that direction, no batch waits there, or the waiting batch yields to foreground. Call it for
  // both directions after every Add() and Done().
  std::optional<ScheduledBatch> Next(CopyDirection direction);
  // Ends a batch. REQUIRES: Next() returned it, and it was not ended before.
  void Done(const ScheduledBatch& batch);

  size_t waiting(CopyDirection direction, CopyUrgency urgency) const {
    return lane(direction).waiting[static_cast<size_t>(urgency)].size();
  }
  size_t running(CopyDirection direction) const { return Running(lane(direction)); }
  // Aborts when a bound of the header does not hold.
  void Audit() const;

 private:
  struct Lane {
    std::array<std::deque<uint64_t>, kCopyUrgencies> waiting;  // Waiting batches by CopyUrgency.
    std::array<size_t, kCopyUrgencies> running{};
    // Number of foreground batches that passed the first background batch.
    uint32_t passed_over = 0;
  };
  static size_t Running(const Lane& lane) { return lane.running[0] + lane.running[1]; }
  const Lane& lane(CopyDirection direction) const { return lanes_[static_cast<size_t>(direction)]; }
  Lane& lane(CopyDirection direction) { return lanes_[static_cast<size_t>(direction)]; }
  bool BackgroundGoes(CopyDirection direction) const;

  std::array<Lane, kCopyDirections> lanes_;  // Lanes by CopyDirection.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_LANE_SCHEDULE_H_

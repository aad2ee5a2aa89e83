// OutcomeSlab is the pinned memory of all BlockOutcomes of a worker's lanes, taken once:
// pinning and letting go of a job's own could wait for all that the device runs.
#ifndef KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_
#define KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/plan/lane_schedule.h"

namespace kvtier {

// One thread at a time.
class OutcomeSlab {
 public:
  // Batches of a direction whose jobs are under way, as many as LaneRunner queues: 2.5 MiB.
  static constexpr size_t kBatches = kMaxQueuedBatches;

  // `device` is not owned. Errors: Device::Pin()'s.
  static absl::StatusOr<std::unique_ptr<OutcomeSlab>> Pin(Device* device);
  // REQUIRES: all were given back.
  ~OutcomeSlab();
  OutcomeSlab(const OutcomeSlab&) = delete;
  OutcomeSlab& operator=(const OutcomeSlab&) = delete;

  // One for each of `batches`, with nothing in it; to be given back. Errors:
  // kResourceExhausted, so many are not free (retry when a job of the direction is done).
  absl::StatusOr<std::vector<BlockOutcomes*>> Take(CopyDirection direction, size_t batches);
  void GiveBack(CopyDirection direction, std::span<BlockOutcomes* const> outcomes);

 private:
  OutcomeSlab(Device* device, std::span<std::byte> bytes);
  std::vector<BlockOutcomes*>& free(CopyDirection direction) {
    return free_[static_cast<size_t>(direction)];
  }

  Device* const device_;
  const std::span<std::byte> bytes_;  // Whole pages, pinned.
  std::array<std::vector<BlockOutcomes*>, kCopyDirections> free_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_OUTCOME_SLAB_H_

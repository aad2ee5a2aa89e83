// EmulatedDevice is a Device without a GPU: a region is a memfd, so sharing it with
// another process is real, and a copy takes the time a link would. Bytes move
// when the batch runs, halfway through its modelled time, so that a source which
// is reused too early and a destination which is read too early both show.
//
// A region's memory is taken page by page as it is first written.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/byte_workers.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_gpu/device/copy_lane.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/link_model.h"

namespace kvtier {

class EmulatedDevice final : public Device {
 public:
  struct Options {
    LinkModel link = LinkModel::Pcie5();
  };

  // Neither is owned.
  EmulatedDevice(Executor* executor, ByteWorkers* workers, const Options& options);
  // REQUIRES: no Copy() is awaited any more.
  ~EmulatedDevice() override = default;

  const std::string& name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(uint64_t bytes) override;
  absl::Status Pin(std::span<std::byte> host) override;
  Task<absl::Status> Copy(CopyDirection direction, DeviceRegion* region,
                          std::span<const CopySegment> segments) override;

  // Faults, for tests and the simulator. The `nth` batch from now that runs in the
  // lane (1: the next one) moves half of its segments and fails. REQUIRES: nth > 0.
  void FailCopy(CopyDirection direction, uint64_t nth);
  // The lane begins no further batch until Resume(); what runs ends.
  void Stall(CopyDirection direction);
  void Resume(CopyDirection direction);
  // For good: copies that run or wait fail now, regions keep their bytes.
  void Lose();

 private:
  struct Lane {
    explicit Lane(Executor* executor) : line(executor) {}
    CopyLane line;
    std::shared_ptr<Event> stalled;  // Set by Resume(); null: the lane runs.
    uint64_t fail_in = 0;            // Batches until one fails; 0: none will.
  };
  Lane& lane(CopyDirection direction) { return lanes_[static_cast<size_t>(direction)]; }
  Task<absl::Status> RunBatch(Lane* lane, CopyDirection direction, std::byte* memory,
                              std::span<const CopySegment> segments);
  absl::Status LostError() const;

  Executor* const executor_;
  ByteWorkers* const workers_;
  const LinkModel link_;
  const std::string name_ = "emulated";
  Event lost_;
  std::array<Lane, 2> lanes_;  // By CopyDirection.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_

// Holds what tests of the emulated device share: a device in virtual time, a region, pinned host
// memory, and words.
#ifndef KVTIER_TESTS_TIER_GPU_EMULATED_RIG_H_
#define KVTIER_TESTS_TIER_GPU_EMULATED_RIG_H_

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/check.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

inline constexpr uint64_t kRigBlock = 4096;
inline constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
inline constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

// EmulatedRig is one process on an emulated GPU.
class EmulatedRig {
 public:
  explicit EmulatedRig(testing::SimTime* time, EmulatedDevice::Options options = {})
      : time_(time), clock_(time), device_(&clock_, Waiting(time, options)) {
    region_ = *device_.CreateRegion({.handle_bytes = kRegionGranularity, .max_handles = 4}, 1);
    page_ = *SignalPage::Create();
    host_.resize(kRegionGranularity);
    KVT_CHECK(device_.Pin(page_->bytes()).ok());
    KVT_CHECK(device_.Pin(host_).ok());
  }

  testing::FaultyDevice& device() { return device_; }
  DeviceRegion* region() { return region_.get(); }
  SignalWord* word(size_t index) { return page_->word(index); }
  // Return block `index` in pinned host memory, and on the device.
  std::span<std::byte> host(size_t index) {
    return std::span(host_).subspan(index * kRigBlock, kRigBlock);
  }
  std::span<std::byte> slot(size_t index) {
    return {region_->address() + index * kRigBlock, kRigBlock};
  }
  CopySegment Block(size_t slot, size_t host_block) {
    return {slot * kRigBlock, host(host_block).data(), kRigBlock};
  }
  absl::StatusOr<Ticket> Submit(CopyDirection direction, std::span<const CopySegment> segments) {
    return device_.Submit({.direction = direction, .region = region_.get(), .segments = segments});
  }
  absl::StatusOr<Ticket> Submit(CopyDirection direction, const CopySegment& segment) {
    return Submit(direction, std::span(&segment, 1));
  }
  // Returns the completions since the last Poll(), oldest first in each lane.
  std::vector<Completion> Poll() {
    std::vector<Completion> all;
    std::array<Completion, 8> some;
    while (const size_t count = device_.Poll(some)) {
      all.insert(all.end(), some.begin(), some.begin() + count);
    }
    return all;
  }
  // Lets virtual time pass until everything has ended.
  std::vector<Completion> Finish() {
    KVT_CHECK(device_.Drain(absl::Seconds(10)).ok());
    return Poll();
  }
  absl::Time Now() const { return time_->Now(); }
  void Pass(absl::Duration duration) { time_->RunUntil(time_->Now() + duration); }

 private:
  static EmulatedDevice::Options Waiting(testing::SimTime* time, EmulatedDevice::Options options) {
    options.wait = [time](absl::Time until) { time->RunUntil(until); };
    return options;
  }

  testing::SimTime* const time_;
  testing::SimExecutor clock_;
  std::vector<std::byte> host_;  // Outlives the device, which pinned it.
  std::unique_ptr<SignalPage> page_;
  testing::FaultyDevice device_;
  std::unique_ptr<DeviceRegion> region_;
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_TIER_GPU_EMULATED_RIG_H_

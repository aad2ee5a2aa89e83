#include "client/device_lanes/lane_device.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/clock.h"
#include "core/status_macros.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier {
namespace {

// Returns the GPU's ordinal. Errors: kInvalidArgument, the name is no GPU's.
absl::StatusOr<int> OrdinalOf(absl::string_view device) {
  absl::string_view digits = device;
  int ordinal = 0;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &ordinal) && ordinal >= 0) {
    return ordinal;
  }
  return absl::InvalidArgumentError(absl::StrCat("device is \"", device, "\"; must be \"cuda:N\""));
}

// Adds the device's name to the error that kept it from being opened.
absl::Status NotOpened(absl::string_view device, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", device, "\" cannot be opened: ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::shared_ptr<LaneDevice>> LaneDevice::On(
    Client* client, std::unique_ptr<Device> device, std::unique_ptr<OutsideStreams> streams) {
  auto opened = absl::WrapUnique(new LaneDevice(std::move(device), std::move(streams)));
  KVT_ASSIGN_OR_RETURN(opened->lanes_, WorkerLanes::Open(client, opened->device_.get()));
  return opened;
}

absl::StatusOr<std::shared_ptr<LaneDevice>> LaneDevices::Of(Client* client,
                                                            absl::string_view device,
                                                            uint64_t block_bytes) {
  static const MonotonicClock clock;
  KVT_ASSIGN_OR_RETURN(const int ordinal, OrdinalOf(device));
  const absl::MutexLock lock(&mu_);
  Opened& known = open_[std::string(device)];
  if (std::shared_ptr<LaneDevice> open = known.device.lock()) {
    if (block_bytes <= known.largest_block) return open;
    return absl::InvalidArgumentError(absl::StrCat(
        "device is \"", device, "\", which lanes of this client opened for blocks of at most ",
        known.largest_block, " bytes; lanes for blocks of ", block_bytes,
        " bytes must be opened first"));
  }
  // Fits whole batches, and blocks of other lanes, which may be larger.
  const uint64_t largest_block = std::max(block_bytes, kMaxBlockBatchBytes);
  auto gpu = OpenDevice(device, &clock, {.kernels = true, .largest_block = largest_block});
  if (!gpu.ok()) return NotOpened(device, gpu.status());
  auto streams = OpenOutsideStreams(ordinal);
  if (!streams.ok()) return NotOpened(device, streams.status());
  auto opened = LaneDevice::On(client, *std::move(gpu), *std::move(streams));
  if (!opened.ok()) return NotOpened(device, opened.status());
  known = {.device = *opened, .largest_block = largest_block};
  return opened;
}

}  // namespace kvtier

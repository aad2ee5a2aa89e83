// OpenDevice picks the form of the Device seam by the name an operator wrote.
#ifndef KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/clock.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// `name` is "emulated"; "cuda:N", the GPU of that ordinal; or "auto", the first
// GPU, and the emulated device, with a line in the log, where there is none.
// `clock` must outlive the device.
// Errors: kInvalidArgument, another name; kUnavailable, no such GPU, no driver, or
// a build without CUDA, in the driver's words.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_

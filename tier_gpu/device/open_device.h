// OpenDevice() picks the form of the Device seam by the name that an operator wrote.
#ifndef KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/clock.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

struct DeviceOptions {
  // Whether the device takes SubmitBlocks(), for a worker's own lanes. An agent has no kernels, as
  // they would take turns with the engine's.
  bool kernels = false;
  // Same meaning as in CudaOptions; GPUs only.
  std::optional<uint64_t> largest_block{};
  std::optional<void*> compute_stream{};
};

// Opens a device. `name` is "emulated" or "emulated:N"; "cuda:N", the GPU with that ordinal; or
// "auto", the first GPU or, where there is none, the emulated device, with a line in the log.
// `clock` must outlive the device. Errors: kInvalidArgument, another name; kUnavailable, no such
// GPU, no driver, or a build without CUDA, with the driver's text.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock,
                                                   const DeviceOptions& options = {});
// Opens several devices, whose names are separated by commas. Errors: also kInvalidArgument, two
// names are the same device.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(absl::string_view names,
                                                                 const Clock* clock,
                                                                 const DeviceOptions& options = {});

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_

// OpenDevice picks the form of the Device seam by the name an operator wrote.
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
  // Takes SubmitBlocks(), for a worker's own lanes. An agent's kernels would take turns with the
  // engine's, so it has none.
  bool kernels = false;
  // Of a GPU, as CudaOptions has them.
  std::optional<uint64_t> largest_block{};
  std::optional<void*> compute_stream{};
};

// `name` is "emulated" or "emulated:N"; "cuda:N", the GPU of that ordinal; or "auto", the first
// GPU, and the emulated device, with a line in the log, where there is none.
// `clock` must outlive the device.
// Errors: kInvalidArgument, another name; kUnavailable, no such GPU, no driver, or
// a build without CUDA, in the driver's words.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock,
                                                   const DeviceOptions& options = {});
// Opens several, whose names are separated by commas. Errors also: kInvalidArgument, two names are
// one device.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(absl::string_view names,
                                                                 const Clock* clock,
                                                                 const DeviceOptions& options = {});

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_OPEN_DEVICE_H_

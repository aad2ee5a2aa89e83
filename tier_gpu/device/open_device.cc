#include "tier_gpu/device/open_device.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_gpu/device/emulated_device.h"
#ifdef KVTIER_HAVE_CUDA
#include "tier_gpu/device/cuda_device.h"
#endif

namespace kvtier {
namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int ordinal, const Clock* clock,
                                                const DeviceOptions& options) {
#ifdef KVTIER_HAVE_CUDA
  CudaOptions cuda = {.ordinal = ordinal, .kernels = options.kernels};
  if (options.largest_block) cuda.largest_block = *options.largest_block;
  cuda.compute_stream = options.compute_stream;
  return OpenCudaDevice(cuda, clock);
#else
  (void)clock;
  (void)options;
  return absl::UnavailableError(absl::StrCat(
      "cuda:", ordinal, ": this build has no CUDA; build with it, or name the device emulated"));
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock,
                                                   const DeviceOptions& options) {
  EmulatedDevice::Options emulated = {.kernels = options.kernels};
  if (name == "emulated") return std::make_unique<EmulatedDevice>(clock, emulated);
  if (name == "auto") {
    auto gpu = OpenGpu(0, clock, options);
    if (gpu.ok()) return gpu;
    Log(LogLevel::kWarning,
        absl::StrCat("GPU tier: a GPU is emulated in host memory, because none can be used: ",
                     std::string(gpu.status().message())));
    return std::make_unique<EmulatedDevice>(clock, emulated);
  }
  int ordinal = 0;
  absl::string_view digits = name;
  if (absl::ConsumePrefix(&digits, "emulated:") && absl::SimpleAtoi(digits, &ordinal) &&
      ordinal >= 0 && ordinal <= UINT8_MAX) {
    emulated.ordinal = static_cast<uint8_t>(ordinal);
    return std::make_unique<EmulatedDevice>(clock, emulated);
  }
  digits = name;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &ordinal) && ordinal >= 0) {
    return OpenGpu(ordinal, clock, options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device is \"", name, "\"; must be \"emulated\", \"emulated:N\", \"cuda:N\" or \"auto\""));
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(absl::string_view names,
                                                                 const Clock* clock,
                                                                 const DeviceOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    KVT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(name, clock, options));
    for (const auto& other : devices) {
      if (other->uuid() != device->uuid()) continue;
      return absl::InvalidArgumentError(absl::StrCat("devices: \"", names, "\" names ",
                                                     device->uuid().ToString(),
                                                     " twice; must name each once"));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace kvtier

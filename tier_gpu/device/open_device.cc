#include "tier_gpu/device/open_device.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/log.h"
#include "tier_gpu/device/emulated_device.h"
#ifdef KVTIER_HAVE_CUDA
#include "tier_gpu/device/cuda_device.h"
#endif

namespace kvtier {
namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int ordinal, const Clock* clock,
                                                const DeviceOptions& options) {
#ifdef KVTIER_HAVE_CUDA
  CudaOptions cuda = {
      .ordinal = ordinal, .kernels = options.kernels, .batched_calls = options.batched_calls};
  if (options.largest_block) cuda.largest_block = *options.largest_block;
  cuda.compute_stream = options.compute_stream;
  return OpenCudaDevice(cuda, clock);
#else
  (void)clock;
  (void)options;
  return absl::UnavailableError(absl::StrCat("cuda:", ordinal, ": this build has no CUDA"));
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock,
                                                   const DeviceOptions& options) {
  const EmulatedDevice::Options emulated = {.kernels = options.kernels};
  if (name == "emulated") return std::make_unique<EmulatedDevice>(clock, emulated);
  if (name == "auto") {
    auto gpu = OpenGpu(0, clock, options);
    if (gpu.ok()) return gpu;
    Log(LogLevel::kWarning, absl::StrCat("GPU tier: no GPU (", std::string(gpu.status().message()),
                                         "); emulating one in host memory"));
    return std::make_unique<EmulatedDevice>(clock, emulated);
  }
  int ordinal = 0;
  absl::string_view digits = name;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &ordinal) && ordinal >= 0) {
    return OpenGpu(ordinal, clock, options);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a device is \"emulated\", \"cuda:N\" or \"auto\", not \"", name, "\""));
}

}  // namespace kvtier

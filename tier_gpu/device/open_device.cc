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

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int ordinal, const Clock* clock) {
#ifdef KVTIER_HAVE_CUDA
  return OpenCudaDevice({.ordinal = ordinal}, clock);
#else
  (void)clock;
  return absl::UnavailableError(absl::StrCat("cuda:", ordinal, ": this build has no CUDA"));
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name, const Clock* clock) {
  const EmulatedDevice::Options options;
  if (name == "emulated") return std::make_unique<EmulatedDevice>(clock, options);
  if (name == "auto") {
    auto gpu = OpenGpu(0, clock);
    if (gpu.ok()) return gpu;
    Log(LogLevel::kWarning, absl::StrCat("GPU tier: no GPU (", std::string(gpu.status().message()),
                                         "); emulating one in host memory"));
    return std::make_unique<EmulatedDevice>(clock, options);
  }
  int ordinal = 0;
  absl::string_view digits = name;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &ordinal) && ordinal >= 0) {
    return OpenGpu(ordinal, clock);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a device is \"emulated\", \"cuda:N\" or \"auto\", not \"", name, "\""));
}

}  // namespace kvtier

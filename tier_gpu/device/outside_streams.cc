#include "tier_gpu/device/outside_streams.h"

#include "absl/strings/str_cat.h"
#ifdef KVTIER_HAVE_CUDA
#include "tier_gpu/device/cuda_outside_streams.h"
#endif

namespace kvtier {

absl::StatusOr<std::unique_ptr<OutsideStreams>> OpenOutsideStreams(int ordinal) {
#ifdef KVTIER_HAVE_CUDA
  return OpenCudaOutsideStreams(ordinal);
#else
  return absl::UnavailableError(absl::StrCat(
      "cuda:", ordinal, ": this build has no CUDA; build with it, or name the device emulated"));
#endif
}

}  // namespace kvtier

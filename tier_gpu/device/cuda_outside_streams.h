// Opens the OutsideStreams of a GPU. Built only where CUDA is (KVTIER_HAVE_CUDA), and links no
// driver.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_OUTSIDE_STREAMS_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_OUTSIDE_STREAMS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tier_gpu/device/outside_streams.h"

namespace kvtier {

// Opens the streams; see OpenOutsideStreams().
absl::StatusOr<std::unique_ptr<OutsideStreams>> OpenCudaOutsideStreams(int ordinal);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_OUTSIDE_STREAMS_H_

// CudaDevice is the Device of a GPU. Built only where CUDA is (KVTIER_HAVE_CUDA),
// and links no driver: a program with it starts anywhere, and opening the device
// says what is missing.
//
// Regions are allocated through the driver's virtual memory calls, because only
// those can be exported as a file descriptor. One stream a direction; the
// executor polls for the end of a batch and never blocks in CUDA.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/executor.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// Opens the GPU `ordinal`; makes its context, some hundred MiB of its memory.
// `executor` is not owned. Destroy the device before the host memory it pinned.
// Errors: kUnavailable, in the driver's words: no driver, no such GPU, or a driver
// without memory that can be exported.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int ordinal, Executor* executor);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_

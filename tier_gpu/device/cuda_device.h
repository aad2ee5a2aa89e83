// CudaDevice is the Device of a GPU. It is built only where CUDA is (KVTIER_HAVE_CUDA) and links no
// driver: a program with it starts on any machine, and opening the device says what is missing.
//
// In an engine's process CudaDevice uses the engine's context, and its kernels run beside the
// engine's. In another process, such as an agent, it should use only the GPU's copy engines:
// without MPS, kernels of two processes take turns of milliseconds.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "core/clock.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {

struct CudaOptions {
  int ordinal = 0;
  // Whether SubmitBlocks() works, at a cost of 12 MiB of host memory. If false, it returns
  // kInvalidArgument.
  bool kernels = false;
  // Raw bytes of the largest block that SubmitBlocks() takes, if `kernels` is set (no block has
  // more than kMaxRawBytes). The device takes six times as many bytes of GPU memory.
  uint64_t largest_block = kMaxBlockBatchBytes;
  // The engine's cudaStream_t to use as Lane::kCompute; null is CUDA's default stream. It must
  // outlive the device, and must not be cudaStreamPerThread. nullopt: a stream of our own. While
  // the stream captures a graph, Signal() and Await() in that lane return kFailedPrecondition.
  // REQUIRES: no capture begins or ends on another thread during a call.
  std::optional<void*> compute_stream;
  uint64_t pin_chunk_bytes = kPinChunkBytes;
};

// Opens the GPU in the context that the CUDA runtime uses in this process. If there is none it is
// made, which takes some hundred MiB of GPU memory. `clock` must be a real clock and is not owned.
// The device's destructor waits at most a second for running operations; the memory of those that
// still run then stays until the process ends.
// REQUIRES: the device's regions are destroyed before the device, and the device before the host
// memory that it pinned.
// Errors: kInvalidArgument, a bad compute_stream; kUnavailable, with the driver's text: no driver,
// one older than CUDA 12.8, no such GPU, or a GPU without exportable memory or without words that
// streams can wait for; kResourceExhausted.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options,
                                                       const Clock* clock);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_

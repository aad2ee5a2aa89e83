// CudaDevice is the Device of a GPU. Built only where CUDA is (KVTIER_HAVE_CUDA), and
// links no driver: a program with it starts anywhere, and opening the device says what
// is missing.
//
// In an engine's process it lives in the engine's context, and its kernels run beside the
// engine's. In a process of its own it should copy by the copy engines only: without MPS,
// kernels of two processes take turns of milliseconds.
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
  // Takes SubmitBlocks(), for 12 MiB of the host's memory. Off: it answers kInvalidArgument.
  bool kernels = false;
  // With kernels: raw bytes of the largest block that SubmitBlocks() takes (no block has
  // more than kMaxRawBytes). Takes six times as much of the GPU's memory.
  uint64_t largest_block = kMaxBlockBatchBytes;
  // The engine's cudaStream_t, null for CUDA's default stream, as Lane::kCompute; it must
  // outlive the device, and not be cudaStreamPerThread. nullopt: a stream of our own. While
  // it captures a graph, Signal() and Await() in that lane answer kFailedPrecondition.
  // REQUIRES: the capture does not begin or end meanwhile, on another thread.
  std::optional<void*> compute_stream;
  uint64_t pin_chunk_bytes = kPinChunkBytes;
};

// Opens the GPU, in the context that the CUDA runtime uses in this process; it is made if
// it is not there, some hundred MiB of the GPU's memory. `clock` is real, and not owned.
// The device waits at its end for what runs, for a second at most: what still runs then
// keeps what it uses until the process ends. REQUIRES: its regions go before it, and it
// before the host memory it pinned.
// Errors: kInvalidArgument, such a compute_stream; kUnavailable, in the driver's words: no driver,
// one older than CUDA 12.8, no such GPU, or one without memory that can be exported or words that
// streams can wait for; kResourceExhausted.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options,
                                                       const Clock* clock);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_DEVICE_H_

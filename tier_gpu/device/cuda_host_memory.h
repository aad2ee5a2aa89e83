// CudaHostMemory page-locks host memory for one GPU and knows the address at which the GPU sees it.
// For registered memory the two addresses may differ, so everything that runs on the device is
// given the device's address.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_HOST_MEMORY_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {

// Thread-safe.
class CudaHostMemory {
 public:
  CudaHostMemory(const CudaContext& context, uint64_t chunk_bytes)
      : context_(context), ranges_(chunk_bytes) {}

  // Do as Device::Pin() and Unpin(), but do not check whether the device is lost.
  absl::Status Pin(std::span<std::byte> host);
  absl::Status Unpin(std::span<std::byte> host);
  // Removes the range without a call to CUDA, which would wait for running work: the bytes stay
  // page-locked until the process ends. Errors: as Unpin().
  absl::Status Leave(std::span<std::byte> host) { return ranges_.Remove(host); }
  // Checks a run, as PinnedMemory::Check().
  absl::Status Check(std::span<const std::byte> run) const { return ranges_.Check(run); }
  // Returns the address at which the GPU sees `host`. REQUIRES: it is pinned.
  std::byte* DeviceAddress(const void* host) const;
  // Unpins all ranges. Waits for the copies that use them.
  void UnpinAll();

 private:
  absl::Status Register(std::span<std::byte> chunk);
  void Unregister(std::span<std::byte> chunk);

  const CudaContext context_;
  PinnedMemory ranges_;
  mutable absl::Mutex mu_;
  // Start of each chunk: host address to device address.
  std::map<const std::byte*, std::byte*> chunks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_HOST_MEMORY_H_

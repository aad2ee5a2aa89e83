// CudaHostMemory page-locks host memory for one GPU and knows the address under which
// the GPU sees it. The two addresses need not be the same for memory that was registered,
// so everything that runs on the device is given the device's.
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

// Any thread.
class CudaHostMemory {
 public:
  CudaHostMemory(const CudaContext& context, uint64_t chunk_bytes)
      : context_(context), ranges_(chunk_bytes) {}

  // As Device::Pin() and Unpin(), but for the lost device.
  absl::Status Pin(std::span<std::byte> host);
  absl::Status Unpin(std::span<std::byte> host);
  // Without a call to CUDA, which would wait for what runs: the bytes stay page-locked until
  // the process ends. Errors: as Unpin().
  absl::Status Leave(std::span<std::byte> host) { return ranges_.Remove(host); }
  // As PinnedMemory::Check().
  absl::Status Check(std::span<const std::byte> run) const { return ranges_.Check(run); }
  // REQUIRES: it is pinned.
  std::byte* DeviceAddress(const void* host) const;
  // All there is. Waits for the copies that use it.
  void UnpinAll();

 private:
  absl::Status Register(std::span<std::byte> chunk);
  void Unregister(std::span<std::byte> chunk);

  const CudaContext context_;
  PinnedMemory ranges_;
  mutable absl::Mutex mu_;
  // Where a chunk begins for the host, and for the device.
  std::map<const std::byte*, std::byte*> chunks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_HOST_MEMORY_H_

#include "tier_gpu/device/cuda_host_memory.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::Status CudaHostMemory::Pin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(ranges_.Add(host));
  const CudaScope scope(context_);
  const std::vector<std::span<std::byte>> chunks = ranges_.ChunksOf(host);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const absl::Status registered = Register(chunks[i]);
    if (registered.ok()) continue;
    for (size_t done = 0; done < i; ++done) Unregister(chunks[done]);
    KVT_RETURN_IF_ERROR(ranges_.Remove(host));
    return registered;
  }
  return absl::OkStatus();
}

absl::Status CudaHostMemory::Register(std::span<std::byte> chunk) {
  const cudaError_t error = cudaHostRegister(chunk.data(), chunk.size(),
                                             cudaHostRegisterPortable | cudaHostRegisterMapped);
  absl::Status registered = CudaStatus("cudaHostRegister", error);
  if (registered.ok()) {
    void* device = nullptr;
    registered =
        CudaStatus("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&device, chunk.data(), 0));
    if (registered.ok()) {
      const absl::MutexLock lock(&mu_);
      chunks_[chunk.data()] = static_cast<std::byte*>(device);
      return absl::OkStatus();
    }
    (void)cudaHostUnregister(chunk.data());
  }
  const std::string text =
      absl::StrCat("pinning ", chunk.size(), " bytes: ", std::string(registered.message()));
  // Our ranges never overlap, but two of them may share a page, and other code registers memory
  // too.
  if (error == cudaErrorHostMemoryAlreadyRegistered || error == cudaErrorInvalidValue) {
    return absl::InvalidArgumentError(text);
  }
  return absl::Status(registered.code(), text);
}

void CudaHostMemory::Unregister(std::span<std::byte> chunk) {
  {
    const absl::MutexLock lock(&mu_);
    chunks_.erase(chunk.data());
  }
  // Ignores an error: the call fails only when the device is lost, and then none of our memory is
  // locked any more.
  CudaStatus("cudaHostUnregister", cudaHostUnregister(chunk.data())).IgnoreError();
}

absl::Status CudaHostMemory::Unpin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(ranges_.Remove(host));
  const CudaScope scope(context_);
  for (const std::span<std::byte> chunk : ranges_.ChunksOf(host)) Unregister(chunk);
  return absl::OkStatus();
}

std::byte* CudaHostMemory::DeviceAddress(const void* host) const {
  const auto* const byte = static_cast<const std::byte*>(host);
  const absl::MutexLock lock(&mu_);
  const auto after = chunks_.upper_bound(byte);
  KVT_CHECK(after != chunks_.begin());
  const auto& [begin, device] = *std::prev(after);
  return device + (byte - begin);
}

void CudaHostMemory::UnpinAll() {
  for (const std::span<std::byte> range : ranges_.Ranges())
    Unpin(range).IgnoreError();  // Cannot fail: the range is registered.
}

}  // namespace kvtier

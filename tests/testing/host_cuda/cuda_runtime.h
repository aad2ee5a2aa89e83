// The part of CUDA's language that kernels/*.cu use, as the host's C++ (cuda_runtime_api.h).
#ifndef KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_H_
#define KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tests/testing/host_cuda/thread_block.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __constant__ static const
// One thread block runs at a time, so its shared memory may be static. RunGrid fills the section
// with noise before each thread block. Templates cannot have shared memory: gcc drops their
// section.
#define __shared__ static __attribute__((section("kvtier_shared")))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};

inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void* attrs = nullptr;
  unsigned numAttrs = 0;
};

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (config->gridDim.x == 0 || config->dynamicSmemBytes != 0) return cudaErrorInvalidConfiguration;
  kvtier::testing::host_cuda::RunGrid(config->gridDim.x, config->blockDim.x,
                                      [&] { kernel(arguments...); });
  return cudaSuccess;
}

inline void __syncthreads() { kvtier::testing::host_cuda::MeetThreadBlock(false); }
inline int __syncthreads_or(int vote) {
  return kvtier::testing::host_cuda::MeetThreadBlock(vote != 0) != 0;
}
inline void __syncwarp() {
  kvtier::testing::host_cuda::MeetWarp("syncwarp", kvtier::testing::host_cuda::kAllLanes, 0);
}

namespace kvtier::testing::host_cuda {

template <typename T>
uint64_t BitsFrom(T value) {
  if constexpr (sizeof(T) == sizeof(uint64_t)) return std::bit_cast<uint64_t>(value);
  if constexpr (sizeof(T) == sizeof(uint32_t)) return std::bit_cast<uint32_t>(value);
}
template <typename T>
T ValueFrom(uint64_t bits) {
  if constexpr (sizeof(T) == sizeof(uint64_t)) return std::bit_cast<T>(bits);
  if constexpr (sizeof(T) == sizeof(uint32_t)) return std::bit_cast<T>(static_cast<uint32_t>(bits));
}
inline uint32_t Lane() { return threadIdx.x % kLanes; }

}  // namespace kvtier::testing::host_cuda

// Does as CUDA does: a lane outside of the warp gives the caller its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  using namespace kvtier::testing::host_cuda;
  return ValueFrom<T>(
      MeetWarp("shfl", mask, BitsFrom(value))[static_cast<uint32_t>(lane) % kLanes]);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int other) {
  using namespace kvtier::testing::host_cuda;
  const uint32_t from = Lane() ^ static_cast<uint32_t>(other);
  return ValueFrom<T>(MeetWarp("shfl_xor", mask, BitsFrom(value))[from % kLanes]);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  using namespace kvtier::testing::host_cuda;
  const uint32_t from = Lane() + by < kLanes ? Lane() + by : Lane();
  return ValueFrom<T>(MeetWarp("shfl_down", mask, BitsFrom(value))[from]);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  using namespace kvtier::testing::host_cuda;
  const uint32_t from = Lane() >= by ? Lane() - by : Lane();
  return ValueFrom<T>(MeetWarp("shfl_up", mask, BitsFrom(value))[from]);
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
  using namespace kvtier::testing::host_cuda;
  const Brought& votes = MeetWarp("ballot", mask, vote != 0);
  unsigned ballot = 0;
  for (uint32_t i = 0; i < kLanes; ++i) ballot |= static_cast<unsigned>(votes[i]) << i;
  return ballot;
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }

// The hints on caching change no value.
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, T value) {
  *to = value;
}

// One thread runs at a time here, so an exchange is atomic.
inline unsigned atomicExch(unsigned* to, unsigned value) { return std::exchange(*to, value); }
inline unsigned long long atomicExch(unsigned long long* to, unsigned long long value) {
  return std::exchange(*to, value);
}
inline unsigned atomicAdd(unsigned* to, unsigned value) { return std::exchange(*to, *to + value); }
inline void __threadfence() {}

inline int __popc(unsigned bits) { return std::popcount(bits); }
// Returns the maximum of each half of 16 bits.
inline unsigned __vmaxu2(unsigned a, unsigned b) {
  const unsigned low = (a & 0xffff) < (b & 0xffff) ? b & 0xffff : a & 0xffff;
  const unsigned high = a >> 16 < b >> 16 ? b >> 16 : a >> 16;
  return high << 16 | low;
}

// NOLINTEND(bugprone-reserved-identifier)

#endif  // KVTIER_TESTS_TESTING_HOST_CUDA_CUDA_RUNTIME_H_

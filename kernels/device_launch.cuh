// How device forms start kernels. Tests compile them for the host, too, against
// headers that stand in for CUDA's; so nothing here is written <<<...>>>.
#ifndef KVTIER_KERNELS_DEVICE_LAUNCH_CUH_
#define KVTIER_KERNELS_DEVICE_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace kvtier::kernels {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kThreads = 256;  // Of every thread block.
inline constexpr uint32_t kWarps = kThreads / kWarpLanes;

// This lane in its warp, and this warp among all of the launch.
__device__ inline uint32_t LaneOfWarp() { return threadIdx.x % kWarpLanes; }
__device__ inline uint32_t WarpOfLaunch() { return blockIdx.x * kWarps + threadIdx.x / kWarpLanes; }
__device__ inline uint32_t WarpsOfLaunch() { return gridDim.x * kWarps; }

struct Grid {
  uint32_t thread_blocks = 0;
  void* stream = nullptr;  // cudaStream_t
};

// Enqueues; returns the cudaError_t.
template <typename... Parameters>
int Launch(Grid grid, void (*kernel)(Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = {grid.thread_blocks, 1, 1};
  config.blockDim = {kThreads, 1, 1};
  config.stream = static_cast<cudaStream_t>(grid.stream);
  const cudaError_t refused = cudaLaunchKernelEx(&config, kernel, arguments...);
  // Reads and clears, so that a refused launch is not reported by a later call.
  const cudaError_t pending = cudaGetLastError();
  return static_cast<int>(refused == cudaSuccess ? pending : refused);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_DEVICE_LAUNCH_CUH_

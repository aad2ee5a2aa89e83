// Starts the kernels of device forms. Tests also compile them for the host, against headers that
// stand in for CUDA's, so nothing here uses <<<...>>>.
#ifndef KVTIER_KERNELS_DEVICE_LAUNCH_CUH_
#define KVTIER_KERNELS_DEVICE_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace kvtier::kernels {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
// Threads of a thread block, unless a kernel says otherwise.
inline constexpr uint32_t kThreads = 256;
inline constexpr uint32_t kWarps = kThreads / kWarpLanes;

// Return the lane's number in its warp, and the warp's number in the launch.
__device__ inline uint32_t LaneOfWarp() { return threadIdx.x % kWarpLanes; }
__device__ inline uint32_t WarpOfLaunch() { return blockIdx.x * kWarps + threadIdx.x / kWarpLanes; }
__device__ inline uint32_t WarpsOfLaunch() { return gridDim.x * kWarps; }

// UnitWalk visits units of all blocks, with an equal number in each. It takes every `takers`th
// unit, namely those numbered `first`, `first + takers` and so on through all blocks. It avoids
// 64-bit divisions, which are function calls on the device.
class UnitWalk {
 public:
  __device__ UnitWalk(uint32_t units_of_block, uint32_t first, uint32_t takers)
      : units_(units_of_block),
        step_blocks_(takers / units_),
        step_units_(takers % units_),
        block_(first / units_),
        unit_(first % units_) {}

  __device__ uint32_t block() const { return block_; }
  __device__ uint32_t unit() const { return unit_; }
  __device__ void Next() {
    block_ += step_blocks_;
    unit_ += step_units_;
    if (unit_ < units_) return;
    unit_ -= units_;
    ++block_;
  }

 private:
  const uint32_t units_;
  const uint32_t step_blocks_;
  const uint32_t step_units_;
  uint32_t block_;
  uint32_t unit_;
};

struct Grid {
  uint32_t thread_blocks = 0;
  void* stream = nullptr;  // cudaStream_t
  uint32_t threads = kThreads;
};

// Enqueues the kernel; returns the cudaError_t.
template <typename... Parameters>
int Launch(Grid grid, void (*kernel)(Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = {grid.thread_blocks, 1, 1};
  config.blockDim = {grid.threads, 1, 1};
  config.stream = static_cast<cudaStream_t>(grid.stream);
  const cudaError_t refused = cudaLaunchKernelEx(&config, kernel, arguments...);
  // Reads and clears the last error, so that a later call does not report a refused launch.
  const cudaError_t pending = cudaGetLastError();
  return static_cast<int>(refused == cudaSuccess ? pending : refused);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_DEVICE_LAUNCH_CUH_

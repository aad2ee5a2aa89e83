#include <cuda_runtime.h>

#include "bench/gpu_kernels.h"
#include "kernels/device_launch.cuh"
#include "kernels/float_formats.h"

namespace kvtier::bench {
namespace {

using kernels::kThreads;
using kernels::kWarpLanes;
using kernels::kWarps;

constexpr uint32_t kWordsOfPiece = kStepPieceBytes / sizeof(uint64_t);

__global__ void __launch_bounds__(kThreads) CopyRowsKernel(const RowCopy* rows, uint32_t count) {
  const uint32_t row = kernels::WarpOfLaunch();
  if (row >= count) return;
  const auto* const source = reinterpret_cast<const uint4*>(rows[row].source);
  auto* const destination = reinterpret_cast<uint4*>(rows[row].destination);
  const uint64_t words = rows[row].bytes / sizeof(uint4);
  for (uint64_t i = kernels::LaneOfWarp(); i < words; i += kWarpLanes) destination[i] = source[i];
}

__global__ void __launch_bounds__(kThreads) TriadKernel(TriadLaunch launch) {
  const auto* const a = reinterpret_cast<const uint4*>(launch.a);
  const auto* const b = reinterpret_cast<const uint4*>(launch.b);
  auto* const c = reinterpret_cast<uint4*>(launch.c);
  const uint64_t step = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < launch.count / 4;
       i += step) {
    const uint4 left = __ldcs(a + i);
    const uint4 right = __ldcs(b + i);
    const auto sum = [](unsigned x, unsigned y) {
      return static_cast<unsigned>(kernels::BitsOf(kernels::FloatOf(static_cast<int>(x)) +
                                                   3.0F * kernels::FloatOf(static_cast<int>(y))));
    };
    __stcs(c + i, uint4{sum(left.x, right.x), sum(left.y, right.y), sum(left.z, right.z),
                        sum(left.w, right.w)});
  }
}

// One thread block a block of the pool.
template <bool kChecks>
__global__ void __launch_bounds__(kThreads) BlockStepKernel(BlockStepLaunch launch) {
  const uint64_t place = launch.slots[blockIdx.x] * launch.block_bytes;
  auto* const words = reinterpret_cast<uint64_t*>(launch.pool + place);
  const uint64_t value = launch.values[blockIdx.x];
  const auto count = static_cast<uint32_t>(launch.block_bytes / sizeof(uint64_t));
  unsigned long long wrong = 0;
  for (uint32_t piece = 0; piece < count; piece += kWordsOfPiece) {
    for (uint32_t i = piece + threadIdx.x; i < piece + kWordsOfPiece; i += kThreads) {
      // From L2: a multiprocessor's own cache does not see what a copy wrote meanwhile.
      if (kChecks) {
        wrong += __ldcg(words + i) != value + i ? 1 : 0;
      } else {
        __stcs(words + i, value + i);
      }
    }
    if (launch.pause_ns > 0) __nanosleep(launch.pause_ns);
  }
  if (kChecks && wrong > 0) atomicAdd(launch.wrong_words, wrong);
}

}  // namespace

int CopyRowsOnDevice(const RowCopy* rows, uint32_t count, void* stream) {
  return kernels::Launch({(count + kWarps - 1) / kWarps, stream}, CopyRowsKernel, rows, count);
}

int TriadOnDevice(const TriadLaunch& launch, void* stream) {
  return kernels::Launch({launch.thread_blocks, stream}, TriadKernel, launch);
}

int FillBlocksOnDevice(const BlockStepLaunch& launch, void* stream) {
  return kernels::Launch({launch.count, stream}, BlockStepKernel<false>, launch);
}

int CheckBlocksOnDevice(const BlockStepLaunch& launch, void* stream) {
  return kernels::Launch({launch.count, stream}, BlockStepKernel<true>, launch);
}

}  // namespace kvtier::bench

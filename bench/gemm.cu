// A product of matrices on the tensor cores, tiled through shared memory: 128 x 128 of the
// result a thread block, 32 of the summed dimension at a time, the next such slice on its
// way while one is used. Not as fast as a library's, and it needs none.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#include "bench/gpu_kernels.h"

namespace kvtier::bench {
namespace {

namespace wmma = nvcuda::wmma;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kSlice = 32;     // Of the summed dimension.
constexpr uint32_t kFragment = 16;  // What the tensor cores take, each way.
constexpr uint32_t kCopied = 8;     // Elements of 16 bytes.
// Rows are 16 bytes longer than they need to be, so that neighbours lie in other banks.
constexpr uint32_t kLeftRow = kSlice + kCopied;
constexpr uint32_t kRightRow = kGemmTile + kCopied;
// Eight warps: four down, two across; each has 32 x 64 of the tile.
constexpr uint32_t kWarpRows = 32;
constexpr uint32_t kWarpColumns = 64;
constexpr uint32_t kDown = kWarpRows / kFragment;
constexpr uint32_t kAcross = kWarpColumns / kFragment;

struct Slices {
  __nv_bfloat16 left[kGemmTile][kLeftRow];
  __nv_bfloat16 right[kSlice][kRightRow];
};

struct Matrices {
  const __nv_bfloat16* a;
  const __nv_bfloat16* b;
  float* c;
  uint32_t n;
};

// Of the tile at (row, column), the slices from `from` on.
__device__ void Fetch(const Matrices& of, uint32_t row, uint32_t column, uint32_t from,
                      Slices* into) {
  constexpr uint32_t kLeftCopies = kSlice / kCopied;  // Of a row.
  for (uint32_t i = threadIdx.x; i < kGemmTile * kLeftCopies; i += kThreads) {
    const uint32_t r = i / kLeftCopies;
    const uint32_t k = i % kLeftCopies * kCopied;
    __pipeline_memcpy_async(&into->left[r][k], of.a + uint64_t{row + r} * of.n + from + k, 16);
  }
  constexpr uint32_t kRightCopies = kGemmTile / kCopied;
  for (uint32_t i = threadIdx.x; i < kSlice * kRightCopies; i += kThreads) {
    const uint32_t k = i / kRightCopies;
    const uint32_t c = i % kRightCopies * kCopied;
    __pipeline_memcpy_async(&into->right[k][c], of.b + uint64_t{from + k} * of.n + column + c, 16);
  }
  __pipeline_commit();
}

__global__ void __launch_bounds__(kThreads, 2) GemmKernel(Matrices of) {
  __shared__ __align__(128) Slices slices[2];
  const uint32_t tiles = of.n / kGemmTile;
  const uint32_t row = blockIdx.x / tiles * kGemmTile;
  const uint32_t column = blockIdx.x % tiles * kGemmTile;
  const uint32_t warp = threadIdx.x / kWarpLanes;
  const uint32_t warp_row = warp / 2 * kWarpRows;
  const uint32_t warp_column = warp % 2 * kWarpColumns;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kDown][kAcross];
#pragma unroll
  for (uint32_t i = 0; i < kDown; ++i) {
#pragma unroll
    for (uint32_t j = 0; j < kAcross; ++j) wmma::fill_fragment(sums[i][j], 0.0F);
  }

  Fetch(of, row, column, 0, &slices[0]);
  const uint32_t steps = of.n / kSlice;
  for (uint32_t step = 0; step < steps; ++step) {
    // The other slices were used up before the barrier at the end of the step before.
    if (step + 1 < steps) {
      Fetch(of, row, column, (step + 1) * kSlice, &slices[(step + 1) % 2]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const Slices& now = slices[step % 2];
#pragma unroll
    for (uint32_t k = 0; k < kSlice; k += kFragment) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left[kDown];
#pragma unroll
      for (uint32_t i = 0; i < kDown; ++i) {
        wmma::load_matrix_sync(left[i], &now.left[warp_row + i * kFragment][k], kLeftRow);
      }
#pragma unroll
      for (uint32_t j = 0; j < kAcross; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> right;
        wmma::load_matrix_sync(right, &now.right[k][warp_column + j * kFragment], kRightRow);
#pragma unroll
        for (uint32_t i = 0; i < kDown; ++i) {
          wmma::mma_sync(sums[i][j], left[i], right, sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (uint32_t i = 0; i < kDown; ++i) {
#pragma unroll
    for (uint32_t j = 0; j < kAcross; ++j) {
      float* const to = of.c + uint64_t{row + warp_row + i * kFragment} * of.n + column +
                        warp_column + j * kFragment;
      wmma::store_matrix_sync(to, sums[i][j], of.n, wmma::mem_row_major);
    }
  }
}

}  // namespace

int GemmOnDevice(const GemmLaunch& launch, void* stream) {
  if (launch.n == 0 || launch.n % kGemmTile != 0) return cudaErrorInvalidValue;
  const Matrices matrices = {.a = reinterpret_cast<const __nv_bfloat16*>(launch.a),
                             .b = reinterpret_cast<const __nv_bfloat16*>(launch.b),
                             .c = launch.c,
                             .n = launch.n};
  const uint32_t tiles = launch.n / kGemmTile;
  GemmKernel<<<tiles * tiles, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrices);
  return cudaGetLastError();
}

}  // namespace kvtier::bench

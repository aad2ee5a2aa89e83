// Kernels of the benchmark's own: the plain copy that everyone writes first, what an engine
// runs beside our copies, and steps of a computation whose every word can be checked. All
// addresses are the device's; each function enqueues one launch into `stream` (a
// cudaStream_t) and returns its cudaError_t. Built only where CUDA is (KVTIER_HAVE_CUDA).
#ifndef KVTIER_BENCH_GPU_KERNELS_H_
#define KVTIER_BENCH_GPU_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace kvtier::bench {

// Addresses and bytes are multiples of 16.
struct RowCopy {
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  uint64_t bytes = 0;
};
// One warp a row, 16 bytes a lane at a time, as many thread blocks as there are rows for:
// nothing is done about the link or the engine beside.
int CopyRowsOnDevice(const RowCopy* rows, uint32_t count, void* stream);

// c = a * b of bf16 (as bits), n by n, row by row, summed in fp32. REQUIRES: n is a
// multiple of kGemmTile.
inline constexpr uint32_t kGemmTile = 128;
struct GemmLaunch {
  const uint16_t* a = nullptr;
  const uint16_t* b = nullptr;
  float* c = nullptr;
  uint32_t n = 0;
};
int GemmOnDevice(const GemmLaunch& launch, void* stream);

// c = a + 3 b: 12 bytes over memory for each of `count` elements, a multiple of 4.
struct TriadLaunch {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  uint64_t count = 0;
  uint32_t thread_blocks = 0;
};
int TriadOnDevice(const TriadLaunch& launch, void* stream);

// Word i of a block whose value is v is v + i. A step goes through its blocks piece by
// piece and pauses behind each, as a layer's computation would be between them.
inline constexpr uint32_t kMostStepBlocks = 16;
inline constexpr uint64_t kStepPieceBytes = 4096;
struct BlockStepLaunch {
  std::byte* pool = nullptr;
  uint64_t block_bytes = 0;  // A multiple of kStepPieceBytes.
  uint32_t slots[kMostStepBlocks] = {};
  uint64_t values[kMostStepBlocks] = {};
  uint32_t count = 0;
  uint32_t pause_ns = 0;
  unsigned long long* wrong_words = nullptr;  // CheckBlocks adds to it.
};
int FillBlocksOnDevice(const BlockStepLaunch& launch, void* stream);
int CheckBlocksOnDevice(const BlockStepLaunch& launch, void* stream);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_GPU_KERNELS_H_

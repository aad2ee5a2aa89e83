#include <cuda_runtime.h>

#include "kernels/copy_segments.h"

namespace kvtier::kernels {
namespace {

constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpLanes;
// Loads that one lane has in flight. A warp's slice is 4 * 32 words: 2 KiB of the
// wide path.
constexpr uint32_t kInFlight = 4;
constexpr uint32_t kSliceWords = kInFlight * kWarpLanes;

// One warp copies words [begin, end) of a run, all loads before all stores. Each
// byte is used once, so the streaming forms keep it out of the caches' way.
template <typename Word>
__device__ void CopySlice(const Word* source, Word* destination, uint64_t begin, uint64_t end) {
  Word held[kInFlight];
  const uint64_t first = begin + threadIdx.x % kWarpLanes;
#pragma unroll
  for (uint32_t i = 0; i < kInFlight; ++i) {
    const uint64_t word = first + i * kWarpLanes;
    if (word < end) held[i] = __ldcs(source + word);
  }
#pragma unroll
  for (uint32_t i = 0; i < kInFlight; ++i) {
    const uint64_t word = first + i * kWarpLanes;
    if (word < end) __stcs(destination + word, held[i]);
  }
}

// The warps of the thread blocks that share a segment take its slices in turn.
template <typename Word>
__device__ void CopySegment(const StridedSegment& segment, uint64_t warp, uint64_t warps) {
  const uint64_t words = segment.run_bytes / sizeof(Word);
  const uint64_t slices = (words + kSliceWords - 1) / kSliceWords;
  for (uint64_t i = warp; i < slices * segment.runs; i += warps) {
    const uint64_t run = i / slices;
    const uint64_t begin = (i - run * slices) * kSliceWords;
    const uint64_t end = begin + kSliceWords < words ? begin + kSliceWords : words;
    CopySlice(reinterpret_cast<const Word*>(segment.source + run * segment.source_stride),
              reinterpret_cast<Word*>(segment.destination + run * segment.destination_stride),
              begin, end);
  }
}

// `sharing` thread blocks work on each segment: 1 unless there are fewer segments
// than thread blocks.
__global__ void __launch_bounds__(kThreads)
    CopySegmentsKernel(const StridedSegment* segments, uint32_t count, uint32_t sharing) {
  const uint64_t warp = (blockIdx.x % sharing) * kWarps + threadIdx.x / kWarpLanes;
  const uint64_t warps = uint64_t{sharing} * kWarps;
  for (uint32_t i = blockIdx.x / sharing; i < count; i += gridDim.x / sharing) {
    const StridedSegment segment = segments[i];
    if (Takes16Bytes(reinterpret_cast<uint64_t>(segment.source),
                     reinterpret_cast<uint64_t>(segment.destination), segment)) {
      CopySegment<uint4>(segment, warp, warps);
    } else {
      CopySegment<unsigned char>(segment, warp, warps);
    }
  }
}

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (launch.thread_blocks == 0) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  if (launch.segments == nullptr) return kInvalidLaunch;
  const uint32_t sharing =
      launch.count < launch.thread_blocks ? launch.thread_blocks / launch.count : 1;
  // Whole groups only: a rest of thread blocks would have no segment to share.
  const uint32_t grid = launch.thread_blocks / sharing * sharing;
  CopySegmentsKernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(
      launch.segments, launch.count, sharing);
  // Reads and clears, so that a refused launch is not reported by a later call.
  return static_cast<int>(cudaGetLastError());
}

}  // namespace kvtier::kernels

#include <cuda_runtime.h>

#include "kernels/copy_segments.h"
#include "kernels/device_launch.cuh"
#include "kernels/piece_sum.cuh"

namespace kvtier::kernels {
namespace {

// A byte of a run, from the segment's addresses.
struct Offsets {
  uint64_t source;
  uint64_t destination;
};

// Divisions are of 32 bits, here and below: those of 64 are calls.
__device__ Offsets OffsetsOf(uint32_t run, uint64_t within, const StridedSegment& segment,
                             const OuterAxes& outer) {
  Offsets at = {within, within};
  if (outer.count() > 1) {
    uint32_t index = run / segment.runs;
    run -= index * segment.runs;
#pragma unroll
    for (const CopyAxis& axis : outer.axes) {
      const uint32_t next = index / axis.count;
      at.source += (index - next * axis.count) * axis.source_stride;
      at.destination += (index - next * axis.count) * axis.destination_stride;
      index = next;
    }
  }
  at.source += run * segment.source_stride;
  at.destination += run * segment.destination_stride;
  return at;
}

// Each byte is used once, so the streaming forms keep it out of the caches' way.
class WideSegment {
 public:
  __device__ WideSegment(const StridedSegment& segment, const OuterAxes& outer)
      : segment_(segment),
        outer_(outer),
        bytes_(RunsOf(segment, outer) * segment.run_bytes),
        run_words_(static_cast<uint32_t>(segment.run_bytes / kWordBytes)) {}

  __device__ uint64_t bytes() const { return bytes_; }
  __device__ Offsets PlaceOf(uint64_t word) const {
    const auto index = static_cast<uint32_t>(word);
    const uint32_t run = index / run_words_;
    return OffsetsOf(run, uint64_t{index - run * run_words_} * kWordBytes, segment_, outer_);
  }
  __device__ uint4 Load(Offsets at, uint32_t /*count*/) const {
    return __ldcs(reinterpret_cast<const uint4*>(segment_.source + at.source));
  }
  __device__ void Store(Offsets at, uint4 value, uint32_t /*count*/) const {
    if (segment_.destination == nullptr) return;
    __stcs(reinterpret_cast<uint4*>(segment_.destination + at.destination), value);
  }
  __device__ uint64_t ByteAt(uint64_t offset) const {
    const Offsets at = PlaceOf(offset / kWordBytes);
    return static_cast<uint64_t>(segment_.source[at.source + offset % kWordBytes]);
  }

 private:
  const StridedSegment& segment_;
  const OuterAxes& outer_;
  const uint64_t bytes_;
  const uint32_t run_words_;
};

// Byte by byte; a word may go over the end of its run.
class NarrowSegment {
 public:
  struct Place {
    uint32_t run;
    uint64_t within;
  };

  __device__ NarrowSegment(const StridedSegment& segment, const OuterAxes& outer)
      : segment_(segment), outer_(outer), bytes_(RunsOf(segment, outer) * segment.run_bytes) {}

  __device__ uint64_t bytes() const { return bytes_; }
  __device__ Place PlaceOf(uint64_t word) const { return PlaceOfByte(word * kWordBytes); }
  __device__ uint4 Load(Place at, uint32_t count) const {
    uint64_t halves[2] = {0, 0};
    Offsets from = OffsetsOf(at.run, at.within, segment_, outer_);
#pragma unroll
    for (uint32_t i = 0; i < kWordBytes; ++i) {
      if (i < count) {
        halves[i / 8] |= static_cast<uint64_t>(segment_.source[from.source]) << i % 8 * 8;
        Advance(at, from);
      }
    }
    return {static_cast<uint32_t>(halves[0]), static_cast<uint32_t>(halves[0] >> 32),
            static_cast<uint32_t>(halves[1]), static_cast<uint32_t>(halves[1] >> 32)};
  }
  __device__ void Store(Place at, uint4 value, uint32_t count) const {
    if (segment_.destination == nullptr) return;
    const WordPair halves = PairOf(value);
    Offsets to = OffsetsOf(at.run, at.within, segment_, outer_);
#pragma unroll
    for (uint32_t i = 0; i < kWordBytes; ++i) {
      if (i < count) {
        const uint64_t half = i < 8 ? halves.even : halves.odd;
        segment_.destination[to.destination] = static_cast<std::byte>(half >> i % 8 * 8);
        Advance(at, to);
      }
    }
  }
  __device__ uint64_t ByteAt(uint64_t offset) const {
    const Place at = PlaceOfByte(offset);
    const Offsets from = OffsetsOf(at.run, at.within, segment_, outer_);
    return static_cast<uint64_t>(segment_.source[from.source]);
  }

 private:
  __device__ Place PlaceOfByte(uint64_t offset) const {
    const auto byte = static_cast<uint32_t>(offset);
    const auto run_bytes = static_cast<uint32_t>(segment_.run_bytes);
    return {byte / run_bytes, byte % run_bytes};
  }
  // To the next byte, which may be the first one of the next run.
  __device__ void Advance(Place& at, Offsets& offsets) const {
    ++at.within;
    ++offsets.source;
    ++offsets.destination;
    if (at.within < segment_.run_bytes) return;
    at = {at.run + 1, 0};
    offsets = OffsetsOf(at.run, 0, segment_, outer_);
  }

  const StridedSegment& segment_;
  const OuterAxes& outer_;
  const uint64_t bytes_;
};

// `sharing` thread blocks work on each segment: 1 unless there are fewer segments
// than thread blocks.
template <bool kSummed>
__global__ void __launch_bounds__(kThreads)
    CopySegmentsKernel(const StridedSegment* segments, uint32_t count, OuterAxes outer,
                       uint32_t sharing, SumRequest sum) {
  const uint32_t warp = (blockIdx.x % sharing) * kWarps + threadIdx.x / kWarpLanes;
  const uint32_t warps = sharing * kWarps;
  for (uint32_t i = blockIdx.x / sharing; i < count; i += gridDim.x / sharing) {
    const StridedSegment segment = segments[i];
    const uint64_t bytes = RunsOf(segment, outer) * segment.run_bytes;
    if (bytes == 0) continue;
    LaneSums* const pieces = sum.Takes(bytes) ? sum.pieces + uint64_t{i} * sum.room : nullptr;
    if (Takes16Bytes(reinterpret_cast<uint64_t>(segment.source),
                     reinterpret_cast<uint64_t>(segment.destination), segment, outer)) {
      MovePieces<kSummed>(WideSegment(segment, outer), warp, warps, pieces);
    } else {
      MovePieces<kSummed>(NarrowSegment(segment, outer), warp, warps, pieces);
    }
  }
}

struct SegmentLengths {
  const StridedSegment* segments;
  OuterAxes outer;
  SumRequest sum;

  __device__ uint64_t BytesOf(uint32_t i) const {
    const uint64_t bytes = RunsOf(segments[i], outer) * segments[i].run_bytes;
    return sum.Takes(bytes) ? bytes : 0;
  }
};

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  const uint32_t sharing =
      launch.count < launch.thread_blocks ? launch.thread_blocks / launch.count : 1;
  // Whole groups only: a rest of thread blocks would have no segment to share.
  const Grid grid = {launch.thread_blocks / sharing * sharing, launch.stream};
  if (launch.sum.sums == nullptr) {
    return Launch(grid, CopySegmentsKernel<false>, launch.segments, launch.count, launch.outer,
                  sharing, launch.sum);
  }
  const int error = Launch(grid, CopySegmentsKernel<true>, launch.segments, launch.count,
                           launch.outer, sharing, launch.sum);
  if (error != 0) return error;
  return Launch({launch.thread_blocks, launch.stream}, FinishSumsKernel<SegmentLengths>,
                SegmentLengths{launch.segments, launch.outer, launch.sum}, launch.sum,
                launch.count);
}

}  // namespace kvtier::kernels

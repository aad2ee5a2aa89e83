#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/copy_segments.h"
#include "kernels/device_launch.cuh"
#include "kernels/piece_sum.cuh"

namespace kvtier::kernels {
namespace {

// Source and destination of a word.
struct Offsets {
  uint64_t source;
  uint64_t destination;
};

// Divisions here and below have 32 bits, as those of 64 bits are function calls on the device.
__device__ Offsets OffsetsOf(uint32_t run, uint32_t within, const StridedSegment& segment,
                             const OuterAxes& outer) {
  Offsets at = {within, within};
  if (outer.count() > 1) {
    uint32_t index = run / segment.runs;
    run -= index * segment.runs;
#pragma unroll
    for (const CopyAxis& axis : outer.axes) {
      if (axis.count == 1) continue;
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

// WideSegment moves 16 bytes at a time. Each byte is used once, so the streaming loads and stores
// keep it from displacing others in the caches.
class WideSegment {
 public:
  using Place = Offsets;

  __device__ WideSegment(const StridedSegment& segment, const OuterAxes& outer, uint32_t bytes)
      : segment_(segment),
        outer_(outer),
        bytes_(bytes),
        run_words_(static_cast<uint32_t>(segment.run_bytes / kWordBytes)) {}

  __device__ uint32_t bytes() const { return bytes_; }
  // Looks up a run once, and again only if the next word is in another run.
  __device__ void PlacesOf(uint32_t word, Place (&places)[kWordsHeld]) const {
    uint32_t run = word / run_words_;
    uint32_t within = word - run * run_words_;
    places[0] = OffsetsOf(run, within * kWordBytes, segment_, outer_);
#pragma unroll
    for (uint32_t i = 1; i < kWordsHeld; ++i) {
      within += kWarpLanes;
      if (within < run_words_) {
        places[i] = {places[i - 1].source + kWarpLanes * kWordBytes,
                     places[i - 1].destination + kWarpLanes * kWordBytes};
      } else {
        const uint32_t runs = within / run_words_;
        run += runs;
        within -= runs * run_words_;
        places[i] = OffsetsOf(run, within * kWordBytes, segment_, outer_);
      }
    }
  }
  __device__ uint4 Load(Place at, uint32_t /*count*/) const {
    return __ldcs(reinterpret_cast<const uint4*>(segment_.source + at.source));
  }
  __device__ void Store(Place at, uint4 value, uint32_t /*count*/) const {
    if (segment_.destination == nullptr) return;
    __stcs(reinterpret_cast<uint4*>(segment_.destination + at.destination), value);
  }
  __device__ uint64_t ByteAt(uint32_t offset) const {
    const uint32_t word = offset / kWordBytes;
    const uint32_t run = word / run_words_;
    const Offsets at = OffsetsOf(run, (word - run * run_words_) * kWordBytes, segment_, outer_);
    return static_cast<uint64_t>(segment_.source[at.source + offset % kWordBytes]);
  }

 private:
  const StridedSegment& segment_;
  const OuterAxes& outer_;
  const uint32_t bytes_;
  const uint32_t run_words_;
};

// NarrowSegment moves byte by byte; a word may cross the end of its run.
class NarrowSegment {
 public:
  struct Place {
    uint32_t run;
    uint32_t within;
  };

  __device__ NarrowSegment(const StridedSegment& segment, const OuterAxes& outer, uint32_t bytes)
      : segment_(segment), outer_(outer), bytes_(bytes) {}

  __device__ uint32_t bytes() const { return bytes_; }
  __device__ void PlacesOf(uint32_t word, Place (&places)[kWordsHeld]) const {
#pragma unroll
    for (uint32_t i = 0; i < kWordsHeld; ++i) {
      places[i] = PlaceOfByte((word + i * kWarpLanes) * kWordBytes);
    }
  }
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
  __device__ uint64_t ByteAt(uint32_t offset) const {
    const Place at = PlaceOfByte(offset);
    const Offsets from = OffsetsOf(at.run, at.within, segment_, outer_);
    return static_cast<uint64_t>(segment_.source[from.source]);
  }

 private:
  __device__ Place PlaceOfByte(uint32_t byte) const {
    const auto run_bytes = static_cast<uint32_t>(segment_.run_bytes);
    const uint32_t run = byte / run_bytes;
    return {run, byte - run * run_bytes};
  }
  // Moves on to the next byte, which may be the first byte of the next run.
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
  const uint32_t bytes_;
};

__device__ uint32_t BytesOf(const StridedSegment& segment, const OuterAxes& outer) {
  return static_cast<uint32_t>(RunsOf(segment, outer) * segment.run_bytes);
}

// Threads of a thread block, which occupies nearly a whole multiprocessor.
constexpr uint32_t kCopyThreads = 512;
constexpr uint32_t kCopyWarps = kCopyThreads / kWarpLanes;
// Bytes of one segment that a warp moves at once.
constexpr uint32_t kUnitBytes = kPiecesHeld * kXxh3PieceBytes;
// Number of descriptors that a thread block holds at once: one for each thread.
constexpr uint32_t kTileSegments = kCopyThreads;
constexpr uint32_t kDescriptorWords = sizeof(StridedSegment) / sizeof(uint64_t);
static_assert(sizeof(StridedSegment) % sizeof(uint64_t) == 0);
// Minimum number of segments of a group of thread blocks when there are as many groups as possible:
// a group with one segment more then takes at most an eighth longer.
constexpr uint32_t kLeastOfGroup = 8;

// Tile of descriptors in shared memory, their bytes, and the end of each one's units in the tile.
// Descriptors may be in host memory, so they are all loaded at once.
struct DescriptorTile {
  uint64_t* words;
  uint32_t* bytes;
  // Has kWarpLanes extra entries, for a warp that reads on from the last descriptor.
  uint32_t* ends;
  uint32_t* totals;  // Number of units of each warp's descriptors.

  __device__ const StridedSegment& segment(uint32_t i) const {
    return reinterpret_cast<const StridedSegment*>(words)[i];
  }
  __device__ uint32_t begin(uint32_t i) const { return i == 0 ? 0 : ends[i - 1]; }
};

__device__ DescriptorTile SharedTile() {
  __shared__ uint64_t words[kTileSegments * kDescriptorWords];
  __shared__ uint32_t bytes[kTileSegments];
  __shared__ uint32_t ends[kTileSegments + kWarpLanes];
  __shared__ uint32_t totals[kCopyWarps];
  return {words, bytes, ends, totals};
}

// Loads `count` descriptors, at most kTileSegments, and returns how many units they have. All
// threads of the thread block must call it.
__device__ uint32_t Bring(const StridedSegment* segments, uint32_t count, const OuterAxes& outer,
                          const DescriptorTile& tile) {
  __syncthreads();  // No thread reads the previous tile any more.
  const auto* const from = reinterpret_cast<const uint64_t*>(segments);
  for (uint32_t i = threadIdx.x; i < count * kDescriptorWords; i += kCopyThreads) {
    tile.words[i] = from[i];
  }
  __syncthreads();
  uint32_t up_to = 0;
  if (threadIdx.x < count) {
    const uint32_t bytes = BytesOf(tile.segment(threadIdx.x), outer);
    tile.bytes[threadIdx.x] = bytes;
    up_to = bytes / kUnitBytes + (bytes % kUnitBytes > 0 ? 1 : 0);
  }
#pragma unroll
  for (uint32_t by = 1; by < kWarpLanes; by *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, up_to, by);
    if (LaneOfWarp() >= by) up_to += other;
  }
  const uint32_t warp = threadIdx.x / kWarpLanes;
  if (LaneOfWarp() == kWarpLanes - 1) tile.totals[warp] = up_to;
  __syncthreads();
  uint32_t all = 0;
#pragma unroll
  for (uint32_t i = 0; i < kCopyWarps; ++i) {
    if (i == warp) up_to += all;
    all += tile.totals[i];
  }
  tile.ends[threadIdx.x] = up_to;
  if (warp == 0) tile.ends[kTileSegments + threadIdx.x] = all;
  __syncthreads();
  return all;
}

// Returns the segment that has the unit, searching from `at` on. REQUIRES: there is one. All lanes
// of the warp must call it.
__device__ uint32_t SegmentOf(uint32_t unit, uint32_t at, const DescriptorTile& tile) {
  while (true) {
    const bool ended = tile.ends[at + LaneOfWarp()] <= unit;
    const uint32_t before = __popc(__ballot_sync(kAllLanes, ended ? 1 : 0));
    at += before;
    if (before < kWarpLanes) return at;
  }
}

// Returns whether this thread block is the launch's last to call this; the last one sees everything
// that the others wrote before their calls. REQUIRES: `arrived` is 0 before the launch (the last
// thread block resets it to 0); all threads of the block call it.
__device__ bool ArrivesLast(uint32_t* arrived) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1U) + 1 == gridDim.x;
    if (last) *arrived = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

struct SegmentLengths {
  const StridedSegment* segments;
  OuterAxes outer;
  SumRequest sum;

  __device__ uint64_t BytesOf(uint32_t i) const {
    const uint64_t bytes = kernels::BytesOf(segments[i], outer);
    return sum.Takes(bytes) ? bytes : 0;
  }
};

// Copies the segments. Thread blocks form groups of `sharing`. Each group has a range of the
// segments and goes over it tile by tile; its warps take the units of a tile in turn, in whichever
// segment they are.
template <bool kSummed>
__global__ void __launch_bounds__(kCopyThreads, 1)
    CopySegmentsKernel(const StridedSegment* segments, uint32_t count, OuterAxes outer,
                       uint32_t sharing, SumRequest sum) {
  const DescriptorTile tile = SharedTile();
  const uint32_t groups = gridDim.x / sharing;
  const uint32_t group = blockIdx.x / sharing;
  const uint32_t least = count / groups;
  const uint32_t more = count - least * groups;  // Number of groups that have one more segment.
  uint32_t next = group * least + (group < more ? group : more);
  const uint32_t end = next + least + (group < more ? 1 : 0);
  const uint32_t warp = (blockIdx.x - group * sharing) * kCopyWarps + threadIdx.x / kWarpLanes;
  const LaneSecrets secrets = SecretsOfLane();
  for (; next < end; next += kTileSegments) {
    const uint32_t brought = end - next < kTileSegments ? end - next : kTileSegments;
    const uint32_t units = Bring(segments + next, brought, outer, tile);
    uint32_t i = 0;
    for (uint32_t unit = warp; unit < units; unit += sharing * kCopyWarps) {
      i = SegmentOf(unit, i, tile);
      const StridedSegment& segment = tile.segment(i);
      const uint32_t bytes = tile.bytes[i];
      const uint32_t piece = (unit - tile.begin(i)) * kPiecesHeld;
      LaneSums* pieces = nullptr;
      if (kSummed && sum.Takes(bytes)) {
        pieces = sum.pieces + uint64_t{next + i} * sum.room;
      }
      if (Takes16Bytes(reinterpret_cast<uint64_t>(segment.source),
                       reinterpret_cast<uint64_t>(segment.destination), segment, outer)) {
        MoveHeld<kSummed>(WideSegment(segment, outer, bytes), piece, secrets, pieces);
      } else {
        MoveHeld<kSummed>(NarrowSegment(segment, outer, bytes), piece, secrets, pieces);
      }
    }
  }
  if constexpr (kSummed) {
    if (ArrivesLast(sum.arrived)) {
      FinishSums<kCopyThreads>(SegmentLengths{segments, outer, sum}, sum, count);
    }
  }
}

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  if (launch.count == 0) return 0;
  const uint64_t sharing = std::clamp<uint64_t>(
      uint64_t{launch.thread_blocks} * kLeastOfGroup / launch.count, 1, launch.thread_blocks);
  const auto shared_by = static_cast<uint32_t>(sharing);
  // Uses whole groups only: remaining thread blocks would have no segments.
  const Grid grid = {.thread_blocks = launch.thread_blocks / shared_by * shared_by,
                     .stream = launch.stream,
                     .threads = kCopyThreads};
  const auto kernel =
      launch.sum.sums == nullptr ? CopySegmentsKernel<false> : CopySegmentsKernel<true>;
  return Launch(grid, kernel, launch.segments, launch.count, launch.outer, shared_by, launch.sum);
}

}  // namespace kvtier::kernels

// CopySegments gathers and scatters: it copies a list of strided segments, each a number of equal
// runs, between a paged layout and contiguous blocks. Only the strides say which side is paged, so
// one kernel serves both directions. With axes around the runs it converts one layout of blocks
// into another (block_layout.h).
//
// The copy has two forms with one signature. CopySegmentsOnHost is the reference, and
// CopySegmentsOnDevice has the same effect. Bytes are opaque to both.
#ifndef KVTIER_KERNELS_COPY_SEGMENTS_H_
#define KVTIER_KERNELS_COPY_SEGMENTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/launch.h"
#include "kernels/payload_sum.h"

namespace kvtier::kernels {

// One segment. Run i, for i in [0, runs), is `run_bytes` bytes:
//   from source + i * source_stride  to  destination + i * destination_stride
// A block of 32 layers in a per-layer pool is 64 runs (K and V of each layer) whose paged stride is
// the distance between layers; a block that is contiguous on both sides is one run.
struct StridedSegment {
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;  // First destination byte; null: the bytes are only summed.
  uint64_t run_bytes = 0;
  uint64_t source_stride = 0;       // Stride in bytes; not read when runs == 1.
  uint64_t destination_stride = 0;  // Stride in bytes; not read when runs == 1.
  uint32_t runs = 1;
};

// Repeats what is inside of it `count` times; copy i is moved by i strides.
struct CopyAxis {
  uint32_t count = 1;
  uint64_t source_stride = 0;       // Stride in bytes; not read when count == 1.
  uint64_t destination_stride = 0;  // Stride in bytes; not read when count == 1.
};
// Axes around the runs; the first is the innermost.
struct OuterAxes {
  CopyAxis axes[3];

  KVTIER_HOST_DEVICE constexpr uint64_t count() const {
    return uint64_t{axes[0].count} * axes[1].count * axes[2].count;
  }
};

struct CopySegmentsLaunch {
  // List of `count` segments, readable where the copy runs: for the device form device or
  // page-locked memory, kept until the stream has passed the launch. REQUIRES: no destination
  // overlaps a source or another destination. A segment, all axes counted, has less than 4 GiB.
  const StridedSegment* segments = nullptr;
  uint32_t count = 0;
  // Axes around every segment.
  OuterAxes outer{};
  // Sum of each segment, as if its runs were adjacent: for a gather the sum of the bytes written,
  // for a scatter the sum of the bytes read. Taken in the pass that copies.
  SumRequest sum{};
  // Number of thread blocks of the device form, at least 1. The result is the same for any number;
  // a small number leaves the multiprocessors to the engine's own kernels.
  uint32_t thread_blocks = 8;
  // The device form's cudaStream_t; the reference does not read it.
  void* stream = nullptr;
};

KVTIER_HOST_DEVICE constexpr uint64_t RunsOf(const StridedSegment& segment,
                                             const OuterAxes& outer) {
  return segment.runs * outer.count();
}

// Returns whether every access to the segment can be 16 bytes wide: both addresses, the run and the
// strides that are used are multiples of 16.
KVTIER_HOST_DEVICE constexpr bool Takes16Bytes(uint64_t source, uint64_t destination,
                                               const StridedSegment& segment,
                                               const OuterAxes& outer = {}) {
  uint64_t strides = segment.runs > 1 ? segment.source_stride | segment.destination_stride : 0;
  for (const CopyAxis& axis : outer.axes) {
    if (axis.count > 1) strides |= axis.source_stride | axis.destination_stride;
  }
  return (source | destination | segment.run_bytes | strides) % 16 == 0;
}

// Copy the segments. The device form only enqueues; the host form has copied when it returns. Both
// return 0, or kInvalidLaunch for a launch without thread blocks, without a segment list, or with
// sums but without room for them. The device form also returns the cudaError_t of the launch.
int CopySegmentsOnHost(const CopySegmentsLaunch& launch);
#ifdef KVTIER_HAVE_CUDA
int CopySegmentsOnDevice(const CopySegmentsLaunch& launch);
#endif

// Returns false for launches that both forms refuse.
constexpr bool IsValid(const CopySegmentsLaunch& launch) {
  if (launch.thread_blocks == 0 || !IsValid(launch.sum)) return false;
  return launch.count == 0 || launch.segments != nullptr;
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_COPY_SEGMENTS_H_

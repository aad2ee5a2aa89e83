#include "kernels/copy_segments.h"

#include <cstring>

namespace kvtier::kernels {
namespace {

// Offsets of run `index`, counted from the innermost axis.
struct RunOffsets {
  uint64_t source = 0;
  uint64_t destination = 0;
};

RunOffsets OffsetsOf(uint64_t index, const StridedSegment& segment, const OuterAxes& outer) {
  uint64_t i = index % segment.runs;
  RunOffsets at = {i * segment.source_stride, i * segment.destination_stride};
  index /= segment.runs;
  for (const CopyAxis& axis : outer.axes) {
    i = index % axis.count;
    at.source += i * axis.source_stride;
    at.destination += i * axis.destination_stride;
    index /= axis.count;
  }
  return at;
}

PayloadSum CopyOne(const StridedSegment& segment, const CopySegmentsLaunch& launch) {
  const uint64_t runs = RunsOf(segment, launch.outer);
  const uint64_t bytes = runs * segment.run_bytes;
  if (bytes == 0) return {};  // The pointers of an empty run may be null.
  const bool summed = launch.sum.sums != nullptr && launch.sum.Takes(bytes);
  PayloadSummer summer;
  for (uint64_t run = 0; run < runs; ++run) {
    const RunOffsets at = OffsetsOf(run, segment, launch.outer);
    const std::byte* const source = segment.source + at.source;
    if (summed) summer.Append(source, segment.run_bytes);
    if (segment.destination == nullptr) continue;
    std::memcpy(segment.destination + at.destination, source, segment.run_bytes);
  }
  return summed ? summer.Sum() : PayloadSum{};
}

}  // namespace

int CopySegmentsOnHost(const CopySegmentsLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    const PayloadSum sum = CopyOne(launch.segments[i], launch);
    if (launch.sum.sums != nullptr) launch.sum.sums[i] = sum;
  }
  return 0;
}

}  // namespace kvtier::kernels

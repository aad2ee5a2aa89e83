#include "kernels/copy_segments.h"

#include <cstring>

namespace kvtier::kernels {

int CopySegmentsOnHost(const CopySegmentsLaunch& launch) {
  if (launch.thread_blocks == 0) return kInvalidLaunch;
  if (launch.count > 0 && launch.segments == nullptr) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    const StridedSegment& segment = launch.segments[i];
    if (segment.run_bytes == 0) continue;  // Its pointers may be null.
    for (uint64_t run = 0; run < segment.runs; ++run) {
      std::memcpy(segment.destination + run * segment.destination_stride,
                  segment.source + run * segment.source_stride, segment.run_bytes);
    }
  }
  return 0;
}

}  // namespace kvtier::kernels

#include "bench/row_copies.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kvtier::bench {

std::vector<RowCopy> RowsOf(GpuRig* rig, CopyDirection direction,
                            std::span<const CopySegment> segments) {
  const bool in = direction == CopyDirection::kHostToDevice;
  std::byte* const buffer = in ? rig->source() : rig->back();
  // Asked of the start of what is pinned, as the device does it.
  std::byte* const buffer_on_gpu = OnGpu(buffer);
  std::vector<RowCopy> rows;
  rows.reserve(segments.size());
  for (const CopySegment& segment : segments) {
    std::byte* const device = rig->region()->address() + segment.device_offset;
    std::byte* const host = buffer_on_gpu + (segment.host - buffer);
    rows.push_back({in ? host : device, in ? device : host, segment.bytes});
  }
  return rows;
}

RowCopies::RowCopies(GpuRig* rig, GpuStream* stream, CopyDirection direction,
                     std::span<const CopySegment> segments)
    : stream_(stream),
      count_(static_cast<uint32_t>(segments.size())),
      rows_(segments.size() * sizeof(RowCopy)) {
  const std::vector<RowCopy> rows = RowsOf(rig, direction, segments);
  WriteToGpu(rows_.data(), std::as_bytes(std::span(rows)));
}

double RowCopies::Run() {
  const absl::Time start = absl::Now();
  CheckCuda("a kernel of rows", CopyRowsOnDevice(reinterpret_cast<const RowCopy*>(rows_.data()),
                                                 count_, stream_->handle()));
  stream_->Wait();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace kvtier::bench

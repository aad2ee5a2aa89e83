#include "tier_gpu/device/device.h"

#include "absl/strings/str_cat.h"

namespace kvtier {

absl::Status CheckShape(const RegionShape& shape) {
  if (shape.handle_bytes == 0 || shape.handle_bytes % kRegionGranularity != 0) {
    return absl::InvalidArgumentError(absl::StrCat("handle_bytes is ", shape.handle_bytes,
                                                   "; must be a multiple of ", kRegionGranularity));
  }
  if (shape.max_handles == 0 || shape.max_handles > kMaxRegionHandles) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_handles is ", shape.max_handles, "; must be 1 to ", kMaxRegionHandles));
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(uint64_t region_bytes, std::span<const CopySegment> segments) {
  if (segments.size() > kMaxCopySegments) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", segments.size(),
                                                   " segments is longer than ", kMaxCopySegments));
  }
  for (const CopySegment& segment : segments) {
    // The second test cannot wrap: the first bounds the bytes.
    if (segment.bytes == 0 || segment.bytes > region_bytes ||
        segment.device_offset > region_bytes - segment.bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a segment of ", segment.bytes, " bytes at ", segment.device_offset,
                       " is empty or leaves a region of ", region_bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kvtier

#include "tier_gpu/device/device.h"

#include "absl/strings/str_cat.h"

namespace kvtier {

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

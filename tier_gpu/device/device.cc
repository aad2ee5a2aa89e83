#include "tier_gpu/device/device.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvtier {
namespace {

// Payload of an abandoned status. It travels with the status, so a caller that keeps the slots
// learns of it however many calls away.
constexpr absl::string_view kAbandoned = "kvtier/abandoned";

}  // namespace

absl::Status Abandoned(const absl::Status& lost) {
  absl::Status abandoned = lost;
  abandoned.SetPayload(kAbandoned, absl::Cord());
  return abandoned;
}

bool IsAbandoned(const absl::Status& status) { return status.GetPayload(kAbandoned).has_value(); }

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

absl::Status CheckSegments(const DeviceRegion& region, std::span<const CopySegment> segments) {
  if (segments.size() > kMaxCopySegments) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", segments.size(), " segments; must have at most ", kMaxCopySegments));
  }
  for (const CopySegment& segment : segments) {
    if (segment.bytes == 0 || !region.Holds(segment.device_offset, segment.bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a segment of ", segment.bytes, " bytes at ", segment.device_offset,
          "; must not be empty and must lie in the region of ", region.bytes(), " bytes"));
    }
    if (const uint64_t handle = region.shape().handle_bytes;
        segment.device_offset % handle + segment.bytes > handle) {
      return absl::InvalidArgumentError(
          absl::StrCat("a segment of ", segment.bytes, " bytes at ", segment.device_offset,
                       "; must lie in one handle of ", handle, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckImport(const Device& device, const DeviceUuid& of) {
  if (of == device.uuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the region is memory of ", of.ToString(), ", and this device is ", device.uuid().ToString(),
      "; open the region's device (CUDA_VISIBLE_DEVICES renumbers devices)"));
}

}  // namespace kvtier

#include "agent/gpu/gpu_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {
namespace {

// Largest handle, as of a pool that is alone on its GPU.
constexpr uint64_t kMaxUnit = uint64_t{1} << 30;
// Handles that a GPU is divided into at least, where it is large enough: a part is less than one
// of them away from its share.
constexpr uint64_t kMinUnits = 64;

}  // namespace

uint64_t GpuPartUnit(uint64_t bytes) {
  const uint64_t least = (bytes + kMaxRegionHandles - 1) / kMaxRegionHandles;
  const uint64_t unit = std::max(least, std::min(kMaxUnit, bytes / kMinUnits));
  return std::max<uint64_t>(1, (unit + kRegionGranularity - 1) / kRegionGranularity) *
         kRegionGranularity;
}

uint64_t LeastGpuPart(uint64_t slot_bytes, uint64_t unit) { return (slot_bytes + unit - 1) / unit; }

std::vector<uint64_t> GpuParts(uint64_t units, uint64_t least, std::span<const TierShare> shares) {
  KVT_CHECK(least * shares.size() <= units);
  uint64_t left = units - least * shares.size();
  std::vector<ShareClaim> claims;
  claims.reserve(shares.size());
  for (const TierShare& share : shares) {
    ShareClaim& claim = claims.emplace_back(ShareClaim{.share = share, .wanted = UINT64_MAX});
    const uint64_t guaranteed = std::max(share.guaranteed, least) - least;
    claim.share.guaranteed = std::min(guaranteed, left);
    claim.share.maximum = std::max(share.maximum, least) - least;
    left -= claim.share.guaranteed;
  }
  std::vector<uint64_t> parts = FairShares(units - least * shares.size(), claims);
  for (uint64_t& part : parts) part += least;
  return parts;
}

absl::StatusOr<std::vector<uint64_t>> FirstGpuParts(uint64_t bytes, uint64_t slot_bytes,
                                                    size_t tenants) {
  const uint64_t unit = GpuPartUnit(bytes);
  const uint64_t units = bytes / unit;
  const uint64_t least = LeastGpuPart(slot_bytes, unit);
  if (units < least * tenants) {
    return absl::InvalidArgumentError(absl::StrCat("--gpu_bytes=", bytes, ": ", tenants,
                                                   " tenants of --gpu_tenants need ", least * unit,
                                                   " bytes each; raise it"));
  }
  std::vector<uint64_t> parts(tenants);
  for (size_t i = 0; i < tenants; ++i) {
    parts[i] = (units / tenants + (i < units % tenants ? 1 : 0)) * unit;
  }
  return parts;
}

}  // namespace kvtier

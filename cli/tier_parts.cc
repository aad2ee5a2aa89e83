#include "cli/tier_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

// Says whether a tenant has a part of a tier.
using HasPart = bool (v1::TenantReport::*)() const;

// Returns the part with its `whole`.
TierPart WithWhole(const v1::ListTenantsResponse& response, HasPart has_part, TierPart part) {
  const auto sharing = std::ranges::count_if(
      response.tenants(), [&](const v1::TenantReport& tenant) { return (tenant.*has_part)(); });
  uint64_t tier_bytes = 0;
  for (const v1::TierUsage& usage : response.tiers()) {
    if (usage.tier() == part.tier) tier_bytes = usage.capacity_bytes();
  }
  const bool is_divided = sharing > 1 && part.guaranteed > 0;
  part.whole = is_divided ? part.guaranteed : std::min(part.maximum, tier_bytes);
  return part;
}

}  // namespace

bool TierPart::is_nearly_full() const {
  // Divided, because the product of large sizes would wrap around.
  return whole > 0 && used / static_cast<double>(whole) * 100 >= kNearlyFullPercent;
}

std::string TierPart::FullText() const {
  return absl::StrCat(ShareText(used, whole), is_nearly_full() ? " !" : "");
}

TierPart HostPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant) {
  return WithWhole(response, &v1::TenantReport::has_host,
                   {.tier = v1::TIER_HOST,
                    .has = tenant.host_capacity_bytes(),
                    .used = tenant.host_used_bytes(),
                    .guaranteed = tenant.host().guaranteed_bytes(),
                    .maximum = tenant.host().maximum_bytes()});
}

TierPart DiskPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant) {
  return WithWhole(response, &v1::TenantReport::has_disk,
                   {.tier = v1::TIER_DISK,
                    .has = tenant.disk().used_bytes(),
                    .used = tenant.disk().used_bytes(),
                    .guaranteed = tenant.disk().guaranteed_bytes(),
                    .maximum = tenant.disk().maximum_bytes()});
}

TierPart GpuPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant) {
  return WithWhole(response, &v1::TenantReport::has_gpu,
                   {.tier = v1::TIER_GPU,
                    .has = tenant.gpu().capacity_bytes(),
                    .used = tenant.gpu().used_bytes(),
                    .guaranteed = tenant.gpu().guaranteed_bytes(),
                    .maximum = tenant.gpu().maximum_bytes()});
}

}  // namespace kvtier::cli

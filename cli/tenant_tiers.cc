#include "cli/tenant_tiers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/table.h"
#include "cli/tier_parts.h"
#include "cli/units.h"
#include "core/tier.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

std::string MaximumText(uint64_t bytes) { return bytes == UINT64_MAX ? "-" : BytesText(bytes); }

void WriteMaximum(uint64_t bytes, JsonWriter* json) {
  if (bytes == UINT64_MAX) {
    json->Null("maximum_bytes");
  } else {
    json->Count("maximum_bytes", bytes);
  }
}

// Writes what part of the tier is full, lent and borrowed.
void WriteLent(const TierPart& part, JsonWriter* json) {
  json->Flag("nearly_full", part.is_nearly_full());
  json->Count("lent_bytes", part.lent());
  json->Count("borrowed_bytes", part.borrowed());
}

// Returns how many bytes of host memory the tenant lacks of those that it is guaranteed and wants.
uint64_t LackOf(const v1::TenantReport& tenant) {
  const v1::TenantHost& host = tenant.host();
  const uint64_t due = std::min(host.guaranteed_bytes(), host.fair_bytes());
  return due - std::min(due, tenant.host_capacity_bytes());
}

// Returns how many blocks of the tenant made room; 0 also for one that is not here.
uint64_t EvictionsOf(const v1::ListTenantsResponse& response, const std::string& name) {
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (tenant.name() == name) return tenant.host().evictions();
  }
  return 0;
}

// Returns what the tenant does to others: "92.0 % of evictions of tenant other" and the like; empty
// if it keeps to its guarantee, or no other tenant loses or lacks anything.
std::vector<std::string> HarmOf(const v1::ListTenantsResponse& response,
                                const v1::TenantReport& tenant) {
  std::vector<std::string> harm;
  if (tenant.host_used_bytes() <= tenant.host().guaranteed_bytes()) return harm;
  for (const v1::TenantTaken& taken : tenant.host().taken()) {
    const uint64_t evictions = EvictionsOf(response, taken.tenant());
    if (evictions == 0) continue;
    harm.push_back(absl::StrCat(ShareText(taken.blocks(), evictions), " of evictions of tenant ",
                                Printable(taken.tenant())));
  }
  for (const v1::TenantReport& other : response.tenants()) {
    if (const uint64_t lack = LackOf(other); lack > 0 && other.name() != tenant.name()) {
      harm.push_back(absl::StrCat("while tenant ", Printable(other.name()), " lacks ",
                                  BytesText(lack), " of its guarantee"));
    }
  }
  return harm;
}

// Adds a row about a part of a tier that the tenant has.
void AddOccupancy(const std::string& tenant, const TierPart& part, Table* table) {
  const absl::StatusOr<Tier> tier = convert::TierFrom(part.tier, "tier");
  table->AddRow({tenant, tier.ok() ? TierName(*tier) : "?", BytesText(part.has),
                 BytesText(part.used), BytesText(part.guaranteed), part.FullText()});
}

}  // namespace

std::string HostLines(const v1::ListTenantsResponse& response) {
  Table table({{"HOST"},
               {"HAS", Align::kRight},
               {"USED", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FULL", Align::kRight},
               {"FAIR SHARE", Align::kRight},
               {"MAXIMUM", Align::kRight},
               {"LENT", Align::kRight},
               {"BORROWED", Align::kRight},
               {"EVICTED", Align::kRight},
               {"FOR OTHERS", Align::kRight},
               {"OF OTHERS", Align::kRight}},
              /*indent=*/2);
  bool has_host = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_host()) continue;
    has_host = true;
    const v1::TenantHost& host = tenant.host();
    const TierPart part = HostPart(response, tenant);
    table.AddRow({tenant.name(), BytesText(part.has), BytesText(part.used),
                  CountText(tenant.host_blocks()), BytesText(part.guaranteed), part.FullText(),
                  BytesText(host.fair_bytes()), MaximumText(part.maximum), BytesText(part.lent()),
                  BytesText(part.borrowed()), CountText(host.evictions()),
                  CountText(host.evictions_suffered()), CountText(host.evictions_caused())});
  }
  return has_host ? table.ToString() : "";
}

std::string DiskLines(const v1::ListTenantsResponse& response) {
  Table table({{"DISK"},
               {"USED", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FULL", Align::kRight},
               {"FAIR SHARE", Align::kRight},
               {"MAXIMUM", Align::kRight},
               {"LENT", Align::kRight},
               {"BORROWED", Align::kRight},
               {"EVICTED", Align::kRight},
               {"FOR OTHERS", Align::kRight},
               {"OF OTHERS", Align::kRight}},
              /*indent=*/2);
  bool has_disk = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_disk()) continue;
    has_disk = true;
    const v1::TenantDisk& disk = tenant.disk();
    const TierPart part = DiskPart(response, tenant);
    table.AddRow({tenant.name(), BytesText(part.used), BytesText(part.guaranteed), part.FullText(),
                  BytesText(disk.fair_bytes()), MaximumText(part.maximum), BytesText(part.lent()),
                  BytesText(part.borrowed()), CountText(disk.evictions()),
                  CountText(disk.evictions_suffered()), CountText(disk.evictions_caused())});
  }
  return has_disk ? table.ToString() : "";
}

std::string GpuLines(const v1::ListTenantsResponse& response) {
  Table table({{"GPU"},
               {"HAS", Align::kRight},
               {"USED", Align::kRight},
               {"IS TO HAVE", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FULL", Align::kRight},
               {"MAXIMUM", Align::kRight},
               {"LENT", Align::kRight},
               {"BORROWED", Align::kRight}},
              /*indent=*/2);
  bool has_gpu = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_gpu()) continue;
    has_gpu = true;
    const TierPart part = GpuPart(response, tenant);
    table.AddRow({tenant.name(), BytesText(part.has), BytesText(part.used),
                  BytesText(tenant.gpu().part_bytes()), BytesText(part.guaranteed), part.FullText(),
                  MaximumText(part.maximum), BytesText(part.lent()), BytesText(part.borrowed())});
  }
  return has_gpu ? table.ToString() : "";
}

std::string TakenLines(const v1::ListTenantsResponse& response) {
  std::string lines;
  for (const v1::TenantReport& tenant : response.tenants()) {
    const std::vector<std::string> harm = HarmOf(response, tenant);
    if (harm.empty()) continue;
    const uint64_t guaranteed = tenant.host().guaranteed_bytes();
    const uint64_t has = tenant.host_capacity_bytes();
    absl::StrAppend(&lines, "  tenant ", Printable(tenant.name()), ": ", BytesText(has),
                    " of host memory, ");
    if (guaranteed > 0) {
      absl::StrAppendFormat(&lines, "%.1fx its guarantee, ",
                            static_cast<double>(has) / static_cast<double>(guaranteed));
    }
    absl::StrAppend(&lines, absl::StrJoin(harm, ", "), "\n");
  }
  return lines;
}

std::string OccupancyLines(const v1::ListTenantsResponse& response) {
  std::vector<const v1::TenantReport*> tenants;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (tenant.has_host()) tenants.push_back(&tenant);
  }
  if (tenants.empty()) return "";
  std::ranges::stable_sort(tenants, [](const auto* a, const auto* b) {
    return a->host_used_bytes() > b->host_used_bytes();
  });
  const size_t shown = std::min(tenants.size(), kMaxOccupancyTenants);
  Table table({{"TENANT"},
               {"TIER"},
               {"HAS", Align::kRight},
               {"USED", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FULL", Align::kRight}},
              /*indent=*/2);
  for (size_t i = 0; i < shown; ++i) {
    const v1::TenantReport& tenant = *tenants[i];
    if (tenant.has_gpu()) AddOccupancy(tenant.name(), GpuPart(response, tenant), &table);
    AddOccupancy(tenant.name(), HostPart(response, tenant), &table);
    if (tenant.has_disk()) AddOccupancy(tenant.name(), DiskPart(response, tenant), &table);
  }
  std::string lines = table.ToString();
  if (shown < tenants.size()) {
    absl::StrAppend(&lines, "  and ", tenants.size() - shown, " more: kvtier tenants\n");
  }
  return lines + TakenLines(response);
}

void WriteHost(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant,
               JsonWriter* json) {
  const v1::TenantHost& host = tenant.host();
  const TierPart part = HostPart(response, tenant);
  json->OpenObject("host");
  json->Count("capacity_bytes", part.has);
  json->Count("used_bytes", part.used);
  json->Count("blocks", tenant.host_blocks());
  json->Count("guaranteed_bytes", part.guaranteed);
  WriteMaximum(part.maximum, json);
  json->Count("fair_bytes", host.fair_bytes());
  WriteLent(part, json);
  json->Count("evictions", host.evictions());
  json->Count("evictions_suffered", host.evictions_suffered());
  json->Count("evictions_caused", host.evictions_caused());
  json->OpenArray("taken");
  for (const v1::TenantTaken& taken : host.taken()) {
    json->OpenElement();
    json->Text("tenant", taken.tenant());
    json->Count("blocks", taken.blocks());
    json->Close();
  }
  json->Close();
  json->Close();
}

void WriteDiskAndGpu(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant,
                     JsonWriter* json) {
  if (tenant.has_disk()) {
    const v1::TenantDisk& disk = tenant.disk();
    const TierPart part = DiskPart(response, tenant);
    json->OpenObject("disk");
    json->Count("used_bytes", part.used);
    json->Count("guaranteed_bytes", part.guaranteed);
    WriteMaximum(part.maximum, json);
    json->Count("fair_bytes", disk.fair_bytes());
    WriteLent(part, json);
    json->Count("evictions", disk.evictions());
    json->Count("evictions_suffered", disk.evictions_suffered());
    json->Count("evictions_caused", disk.evictions_caused());
    json->Close();
  }
  if (tenant.has_gpu()) {
    const TierPart part = GpuPart(response, tenant);
    json->OpenObject("gpu");
    json->Count("capacity_bytes", part.has);
    json->Count("used_bytes", part.used);
    json->Count("part_bytes", tenant.gpu().part_bytes());
    json->Count("guaranteed_bytes", part.guaranteed);
    WriteMaximum(part.maximum, json);
    WriteLent(part, json);
    json->Close();
  }
}

void WriteOccupancy(const v1::ListTenantsResponse& response, JsonWriter* json) {
  json->OpenArray("tenants");
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_host()) continue;
    json->OpenElement();
    json->Text("name", tenant.name());
    WriteHost(response, tenant, json);
    WriteDiskAndGpu(response, tenant, json);
    json->Close();
  }
  json->Close();
}

}  // namespace kvtier::cli

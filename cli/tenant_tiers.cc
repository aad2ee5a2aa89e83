#include "cli/tenant_tiers.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/table.h"
#include "cli/units.h"

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

// Returns how many of `bytes` lie beyond `limit`.
uint64_t Beyond(uint64_t bytes, uint64_t limit) { return bytes - std::min(bytes, limit); }

bool IsNearlyFull(const v1::TenantReport& tenant) {
  const uint64_t guaranteed = tenant.host().guaranteed_bytes();
  return guaranteed > 0 && tenant.host_used_bytes() * 100 >= guaranteed * kNearlyFullPercent;
}

// Returns "97.0 % !": how full the guarantee is, and the sign of kNearlyFullPercent.
std::string FullText(const v1::TenantReport& tenant) {
  return absl::StrCat(ShareText(tenant.host_used_bytes(), tenant.host().guaranteed_bytes()),
                      IsNearlyFull(tenant) ? " !" : "");
}

uint64_t EvictionsOf(const v1::ListTenantsResponse& response, const std::string& name) {
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (tenant.name() == name) return tenant.host().evictions();
  }
  return 0;
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
               {"FOR OTHERS", Align::kRight}},
              /*indent=*/2);
  bool has_host = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_host()) continue;
    has_host = true;
    const v1::TenantHost& host = tenant.host();
    const uint64_t has = tenant.host_capacity_bytes();
    table.AddRow({tenant.name(), BytesText(has), BytesText(tenant.host_used_bytes()),
                  CountText(tenant.host_blocks()), BytesText(host.guaranteed_bytes()),
                  FullText(tenant), BytesText(host.fair_bytes()), MaximumText(host.maximum_bytes()),
                  BytesText(Beyond(host.guaranteed_bytes(), has)),
                  BytesText(Beyond(has, host.guaranteed_bytes())), CountText(host.evictions()),
                  CountText(host.evictions_suffered())});
  }
  return has_host ? table.ToString() : "";
}

std::string DiskLines(const v1::ListTenantsResponse& response) {
  Table table({{"DISK"},
               {"USED", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FAIR SHARE", Align::kRight},
               {"MAXIMUM", Align::kRight},
               {"EVICTED", Align::kRight},
               {"FOR OTHERS", Align::kRight},
               {"OF OTHERS", Align::kRight}},
              /*indent=*/2);
  bool has_disk = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_disk()) continue;
    has_disk = true;
    const v1::TenantDisk& disk = tenant.disk();
    table.AddRow({tenant.name(), BytesText(disk.used_bytes()), BytesText(disk.guaranteed_bytes()),
                  BytesText(disk.fair_bytes()), MaximumText(disk.maximum_bytes()),
                  CountText(disk.evictions()), CountText(disk.evictions_suffered()),
                  CountText(disk.evictions_caused())});
  }
  return has_disk ? table.ToString() : "";
}

std::string GpuLines(const v1::ListTenantsResponse& response) {
  Table table({{"GPU"},
               {"HAS", Align::kRight},
               {"USED", Align::kRight},
               {"IS TO HAVE", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"MAXIMUM", Align::kRight}},
              /*indent=*/2);
  bool has_gpu = false;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_gpu()) continue;
    has_gpu = true;
    const v1::TenantGpu& gpu = tenant.gpu();
    table.AddRow({tenant.name(), BytesText(gpu.capacity_bytes()), BytesText(gpu.used_bytes()),
                  BytesText(gpu.part_bytes()), BytesText(gpu.guaranteed_bytes()),
                  MaximumText(gpu.maximum_bytes())});
  }
  return has_gpu ? table.ToString() : "";
}

std::string TakenLines(const v1::ListTenantsResponse& response) {
  std::string lines;
  for (const v1::TenantReport& tenant : response.tenants()) {
    const v1::TenantHost& host = tenant.host();
    const uint64_t has = tenant.host_capacity_bytes();
    std::vector<std::string> said;
    if (has > host.guaranteed_bytes() && host.guaranteed_bytes() > 0) {
      said.push_back(
          absl::StrFormat("%.1fx its guarantee",
                          static_cast<double>(has) / static_cast<double>(host.guaranteed_bytes())));
    }
    for (const v1::TenantTaken& taken : host.taken()) {
      said.push_back(absl::StrCat(ShareText(taken.blocks(), EvictionsOf(response, taken.tenant())),
                                  " of evictions of tenant ", Printable(taken.tenant())));
    }
    if (said.empty()) continue;
    absl::StrAppend(&lines, "  tenant ", Printable(tenant.name()), ": ", BytesText(has),
                    " of host memory, ", absl::StrJoin(said, ", "), "\n");
  }
  return lines;
}

std::string OccupancyLines(const v1::ListTenantsResponse& response) {
  std::vector<const v1::TenantReport*> tenants;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (tenant.has_host()) tenants.push_back(&tenant);
  }
  if (tenants.size() < 2) return "";
  std::ranges::stable_sort(tenants, [](const auto* a, const auto* b) {
    return a->host_used_bytes() > b->host_used_bytes();
  });
  const size_t shown = std::min(tenants.size(), kMaxOccupancyRows);
  Table table({{"TENANT"},
               {"HOST", Align::kRight},
               {"USED", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"FULL", Align::kRight}},
              /*indent=*/2);
  for (size_t i = 0; i < shown; ++i) {
    const v1::TenantReport& tenant = *tenants[i];
    table.AddRow({tenant.name(), BytesText(tenant.host_capacity_bytes()),
                  BytesText(tenant.host_used_bytes()), BytesText(tenant.host().guaranteed_bytes()),
                  FullText(tenant)});
  }
  std::string lines = table.ToString();
  if (shown < tenants.size()) {
    absl::StrAppend(&lines, "  and ", tenants.size() - shown, " more: kvtier tenants\n");
  }
  return lines + TakenLines(response);
}

void WriteHost(const v1::TenantReport& tenant, JsonWriter* json) {
  const v1::TenantHost& host = tenant.host();
  json->OpenObject("host");
  json->Count("capacity_bytes", tenant.host_capacity_bytes());
  json->Count("used_bytes", tenant.host_used_bytes());
  json->Count("blocks", tenant.host_blocks());
  json->Count("guaranteed_bytes", host.guaranteed_bytes());
  WriteMaximum(host.maximum_bytes(), json);
  json->Count("fair_bytes", host.fair_bytes());
  json->Flag("nearly_full", IsNearlyFull(tenant));
  json->Count("evictions", host.evictions());
  json->Count("evictions_suffered", host.evictions_suffered());
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

void WriteOccupancy(const v1::ListTenantsResponse& response, JsonWriter* json) {
  json->OpenArray("tenants");
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_host()) continue;
    json->OpenElement();
    json->Text("name", tenant.name());
    WriteHost(tenant, json);
    json->Close();
  }
  json->Close();
}

void WriteDisk(const v1::TenantDisk& disk, JsonWriter* json) {
  json->OpenObject("disk");
  json->Count("used_bytes", disk.used_bytes());
  json->Count("guaranteed_bytes", disk.guaranteed_bytes());
  WriteMaximum(disk.maximum_bytes(), json);
  json->Count("fair_bytes", disk.fair_bytes());
  json->Count("evictions", disk.evictions());
  json->Count("evictions_suffered", disk.evictions_suffered());
  json->Count("evictions_caused", disk.evictions_caused());
  json->Close();
}

void WriteGpu(const v1::TenantGpu& gpu, JsonWriter* json) {
  json->OpenObject("gpu");
  json->Count("capacity_bytes", gpu.capacity_bytes());
  json->Count("used_bytes", gpu.used_bytes());
  json->Count("part_bytes", gpu.part_bytes());
  json->Count("guaranteed_bytes", gpu.guaranteed_bytes());
  WriteMaximum(gpu.maximum_bytes(), json);
  json->Close();
}

}  // namespace kvtier::cli

#include "cli/tenants.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

// Returns "3 of 512": what the tenant has, of what it is guaranteed.
std::string ShareOf(const v1::TenantShare& share) {
  return absl::StrCat(CountText(share.used()), " of ", CountText(share.guaranteed()));
}

std::string TenantLines(const v1::ListTenantsResponse& response) {
  Table table({{"TENANT"},
               {"SESSIONS", Align::kRight},
               {"LEASES", Align::kRight},
               {"RESERVATIONS", Align::kRight},
               {"HOST MEMORY", Align::kRight},
               {"USED", Align::kRight},
               {"FULL", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"PINS", Align::kRight},
               {"KEPT", Align::kRight}},
              /*indent=*/2);
  for (const v1::TenantReport& tenant : response.tenants()) {
    table.AddRow({tenant.name(), ShareOf(tenant.sessions()), ShareOf(tenant.leases()),
                  ShareOf(tenant.reservations()), BytesText(tenant.host_capacity_bytes()),
                  BytesText(tenant.host_used_bytes()),
                  ShareText(tenant.host_used_bytes(), tenant.host_capacity_bytes()),
                  CountText(tenant.host_blocks()), CountText(tenant.kept().prefixes()),
                  BytesText(tenant.kept().bytes())});
  }
  return table.ToString();
}

// Returns what each tenant has of the disks; nothing where the node has none.
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
                  BytesText(disk.fair_bytes()),
                  disk.maximum_bytes() == UINT64_MAX ? "-" : BytesText(disk.maximum_bytes()),
                  CountText(disk.evictions()), CountText(disk.evictions_suffered()),
                  CountText(disk.evictions_caused())});
  }
  return has_disk ? table.ToString() : "";
}

void WriteDisk(const v1::TenantDisk& disk, JsonWriter* json) {
  json->OpenObject("disk");
  json->Count("used_bytes", disk.used_bytes());
  json->Count("guaranteed_bytes", disk.guaranteed_bytes());
  if (disk.maximum_bytes() == UINT64_MAX) {
    json->Null("maximum_bytes");
  } else {
    json->Count("maximum_bytes", disk.maximum_bytes());
  }
  json->Count("fair_bytes", disk.fair_bytes());
  json->Count("evictions", disk.evictions());
  json->Count("evictions_suffered", disk.evictions_suffered());
  json->Count("evictions_caused", disk.evictions_caused());
  json->Close();
}

// Returns what all tenants together have of the node's numbers.
std::string TotalLine(const v1::ListTenantsResponse& response) {
  v1::TenantReport all;
  for (const v1::TenantReport& tenant : response.tenants()) {
    for (const auto& [total, one] :
         {std::pair(all.mutable_sessions(), &tenant.sessions()),
          std::pair(all.mutable_leases(), &tenant.leases()),
          std::pair(all.mutable_reservations(), &tenant.reservations())}) {
      total->set_used(total->used() + one->used());
      total->set_limit(one->limit());
    }
  }
  const auto text = [](const v1::TenantShare& share) {
    return absl::StrCat(CountText(share.used()), " of ", CountText(share.limit()));
  };
  return absl::StrCat("  the node: ", text(all.sessions()), " sessions, ", text(all.leases()),
                      " leases, ", text(all.reservations()), " reservations\n");
}

void WriteShare(const char* name, const v1::TenantShare& share, JsonWriter* json) {
  json->OpenObject(name);
  json->Count("used", share.used());
  json->Count("guaranteed", share.guaranteed());
  json->Count("limit", share.limit());
  json->Close();
}

}  // namespace

std::string TenantsTable(const TenantAnswers& answers) {
  return AgentSections(answers, [](const v1::ListTenantsResponse& response) {
    return absl::StrCat(TenantLines(response), TotalLine(response), DiskLines(response));
  });
}

std::string TenantsJson(const TenantAnswers& answers) {
  return AgentsJson(answers, [](const v1::ListTenantsResponse& response, JsonWriter* json) {
    json->Text("node_id", response.node_id());
    json->OpenArray("tenants");
    for (const v1::TenantReport& tenant : response.tenants()) {
      json->OpenElement();
      json->Text("name", tenant.name());
      WriteShare("sessions", tenant.sessions(), json);
      WriteShare("leases", tenant.leases(), json);
      WriteShare("reservations", tenant.reservations(), json);
      json->OpenObject("host");
      json->Count("capacity_bytes", tenant.host_capacity_bytes());
      json->Count("used_bytes", tenant.host_used_bytes());
      json->Count("blocks", tenant.host_blocks());
      json->Close();
      json->OpenObject("pins");
      json->Count("count", tenant.kept().prefixes());
      json->Count("bytes", tenant.kept().bytes());
      json->Close();
      if (tenant.has_disk()) WriteDisk(tenant.disk(), json);
      json->Close();
    }
    json->Close();
  });
}

Outcome RunTenants(const Arguments& arguments) {
  const TenantAnswers answers =
      AskAll<v1::ListTenantsResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).ListTenants();
      });
  Verdict verdict;
  for (const auto& answer : answers) verdict.Add(answer);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? TenantsJson(answers) : TenantsTable(answers)};
}

}  // namespace kvtier::cli

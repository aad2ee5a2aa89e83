#include "cli/tenants.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/tenant_shares.h"
#include "cli/tenant_tiers.h"
#include "cli/tenants_store.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

// Returns "3 of 512": what the tenant has, of what it is guaranteed.
std::string ShareOf(const v1::TenantShare& share) {
  return absl::StrCat(CountText(share.used()), " of ", CountText(share.guaranteed()));
}

// Returns how many percent of the blocks that the tenant asked for were found.
std::string HitsText(const v1::TenantHits& hits) {
  const uint64_t found = hits.gpu() + hits.host() + hits.disk() + hits.peer();
  return ShareText(found, found + hits.misses());
}

std::string TenantLines(const v1::ListTenantsResponse& response) {
  Table table({{"TENANT"},
               {"STATE"},
               {"HITS", Align::kRight},
               {"THROTTLED", Align::kRight},
               {"SESSIONS", Align::kRight},
               {"LEASES", Align::kRight},
               {"RESERVATIONS", Align::kRight},
               {"PINS", Align::kRight},
               {"KEPT", Align::kRight}},
              /*indent=*/2);
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_sessions()) {
      table.AddRow({tenant.name(), tenant.state(), "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.AddRow({tenant.name(), tenant.state(), HitsText(tenant.hits()),
                  CountText(ThrottledOf(tenant)), ShareOf(tenant.sessions()),
                  ShareOf(tenant.leases()), ShareOf(tenant.reservations()),
                  CountText(tenant.kept().prefixes()), BytesText(tenant.kept().bytes())});
  }
  return table.ToString();
}

// Returns what all tenants that are here together have of the node's numbers.
std::string TotalLine(const v1::ListTenantsResponse& response) {
  v1::TenantReport all;
  for (const v1::TenantReport& tenant : response.tenants()) {
    if (!tenant.has_sessions()) continue;  // It has only settings here.
    for (const auto& [total, one] :
         {std::pair(all.mutable_sessions(), &tenant.sessions()),
          std::pair(all.mutable_leases(), &tenant.leases()),
          std::pair(all.mutable_reservations(), &tenant.reservations())}) {
      total->set_used(total->used() + one->used());
      total->set_limit(one->limit());
    }
  }
  if (!all.has_sessions()) return "";
  const auto text = [](const v1::TenantShare& share) {
    return absl::StrCat(CountText(share.used()), " of ", CountText(share.limit()));
  };
  return absl::StrCat("  the node: ", text(all.sessions()), " sessions, ", text(all.leases()),
                      " leases, ", text(all.reservations()), " reservations\n");
}

// Returns a line for each share group: who may use its blocks.
std::string GroupLines(const v1::ListTenantsResponse& response) {
  std::string lines;
  for (const v1::TenantReport& tenant : response.tenants()) {
    const std::string members = MembersText(tenant.settings());
    if (members.empty()) continue;
    absl::StrAppend(&lines, "  share group ", Printable(tenant.name()), ": ", members, "\n");
  }
  return lines;
}

void WriteShare(const char* name, const v1::TenantShare& share, JsonWriter* json) {
  json->OpenObject(name);
  json->Count("used", share.used());
  json->Count("guaranteed", share.guaranteed());
  json->Count("limit", share.limit());
  json->Count("refused", share.refused());
  json->Close();
}

}  // namespace

std::string TenantsTable(const TenantAnswers& answers) {
  return AgentSections(answers, [](const v1::ListTenantsResponse& response) {
    const std::string failure =
        response.settings_failure().empty()
            ? ""
            : absl::StrCat("  settings were lost: ", Printable(response.settings_failure()), "\n");
    return absl::StrCat(TenantLines(response), TotalLine(response), HostLines(response),
                        DiskLines(response), GpuLines(response), TakenLines(response),
                        GroupLines(response), failure);
  });
}

std::string TenantsJson(const TenantAnswers& answers) {
  return AgentsJson(answers, [](const v1::ListTenantsResponse& response, JsonWriter* json) {
    json->Text("node_id", response.node_id());
    WriteStore(response.settings_store(), response.settings_version(), json);
    if (!response.settings_failure().empty()) {
      json->Text("settings_failure", response.settings_failure());
    }
    json->OpenArray("tenants");
    for (const v1::TenantReport& tenant : response.tenants()) {
      json->OpenElement();
      json->Text("name", tenant.name());
      json->Text("state", tenant.state());
      json->Text("settings_source", tenant.settings_source());
      WriteHits(tenant.hits(), json);
      json->Count("throttled", ThrottledOf(tenant));
      WriteShare("sessions", tenant.sessions(), json);
      WriteShare("leases", tenant.leases(), json);
      WriteShare("reservations", tenant.reservations(), json);
      WriteHost(response, tenant, json);
      json->OpenObject("pins");
      json->Count("count", tenant.kept().prefixes());
      json->Count("bytes", tenant.kept().bytes());
      json->Count("refused", tenant.refused_pins());
      json->Close();
      WriteDiskAndGpu(response, tenant, json);
      WriteMembers(tenant.settings(), json);
      json->Close();
    }
    json->Close();
  });
}

std::string ClusterTenantsTable(const v1::ListTenantsResponse& response) {
  Table table({{"TENANT"}, {"SETTINGS"}});
  for (const v1::TenantReport& tenant : response.tenants()) {
    table.AddRow({tenant.name(), SettingsText(tenant.settings())});
  }
  if (response.settings_version() == 0) {
    return "Settings are unknown: kvtier tenants init, or after a loss kvtier tenants import.\n";
  }
  return absl::StrCat(response.tenants().empty() ? "Nothing is set.\n" : table.ToString(),
                      StoreText(response.settings_store(), response.settings_version()), "\n");
}

std::string ClusterTenantsJson(const v1::ListTenantsResponse& response) {
  JsonWriter json;
  WriteStore(response.settings_store(), response.settings_version(), &json);
  json.OpenArray("tenants");
  for (const v1::TenantReport& tenant : response.tenants()) {
    json.OpenElement();
    json.Text("name", tenant.name());
    WriteSettings(tenant.settings(), &json);
    json.Close();
  }
  json.Close();
  return json.Finish();
}

Outcome RunTenants(const Arguments& arguments) {
  if (arguments.coordinator.has_value()) {
    const auto all = CoordinatorAdmin(*arguments.coordinator, arguments.timeout).ListTenants();
    if (!all.ok()) return Failure(arguments, *arguments.coordinator, all.status());
    return {.out = arguments.format == Format::kJson ? ClusterTenantsJson(*all)
                                                     : ClusterTenantsTable(*all)};
  }
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

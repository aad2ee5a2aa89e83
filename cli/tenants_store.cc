#include "cli/tenants_store.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/table.h"
#include "core/cluster_tenants.h"
#include "proto/convert_tenants.h"

namespace kvtier::cli {
namespace {

constexpr size_t kMaxExportBytes = size_t{4} << 20;
// Whoever reaches the coordinator's port can report as many nodes, of as many stores, as it has
// room for: no more than these are named.
constexpr size_t kMaxNamedNodes = 4;
constexpr size_t kMaxNamedStores = 4;

absl::StatusOr<std::string> ReadExport(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxExportBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be read: ", std::strerror(errno), "; name a readable file"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kMaxExportBytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has more than ", kMaxExportBytes,
                   " bytes; must be what kvtier tenants export printed"));
}

// Returns "a, b and 7 more".
std::string Names(const std::vector<std::string>& names) {
  const size_t named = std::min(names.size(), kMaxNamedNodes);
  const std::string first = absl::StrJoin(names.begin(), names.begin() + named, ", ");
  return named == names.size() ? first
                               : absl::StrCat(first, " and ", names.size() - named, " more");
}

// Returns the outcome of a change that the coordinator made, and of what nodes follow instead.
Outcome Changed(const Arguments& arguments, uint64_t store, uint64_t version) {
  if (arguments.format == Format::kJson) {
    JsonWriter json;
    WriteStore(store, version, &json);
    return {.out = json.Finish()};
  }
  std::string out = absl::StrCat("The coordinator has ", StoreText(store, version), ".\n");
  const auto status = CoordinatorAdmin(*arguments.coordinator, arguments.timeout).Status();
  if (status.ok()) {
    for (const std::string& complaint : SettingsComplaints(*status)) {
      absl::StrAppend(&out, complaint, "\n");
    }
  }
  return {.out = out};
}

}  // namespace

std::string StoreText(uint64_t store, uint64_t version) {
  if (version == 0) return "unknown";
  return absl::StrCat("version ", version, " of store ", StoreIdText(store));
}

void WriteStore(uint64_t store, uint64_t version, JsonWriter* json) {
  if (store == 0) {
    json->Null("settings_store");
  } else {
    json->Text("settings_store", StoreIdText(store));
  }
  json->Count("settings_version", version);
}

std::vector<std::string> SettingsComplaints(const v1::CoordinatorStatusResponse& status) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<std::string>> nodes;  // By what they follow.
  for (const v1::NodeReport& node : status.nodes()) {
    if (!node.settings_differ()) continue;
    nodes[{node.settings_store(), node.settings_version()}].push_back(Printable(node.node_id()));
  }
  std::vector<std::string> complaints;
  for (const auto& [followed, names] : nodes) {
    const auto& [store, version] = followed;
    if (complaints.size() == kMaxNamedStores) {
      complaints.push_back(absl::StrCat("and ", nodes.size() - kMaxNamedStores,
                                        " more versions of settings that are not here"));
      break;
    }
    std::string remedy =
        "to have them here, import what kvtier tenants export prints on such a node";
    if (store != status.settings_store()) {
      absl::StrAppend(&remedy, "; to give them up, kvtier tenants init --replace ",
                      StoreIdText(store));
    }
    complaints.push_back(absl::StrCat(
        "settings of tenants that are not here, ", StoreText(store, version), ", hold on ",
        Names(names), " (here: ", StoreText(status.settings_store(), status.settings_version()),
        "): ", remedy));
  }
  return complaints;
}

Outcome RunExportTenants(const Arguments& arguments) {
  const bool of_coordinator = arguments.coordinator.has_value();
  const std::string& address = of_coordinator ? *arguments.coordinator : arguments.agents[0];
  const auto exported = of_coordinator
                            ? CoordinatorAdmin(address, arguments.timeout).ExportTenants()
                            : AgentAdmin(address, arguments.timeout).ExportTenants();
  if (!exported.ok()) return Failure(arguments, address, exported.status());
  const absl::StatusOr<ClusterTenants> tenants = convert::ClusterTenantsFrom(exported->tenants());
  if (!tenants.ok()) return Failure(arguments, address, tenants.status());
  return {.out = ExportText(*tenants)};
}

Outcome RunImportTenants(const Arguments& arguments) {
  const std::string& file = arguments.import_file;
  const absl::StatusOr<std::string> text = ReadExport(file);
  if (!text.ok()) return Failure(arguments, file, text.status());
  const absl::StatusOr<ClusterTenants> tenants = ParseExport(*text);
  if (!tenants.ok()) return Failure(arguments, file, tenants.status());
  v1::ImportTenantsRequest request;
  *request.mutable_tenants() = convert::ToWire(*tenants);
  request.set_replace(arguments.yes);
  const auto response =
      CoordinatorAdmin(*arguments.coordinator, arguments.timeout).ImportTenants(request);
  if (!response.ok()) return Failure(arguments, *arguments.coordinator, response.status());
  return Changed(arguments, response->settings_store(), response->settings_version());
}

Outcome RunInitTenants(const Arguments& arguments) {
  v1::InitTenantsRequest request;
  request.set_replaced_store(arguments.replaced_store);
  const auto response =
      CoordinatorAdmin(*arguments.coordinator, arguments.timeout).InitTenants(request);
  if (!response.ok()) return Failure(arguments, *arguments.coordinator, response.status());
  return Changed(arguments, response->settings_store(), response->settings_version());
}

}  // namespace kvtier::cli

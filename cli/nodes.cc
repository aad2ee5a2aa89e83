#include "cli/nodes.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/tenants_store.h"
#include "cli/tiers.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

// Returns "1.50 GiB of 4.00 GiB" for one of a node's tiers; "-" where it has none.
std::string UseText(const v1::NodeReport& node, v1::Tier wanted) {
  for (const v1::TierUsage& tier : node.tiers()) {
    if (tier.tier() == wanted && tier.capacity_bytes() > 0) {
      return absl::StrCat(BytesText(tier.used_bytes()), " of ", BytesText(tier.capacity_bytes()));
    }
  }
  return "-";
}

}  // namespace

std::string NamesakeText(const v1::NodeReport& node) {
  return absl::StrCat("two agents are called ", Printable(node.node_id()), ": the one at ",
                      Printable(node.address()), " is served, the one at ",
                      Printable(node.namesake_address()), " is refused (heard ",
                      SecondsText(node.namesake_silence_seconds()), " ago)");
}

std::vector<std::string> Complaints(const v1::CoordinatorStatusResponse& status) {
  std::vector<std::string> complaints = SettingsComplaints(status);
  for (const v1::NodeReport& node : status.nodes()) {
    if (!node.namesake_address().empty()) complaints.push_back(NamesakeText(node));
  }
  const uint64_t refused =
      status.refused_keys() + status.refused_holders() + status.refused_nodes();
  if (refused > 0) {
    complaints.push_back(
        absl::StrCat("full: refused ", CountText(refused), " blocks, holders and nodes"));
  }
  return complaints;
}

std::string NodesTable(const v1::CoordinatorStatusResponse& status) {
  if (status.nodes().empty()) return "The coordinator knows no node.\n";
  Table table({{"NODE"},
               {"STATE"},
               {"ADDRESS"},
               {"LAST HEARD", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"HOST", Align::kRight},
               {"DISK", Align::kRight}});
  for (const v1::NodeReport& node : status.nodes()) {
    table.AddRow({node.node_id(), node.state(), node.address(),
                  absl::StrCat(SecondsText(node.silence_seconds()), " ago"),
                  CountText(node.directory_blocks()), UseText(node, v1::TIER_HOST),
                  UseText(node, v1::TIER_DISK)});
  }
  std::string text = table.ToString();
  for (const v1::NodeReport& node : status.nodes()) {
    if (!node.namesake_address().empty()) absl::StrAppend(&text, NamesakeText(node), "\n");
  }
  for (const std::string& complaint : SettingsComplaints(status)) {
    absl::StrAppend(&text, complaint, "\n");
  }
  return text;
}

std::string NodesJson(const v1::CoordinatorStatusResponse& status) {
  JsonWriter json;
  json.OpenArray("nodes");
  for (const v1::NodeReport& node : status.nodes()) {
    json.OpenElement();
    json.Text("node_id", node.node_id());
    json.Text("node_epoch", absl::StrFormat("%016x", node.node_epoch()));
    json.Text("state", node.state());
    json.Text("address", node.address());
    json.Seconds("silence_seconds", node.silence_seconds());
    json.Count("directory_blocks", node.directory_blocks());
    json.Text("twin_address", node.namesake_address());
    json.Seconds("twin_silence_seconds", node.namesake_silence_seconds());
    WriteStore(node.settings_store(), node.settings_version(), &json);
    json.Flag("settings_differ", node.settings_differ());
    json.OpenArray("tiers");
    for (const v1::TierUsage& tier : node.tiers()) {
      json.OpenElement();
      json.Text("tier", WireTierName(tier.tier()));
      json.Count("capacity_bytes", tier.capacity_bytes());
      json.Count("used_bytes", tier.used_bytes());
      json.Count("blocks", tier.blocks());
      json.Close();
    }
    json.Close();
    json.Close();
  }
  json.Close();
  return json.Finish();
}

Outcome RunNodes(const Arguments& arguments) {
  const absl::StatusOr<std::string> address = CoordinatorAddress(arguments);
  if (!address.ok()) return Failure(arguments, arguments.agents[0], address.status());
  const auto status = CoordinatorAdmin(*address, arguments.timeout).Status();
  if (!status.ok()) return Failure(arguments, *address, status.status());
  return {.out = arguments.format == Format::kJson ? NodesJson(*status) : NodesTable(*status)};
}

}  // namespace kvtier::cli

#include "cli/status.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/admin_client.h"
#include "cli/disk_info.h"
#include "cli/host_memory.h"
#include "cli/json.h"
#include "cli/nodes.h"
#include "cli/table.h"
#include "cli/tenant_tiers.h"
#include "cli/tenants_store.h"
#include "cli/tiers.h"
#include "cli/units.h"
#include "core/address.h"

namespace kvtier::cli {
namespace {

// Returns the epoch as text: it has 64 random bits, more than a JSON number holds.
std::string EpochText(uint64_t epoch) { return absl::StrFormat("%016x", epoch); }

// Returns a table of "label  text" lines below a heading.
Table Facts() { return Table({{""}, {""}}, /*indent=*/2); }

std::string CoordinatorText(const v1::AgentStatusResponse& status) {
  if (status.coordinator_address().empty()) return "none, this node runs alone";
  return absl::StrCat(status.coordinator_address(), ", ",
                      status.coordinator_connected()         ? "connected"
                      : status.coordinator_refusal().empty() ? "silent"
                                                             : "refuses this node",
                      ", last heard ", SecondsText(status.coordinator_silence_seconds()), " ago");
}

// Returns whether the node tells other machines an address that means each of them itself.
bool TellsLoopback(const v1::AgentStatusResponse& status) {
  const auto told = ParseHostPort(status.told_address());
  const auto coordinator = ParseHostPort(status.coordinator_address());
  return told.ok() && coordinator.ok() && told->IsLoopback() && !coordinator->IsLoopback();
}

std::string PeersText(const v1::PeerReport& peers) {
  return absl::StrCat("fetched ", CountText(peers.fetched_blocks()), " blocks (",
                      BytesText(peers.fetched_bytes()), "), missed ",
                      CountText(peers.missed_blocks()), ", served ",
                      CountText(peers.served_blocks()), " (", BytesText(peers.served_bytes()), ")");
}

std::string TierLines(const v1::AgentStatusResponse& status) {
  Table table({{"TIER"},
               {"CAPACITY", Align::kRight},
               {"USED", Align::kRight},
               {"FULL", Align::kRight},
               {"PINNED", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"HITS", Align::kRight},
               {"MISSES", Align::kRight},
               {"EVICTIONS", Align::kRight}},
              /*indent=*/2);
  for (const v1::TierReport& tier : status.tiers()) {
    table.AddRow({WireTierName(tier.tier()), BytesText(tier.capacity_bytes()),
                  BytesText(tier.used_bytes()), ShareText(tier.used_bytes(), tier.capacity_bytes()),
                  BytesText(tier.pinned_bytes()), CountText(tier.blocks()), CountText(tier.hits()),
                  CountText(tier.misses()), CountText(tier.evictions())});
  }
  return table.ToString();
}

// Returns a line for each GPU, by the name and the UUID that `kvtier gpu resize --device` takes.
std::string GpuLines(const v1::AgentStatusResponse& status) {
  if (status.gpus().empty()) return "";
  Table table({{"GPU"},
               {"UUID"},
               {"TENANT"},
               {"MEMORY", Align::kRight},
               {"TARGET", Align::kRight},
               {"SLOTS", Align::kRight},
               {"FREE", Align::kRight},
               {"WORKERS", Align::kRight}},
              /*indent=*/2);
  for (const v1::GpuReport& gpu : status.gpus()) {
    table.AddRow({gpu.device(), gpu.uuid(), gpu.tenant(), BytesText(gpu.size().bytes()),
                  BytesText(gpu.size().target_bytes()), CountText(gpu.slots()),
                  ShareText(gpu.free_slots(), gpu.slots()), CountText(gpu.workers())});
  }
  return absl::StrCat("\n", table.ToString());
}

std::string RecoveryText(const v1::DiskRecovery& recovery) {
  return absl::StrCat(CountText(recovery.recovered_blocks()), " blocks recovered; dropped ",
                      CountText(recovery.dropped_stale()), " of older generations, ",
                      CountText(recovery.dropped_corrupt()), " damaged, ",
                      CountText(recovery.dropped_misfit()), " outside the disk as configured, ",
                      CountText(recovery.dropped_keyless()), " without a key");
}

std::string WorkerMemoryText(const v1::AgentStatusResponse& status) {
  if (!status.has_staging()) return "direct: workers write the arena";
  const v1::StagingReport& staging = status.staging();
  std::string text =
      absl::StrCat("staged: ", BytesText(staging.session_bytes()), " for each of ",
                   staging.regions(), " sessions, ", BytesText(staging.reserved_bytes()),
                   " being written; copied ", CountText(staging.blocks()), " blocks");
  if (staging.refused_sums() > 0) {
    absl::StrAppend(&text, ", refused ", CountText(staging.refused_sums()),
                    " that were not what their sums said");
  }
  return text;
}

// Returns what became of the blocks that were offered to the disks, without counts of 0.
std::string OffloadText(const v1::OffloadReport& offload) {
  const std::pair<const char*, uint64_t> declined[] = {
      {"not worth it", offload.not_worth_it()}, {"over budget", offload.over_budget()},
      {"behind", offload.declined_behind()},    {"evicted first", offload.evicted()},
      {"altered", offload.altered()},           {"disk full", offload.disk_full()},
      {"disk failed", offload.disk_failed()}};
  std::string text = absl::StrCat(offload.policy(), " at ", offload.moment(), "; wrote ",
                                  CountText(offload.written()), " blocks");
  const char* separator = "; declined ";
  for (const auto& [reason, count] : declined) {
    if (count == 0) continue;
    absl::StrAppend(&text, separator, CountText(count), " ", reason);
    separator = ", ";
  }
  if (offload.waited() > 0)
    absl::StrAppend(&text, "; ", CountText(offload.waited()), " puts waited");
  return text;
}

// Returns the lines, if there are any, with an empty one above them.
std::string Below(const std::string& lines) {
  return lines.empty() ? "" : absl::StrCat("\n", lines);
}

// Returns the lines of one agent. `tenants` are the agent's; nullptr: it does not report them.
std::string AgentLines(const std::string& address, const v1::AgentStatusResponse& status,
                       const v1::ListTenantsResponse* tenants) {
  const std::vector<std::string> complaints = Complaints(status);
  Table facts = Facts();
  facts.AddRow({"health", complaints.empty() ? "ok" : absl::StrJoin(complaints, "; ")});
  facts.AddRow({"version", status.version().build()});
  facts.AddRow({"up", SecondsText(status.uptime_seconds())});
  facts.AddRow({"holds", absl::StrCat(status.sessions(), " sessions, ", status.leases(),
                                      " leases, ", status.reservations(), " reservations, ",
                                      status.tickets(), " tickets, ",
                                      CountText(status.offload_queue()), " blocks to offload")});
  facts.AddRow({"coordinator", CoordinatorText(status)});
  facts.AddRow({"peers", PeersText(status.peers())});
  if (status.has_host_memory()) {
    facts.AddRow({"host memory", HostMemoryText(status.host_memory())});
  }
  facts.AddRow({"worker memory", WorkerMemoryText(status)});
  facts.AddRow({"host scrub", HostScrubText(status.host_scrub())});
  facts.AddRow({"disk I/O", status.disk_io()});
  if (status.has_disk_recovery()) {
    facts.AddRow({"disk start", RecoveryText(status.disk_recovery())});
  }
  if (status.has_offload()) facts.AddRow({"disk writes", OffloadText(status.offload())});
  facts.AddRow({"device", status.device()});
  return absl::StrCat("AGENT  ", Printable(status.node_id()), "  ", address, "\n", facts.ToString(),
                      TierLines(status), Below(SlotSizeLines(status.host_memory())),
                      GpuLines(status), tenants == nullptr ? "" : Below(OccupancyLines(*tenants)));
}

std::string CoordinatorLines(const std::string& address,
                             const v1::CoordinatorStatusResponse& status) {
  uint64_t live = 0;
  for (const v1::NodeReport& node : status.nodes()) live += node.state() == "live" ? 1 : 0;
  const std::vector<std::string> complaints = Complaints(status);
  Table facts = Facts();
  facts.AddRow({"health", complaints.empty() ? "ok" : absl::StrJoin(complaints, "; ")});
  facts.AddRow({"version", status.version().build()});
  facts.AddRow({"up", SecondsText(status.uptime_seconds())});
  facts.AddRow({"nodes", absl::StrCat(live, " live of ", status.nodes_size())});
  facts.AddRow({"directory", absl::StrCat(CountText(status.directory_keys()), " blocks")});
  facts.AddRow({"served", absl::StrCat(CountText(status.locate_requests()), " locates, ",
                                       CountText(status.reports()), " reports, ",
                                       CountText(status.resyncs()), " resyncs")});
  facts.AddRow({"settings", StoreText(status.settings_store(), status.settings_version())});
  return absl::StrCat("COORDINATOR  ", address, "\n", facts.ToString());
}

void WritePeers(const v1::PeerReport& peers, JsonWriter* json) {
  json->OpenObject("peers");
  json->Count("fetched_blocks", peers.fetched_blocks());
  json->Count("fetched_bytes", peers.fetched_bytes());
  json->Count("missed_blocks", peers.missed_blocks());
  json->Count("verify_failures", peers.verify_failures());
  json->Count("served_blocks", peers.served_blocks());
  json->Count("served_bytes", peers.served_bytes());
  json->Count("timeouts", peers.timeouts());
  json->Count("passed_blocks", peers.passed_blocks());
  json->Count("avoided_peers", peers.avoided_peers());
  json->Close();
}

void WriteRecovery(const v1::DiskRecovery& recovery, JsonWriter* json) {
  json->OpenObject("disk_recovery");
  json->Count("recovered_blocks", recovery.recovered_blocks());
  json->Count("dropped_stale", recovery.dropped_stale());
  json->Count("dropped_corrupt", recovery.dropped_corrupt());
  json->Count("dropped_misfit", recovery.dropped_misfit());
  json->Count("dropped_keyless", recovery.dropped_keyless());
  json->Close();
}

void WriteStaging(const v1::AgentStatusResponse& status, JsonWriter* json) {
  json->Text("worker_memory", status.has_staging() ? "staged" : "direct");
  json->OpenObject("staging");
  json->Count("session_bytes", status.staging().session_bytes());
  json->Count("regions", status.staging().regions());
  json->Count("reserved_bytes", status.staging().reserved_bytes());
  json->Count("refused_regions", status.staging().refused_regions());
  json->Count("blocks", status.staging().blocks());
  json->Count("refused_sums", status.staging().refused_sums());
  json->Close();
}

void WriteOffload(const v1::OffloadReport& offload, JsonWriter* json) {
  json->OpenObject("offload");
  json->Text("policy", offload.policy());
  json->Text("moment", offload.moment());
  json->Count("written", offload.written());
  json->Count("not_worth_it", offload.not_worth_it());
  json->Count("over_budget", offload.over_budget());
  json->Count("declined_behind", offload.declined_behind());
  json->Count("evicted", offload.evicted());
  json->Count("altered", offload.altered());
  json->Count("disk_full", offload.disk_full());
  json->Count("disk_failed", offload.disk_failed());
  json->Count("waited", offload.waited());
  json->Count("waiting", offload.waiting());
  json->Count("promised_bytes", offload.promised_bytes());
  json->Flag("behind", offload.behind());
  json->Close();
}

void WriteVersion(const v1::ProtocolVersion& version, JsonWriter* json) {
  json->Text("build", version.build());
  json->Count("protocol_version", version.version());
  json->Count("protocol_min_version", version.min_version());
}

void WriteAgent(const v1::AgentStatusResponse& status, JsonWriter* json) {
  json->Text("node_id", status.node_id());
  json->Text("node_epoch", EpochText(status.node_epoch()));
  json->Text("health", absl::StrJoin(Complaints(status), "; "));
  WriteVersion(status.version(), json);
  json->Seconds("uptime_seconds", status.uptime_seconds());
  json->Count("sessions", status.sessions());
  json->Count("leases", status.leases());
  json->Count("reservations", status.reservations());
  json->Count("tickets", status.tickets());
  json->Count("ticket_blocks", status.ticket_blocks());
  json->Count("offload_queue_blocks", status.offload_queue());
  json->Text("told_address", status.told_address());
  json->OpenObject("coordinator");
  json->Text("address", status.coordinator_address());
  json->Flag("connected", status.coordinator_connected());
  json->Seconds("silence_seconds", status.coordinator_silence_seconds());
  json->Text("refusal", status.coordinator_refusal());
  json->Flag("settings_differ", status.coordinator_settings_differ());
  json->Close();
  WritePeers(status.peers(), json);
  WriteHostMemory(status.host_memory(), json);
  WriteStaging(status, json);
  WriteHostScrub(status.host_scrub(), json);
  json->Text("disk_io", status.disk_io());
  WriteRecovery(status.disk_recovery(), json);
  WriteOffload(status.offload(), json);
  json->Text("device", status.device());
  json->Count("altered_blocks", status.altered_blocks());
  json->Count("deadline_misses", status.deadline_misses());
  WriteTiers(status, json);
}

void WriteCoordinator(const v1::CoordinatorStatusResponse& status, JsonWriter* json) {
  json->Text("coordinator_epoch", EpochText(status.coordinator_epoch()));
  json->Text("health", absl::StrJoin(Complaints(status), "; "));
  WriteVersion(status.version(), json);
  json->Seconds("uptime_seconds", status.uptime_seconds());
  json->Count("nodes", static_cast<uint64_t>(status.nodes_size()));
  json->Count("directory_keys", status.directory_keys());
  json->Count("locate_requests", status.locate_requests());
  json->Count("reports", status.reports());
  json->Count("resyncs", status.resyncs());
  json->Count("refused_keys", status.refused_keys());
  json->Count("refused_holders", status.refused_holders());
  json->Count("refused_nodes", status.refused_nodes());
  WriteStore(status.settings_store(), status.settings_version(), json);
}

// Asks each agent that answered for its tenants. Leaves out agents that do not report them, as over
// TCP.
std::map<std::string, v1::ListTenantsResponse> AskTenants(const Arguments& arguments,
                                                          const AgentAnswers& agents) {
  std::vector<std::string> there;
  for (const auto& [address, response] : agents) {
    if (response.ok()) there.push_back(address);
  }
  std::map<std::string, v1::ListTenantsResponse> tenants;
  for (auto& [address, response] :
       AskAll<v1::ListTenantsResponse>(there, [&](const std::string& address) {
         return AgentAdmin(address, arguments.timeout).ListTenants();
       })) {
    if (response.ok()) tenants[address] = *std::move(response);
  }
  return tenants;
}

}  // namespace

std::vector<std::string> Complaints(const v1::AgentStatusResponse& status) {
  std::vector<std::string> complaints;
  if (status.altered_blocks() > 0) {
    complaints.push_back(absl::StrCat(CountText(status.altered_blocks()),
                                      " host blocks altered by a worker after commit"));
  }
  if (status.staging().refused_regions() > 0) {
    complaints.push_back(absl::StrCat(CountText(status.staging().refused_regions()),
                                      " sessions got no memory to stage in and can put nothing"));
  }
  if (status.disk_recovery().dropped_corrupt() > 0) {
    complaints.push_back(absl::StrCat(CountText(status.disk_recovery().dropped_corrupt()),
                                      " damaged manifest values dropped at start"));
  }
  for (const v1::DiskReport& disk : status.disks()) {
    if (!disk.serving()) {
      complaints.push_back(
          absl::StrCat("disk ", disk.directory(), " out of service: ", disk.health()));
    } else if (disk.health() != kHealthyDisk) {
      complaints.push_back(absl::StrCat("disk ", disk.directory(), ": ", disk.health()));
    }
  }
  if (const v1::OffloadReport& offload = status.offload(); offload.behind()) {
    complaints.push_back(absl::StrCat("disk behind: ", BytesText(offload.promised_bytes()),
                                      " to write, ", CountText(offload.waiting()), " puts wait, ",
                                      CountText(offload.declined_behind()),
                                      " blocks refused so far"));
  }
  for (const v1::TierReport& tier : status.tiers()) {
    const std::string name = WireTierName(tier.tier());
    if (tier.verify_failures() > 0) {
      complaints.push_back(
          absl::StrCat(CountText(tier.verify_failures()), " blocks quarantined on ", name));
    }
    if (tier.io_errors() > 0) {
      complaints.push_back(absl::StrCat(CountText(tier.io_errors()), " I/O errors on ", name));
    }
  }
  if (status.peers().verify_failures() > 0) {
    complaints.push_back(
        absl::StrCat(CountText(status.peers().verify_failures()), " wrong blocks from peers"));
  }
  if (status.peers().avoided_peers() > 0) {
    complaints.push_back(
        absl::StrCat(CountText(status.peers().avoided_peers()), " peers avoided, they failed"));
  }
  if (!status.coordinator_refusal().empty()) {
    complaints.push_back(absl::StrCat("coordinator refuses this node, only local hits: ",
                                      Printable(status.coordinator_refusal())));
  } else if (!status.coordinator_address().empty() && !status.coordinator_connected()) {
    complaints.emplace_back("coordinator silent, only local hits");
  }
  if (status.coordinator_settings_differ()) {
    complaints.emplace_back(
        "the coordinator lacks the settings of tenants that this node follows, see kvtier nodes");
  }
  if (TellsLoopback(status)) {
    complaints.push_back(absl::StrCat("other nodes are told the address ",
                                      Printable(status.told_address()),
                                      ", at which they find themselves: set --advertise"));
  }
  return complaints;
}

std::string StatusTable(const StatusReport& report) {
  std::vector<std::string> parts;
  for (const auto& [address, response] : report.agents) {
    const auto tenants = report.tenants.find(address);
    parts.push_back(response.ok()
                        ? AgentLines(address, *response,
                                     tenants == report.tenants.end() ? nullptr : &tenants->second)
                        : absl::StrCat("AGENT  ", address, "\n  health  ",
                                       FailureText(response.status()), "\n"));
  }
  if (report.coordinator) {
    const auto& [address, response] = *report.coordinator;
    parts.push_back(response.ok() ? CoordinatorLines(address, *response)
                                  : absl::StrCat("COORDINATOR  ", address, "\n  health  ",
                                                 FailureText(response.status()), "\n"));
  }
  return absl::StrJoin(parts, "\n");
}

std::string StatusJson(const StatusReport& report) {
  JsonWriter json;
  json.OpenArray("agents");
  for (const auto& [address, response] : report.agents) {
    json.OpenElement();
    json.Text("address", address);
    if (response.ok()) {
      WriteAgent(*response, &json);
      const auto tenants = report.tenants.find(address);
      if (tenants != report.tenants.end()) WriteOccupancy(tenants->second, &json);
    } else {
      json.Text("error", FailureText(response.status()));
    }
    json.Close();
  }
  json.Close();
  if (report.coordinator) {
    const auto& [address, response] = *report.coordinator;
    json.OpenObject("coordinator");
    json.Text("address", address);
    if (response.ok()) {
      WriteCoordinator(*response, &json);
    } else {
      json.Text("error", FailureText(response.status()));
    }
    json.Close();
  }
  return json.Finish();
}

Outcome RunStatus(const Arguments& arguments) {
  StatusReport report;
  report.agents = AskAgents(arguments);
  report.tenants = AskTenants(arguments, report.agents);
  if (arguments.coordinator) {
    report.coordinator = {*arguments.coordinator,
                          CoordinatorAdmin(*arguments.coordinator, arguments.timeout).Status()};
  }
  Verdict verdict;
  for (const auto& answer : report.agents) verdict.Add(answer);
  if (report.coordinator) verdict.Add(*report.coordinator);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? StatusJson(report) : StatusTable(report)};
}

}  // namespace kvtier::cli

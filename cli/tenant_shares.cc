#include "cli/tenant_shares.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/tenant_question.h"
#include "cli/units.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "core/tenant_settings.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"

namespace kvtier::cli {
namespace {

std::string SharesLines(const v1::TenantReport& tenant) {
  Table table({{"TIER"},
               {"GUARANTEED", Align::kRight},
               {"MAXIMUM", Align::kRight},
               {"WEIGHT", Align::kRight}},
              /*indent=*/2);
  for (const v1::TierShareReport& share : tenant.shares()) {
    const absl::StatusOr<Tier> tier = convert::TierFrom(share.tier(), "tier");
    table.AddRow({tier.ok() ? TierName(*tier) : "?", BytesText(share.guaranteed_bytes()),
                  share.has_maximum_bytes() ? BytesText(share.maximum_bytes()) : "-",
                  CountText(share.weight())});
  }
  return tenant.shares().empty() ? "" : table.ToString();
}

// NumberShare is what a tenant has of a number that all tenants of a node share.
struct NumberShare {
  const char* name;
  const v1::TenantShare* share;
  std::string (*text)(uint64_t);
};

// Returns the numbers that were reported: a coordinator reports none, and an agent without a disk
// reports no loads.
std::vector<NumberShare> NumbersOf(const v1::TenantReport& tenant) {
  std::vector<NumberShare> numbers;
  const auto add = [&](bool told, const NumberShare& number) {
    if (told) numbers.push_back(number);
  };
  add(tenant.has_sessions(), {"sessions", &tenant.sessions(), CountText});
  add(tenant.has_leases(), {"leases", &tenant.leases(), CountText});
  add(tenant.has_reservations(), {"reservations", &tenant.reservations(), CountText});
  add(tenant.has_call_bytes(), {"call_bytes", &tenant.call_bytes(), BytesText});
  add(tenant.has_loads(), {"loads", &tenant.loads(), CountText});
  add(tenant.has_fetches(), {"fetches", &tenant.fetches(), CountText});
  return numbers;
}

std::string NumbersLines(const v1::TenantReport& tenant) {
  Table table({{"OF THE NODE'S"},
               {"HAS", Align::kRight},
               {"GUARANTEED", Align::kRight},
               {"LIMIT", Align::kRight},
               {"REFUSED", Align::kRight}},
              /*indent=*/2);
  const std::vector<NumberShare> numbers = NumbersOf(tenant);
  for (const NumberShare& number : numbers) {
    table.AddRow({number.name, number.text(number.share->used()),
                  number.text(number.share->guaranteed()), number.text(number.share->limit()),
                  CountText(number.share->refused())});
  }
  return numbers.empty() ? "" : table.ToString();
}

// Returns a line about the sequences that workers swapped out; nothing without a GPU pool.
std::string SwapLine(const v1::TenantReport& tenant) {
  if (!tenant.has_swap()) return "";
  const v1::TenantSwap& swap = tenant.swap();
  return absl::StrCat(
      "  swapped out: ", CountText(swap.sequences()), " sequences, ", CountText(swap.blocks()),
      " blocks, ", BytesText(swap.bytes()), " of ", BytesText(swap.quota_bytes()),
      "; since the start ", CountText(swap.swapped_out()), " out, ", CountText(swap.swapped_in()),
      " in, ", CountText(swap.refused()), " refused, ", CountText(swap.dropped()), " dropped\n");
}

// Returns a line about the prefixes that the tenant keeps; nothing of a coordinator.
std::string PinsLine(const v1::TenantReport& tenant) {
  if (!tenant.has_kept()) return "";
  return absl::StrCat("  pins: ", CountText(tenant.kept().prefixes()), ", ",
                      BytesText(tenant.kept().bytes()), "; since the start ",
                      CountText(tenant.refused_pins()), " refused, or kept in part\n");
}

// Returns a line that says why the tenant can do nothing on an agent; nothing if it can.
std::string NoSecretLine(const v1::SetTenantResponse& response) {
  // A coordinator, which has no node_id, never has secrets.
  const v1::TenantReport& tenant = response.tenant();
  if (response.node_id().empty() || tenant.state() != "settings") return "";
  return absl::StrCat("  ", Printable(tenant.name()), " has settings and no secret on this node: ",
                      "it is made when its secret is there (--secret_file)\n");
}

// Returns a line about what became of the blocks that the tenant's workers asked for.
std::string HitsLine(const v1::TenantReport& tenant) {
  if (!tenant.has_hits()) return "";
  const v1::TenantHits& hits = tenant.hits();
  return absl::StrCat("  blocks asked for, since the start: ", CountText(hits.gpu()),
                      " in GPU pools, ", CountText(hits.host()), " in host memory, ",
                      CountText(hits.disk()), " on disk, ", CountText(hits.peer()),
                      " on other nodes, ", CountText(hits.misses()), " nowhere\n");
}

void WriteSwap(const v1::TenantSwap& swap, JsonWriter* json) {
  json->OpenObject("swap");
  json->Count("sequences", swap.sequences());
  json->Count("blocks", swap.blocks());
  json->Count("bytes", swap.bytes());
  json->Count("quota_bytes", swap.quota_bytes());
  json->Count("swapped_out", swap.swapped_out());
  json->Count("swapped_in", swap.swapped_in());
  json->Count("refused", swap.refused());
  json->Count("dropped", swap.dropped());
  json->Close();
}

std::string TenantLines(const v1::SetTenantResponse& response) {
  const v1::TenantReport& tenant = response.tenant();
  return absl::StrCat("  ", Printable(tenant.name()), " (", Printable(tenant.state()),
                      "): ", SettingsText(tenant.settings()),
                      ", said by: ", Printable(tenant.settings_source()), "\n", SharesLines(tenant),
                      NumbersLines(tenant), HitsLine(tenant), PinsLine(tenant), SwapLine(tenant),
                      NoSecretLine(response),
                      "  version of the cluster's settings: ", response.settings_version(), "\n");
}

// Returns the heading of a section: an agent has a name, a coordinator none.
std::string Heading(const std::string& node_id, const std::string& address) {
  if (node_id.empty()) return absl::StrCat("COORDINATOR  ", address);
  return absl::StrCat("AGENT  ", Printable(node_id), "  ", address);
}

void WriteShares(const v1::TenantReport& tenant, JsonWriter* json) {
  json->OpenArray("shares");
  for (const v1::TierShareReport& share : tenant.shares()) {
    const absl::StatusOr<Tier> tier = convert::TierFrom(share.tier(), "tier");
    json->OpenElement();
    json->Text("tier", tier.ok() ? TierName(*tier) : "?");
    json->Count("guaranteed_bytes", share.guaranteed_bytes());
    if (share.has_maximum_bytes()) {
      json->Count("maximum_bytes", share.maximum_bytes());
    } else {
      json->Null("maximum_bytes");
    }
    json->Count("weight", share.weight());
    json->Close();
  }
  json->Close();
}

void WriteNumbers(const v1::TenantReport& tenant, JsonWriter* json) {
  json->OpenObject("numbers");
  for (const NumberShare& number : NumbersOf(tenant)) {
    json->OpenObject(number.name);
    json->Count("used", number.share->used());
    json->Count("guaranteed", number.share->guaranteed());
    json->Count("limit", number.share->limit());
    json->Count("refused", number.share->refused());
    json->Close();
  }
  json->Close();
}

// Asks the coordinator where one is named, else every agent. Both of `ask` take an address.
template <typename Response, typename OfAgent, typename OfCoordinator>
std::vector<Answer<Response>> Ask(const Arguments& arguments, OfAgent of_agent,
                                  OfCoordinator of_coordinator) {
  if (!arguments.coordinator.has_value()) return AskAll<Response>(arguments.agents, of_agent);
  return AskAll<Response>({*arguments.coordinator}, of_coordinator);
}

// Returns the part of the answer that is about the tenant. Errors: kNotFound.
absl::StatusOr<v1::SetTenantResponse> Only(const std::string& name,
                                           absl::StatusOr<v1::ListTenantsResponse> all) {
  KVT_RETURN_IF_ERROR(all.status());
  v1::SetTenantResponse one;
  one.set_node_id(all->node_id());
  one.set_settings_version(all->settings_version());
  for (const v1::TenantReport& tenant : all->tenants()) {
    if (tenant.name() != name) continue;
    *one.mutable_tenant() = tenant;
    return one;
  }
  return absl::NotFoundError(absl::StrCat("no tenant is called '", name, "'"));
}

Outcome OutcomeOf(const Arguments& arguments, const TenantAnswer& answers) {
  Verdict verdict;
  for (const auto& answer : answers) verdict.Add(answer);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? TenantJson(answers) : TenantTable(answers)};
}

}  // namespace

void WriteHits(const v1::TenantHits& hits, JsonWriter* json) {
  json->OpenObject("hits");
  json->Count("gpu", hits.gpu());
  json->Count("host", hits.host());
  json->Count("disk", hits.disk());
  json->Count("peer", hits.peer());
  json->Count("misses", hits.misses());
  json->Close();
}

uint64_t ThrottledOf(const v1::TenantReport& tenant) {
  uint64_t refused = tenant.swap().refused() + tenant.refused_pins();
  for (const NumberShare& number : NumbersOf(tenant)) refused += number.share->refused();
  return refused;
}

std::string MembersText(const v1::TenantSettings& settings) {
  if (settings.members().empty()) return "";
  const absl::StatusOr<TenantChange> said = convert::TenantChangeFrom(settings);
  if (!said.ok()) return "?";
  std::string text;
  for (const TenantChange::Member& member : said->members) {
    if (!member.access.has_value()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ",", member.tenant, ":", AccessName(*member.access));
  }
  return text;
}

void WriteMembers(const v1::TenantSettings& settings, JsonWriter* json) {
  const absl::StatusOr<TenantChange> said = convert::TenantChangeFrom(settings);
  if (!said.ok() || said->members.empty()) return;
  json->OpenObject("members");
  for (const TenantChange::Member& member : said->members) {
    if (member.access.has_value()) {
      json->Text(member.tenant, AccessName(*member.access));
    }
  }
  json->Close();
}

std::string SettingsText(const v1::TenantSettings& settings) {
  const absl::StatusOr<TenantChange> said = convert::TenantChangeFrom(settings);
  if (!said.ok()) return "?";
  std::string text;
  for (const TenantChange::Value& value : said->values) {
    if (!value.value.has_value()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", SettingName(value.tier, value.field), "=",
                    *value.value);
  }
  const std::string members = MembersText(settings);
  if (!members.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", "members=", members);
  return text.empty() ? "nothing" : text;
}

void WriteSettings(const v1::TenantSettings& settings, JsonWriter* json) {
  json->OpenObject("settings");
  const absl::StatusOr<TenantChange> said = convert::TenantChangeFrom(settings);
  if (said.ok()) {
    for (const TenantChange::Value& value : said->values) {
      if (value.value.has_value()) json->Count(SettingName(value.tier, value.field), *value.value);
    }
    WriteMembers(settings, json);
  }
  json->Close();
}

std::string TenantTable(const TenantAnswer& answers) {
  std::string out;
  for (const auto& [address, response] : answers) {
    if (!out.empty()) out += "\n";
    if (response.ok()) {
      absl::StrAppend(&out, Heading(response->node_id(), address), "\n", TenantLines(*response));
    } else {
      absl::StrAppend(&out, address, "  ", FailureText(response.status()), "\n");
    }
  }
  return out;
}

std::string TenantJson(const TenantAnswer& answers) {
  return AgentsJson(answers, [](const v1::SetTenantResponse& response, JsonWriter* json) {
    const v1::TenantReport& tenant = response.tenant();
    json->Text("node_id", response.node_id());
    json->Text("tenant", tenant.name());
    json->Text("state", tenant.state());
    json->Text("settings_source", tenant.settings_source());
    json->Count("settings_version", response.settings_version());
    WriteSettings(tenant.settings(), json);
    WriteShares(tenant, json);
    WriteNumbers(tenant, json);
    if (tenant.has_kept()) json->Count("refused_pins", tenant.refused_pins());
    if (tenant.has_hits()) WriteHits(tenant.hits(), json);
    if (tenant.has_swap()) WriteSwap(tenant.swap(), json);
  });
}

std::string DropTenantTable(const DropTenantAnswers& answers) {
  Table table({{"ASKED"},
               {"SESSIONS ENDED", Align::kRight},
               {"ON DISK", Align::kRight},
               {"IN MEMORY", Align::kRight},
               {"STILL HELD", Align::kRight},
               {"SETTINGS"},
               {""}});
  for (const auto& [address, response] : answers) {
    if (!response.ok()) {
      table.AddRow({address, "-", "-", "-", "-", "-", FailureText(response.status())});
      continue;
    }
    table.AddRow({address, CountText(response->sessions()), CountText(response->disk_blocks()),
                  CountText(response->memory_blocks()), BytesText(response->held_bytes()),
                  response->had_settings() ? "removed" : "none",
                  response->held_bytes() == 0 ? "" : "erased when it is released"});
  }
  return table.ToString();
}

std::string DropTenantJson(const DropTenantAnswers& answers) {
  return AgentsJson(answers, [](const v1::DropTenantResponse& response, JsonWriter* json) {
    json->Text("node_id", response.node_id());
    json->Count("sessions", response.sessions());
    json->Count("disk_blocks", response.disk_blocks());
    json->Count("memory_blocks", response.memory_blocks());
    json->Count("held_bytes", response.held_bytes());
    json->Flag("had_settings", response.had_settings());
  });
}

Outcome RunDescribeTenant(const Arguments& arguments) {
  const std::string& name = arguments.tenant.change.name;
  const auto answers = Ask<v1::SetTenantResponse>(
      arguments,
      [&](const std::string& address) {
        return Only(name, AgentAdmin(address, arguments.timeout).ListTenants());
      },
      [&](const std::string& address) {
        return Only(name, CoordinatorAdmin(address, arguments.timeout).ListTenants());
      });
  return OutcomeOf(arguments, answers);
}

Outcome RunSetTenant(const Arguments& arguments) {
  v1::SetTenantRequest request;
  *request.mutable_settings() = convert::ToWire(arguments.tenant.change);
  if (!arguments.tenant.secret_file.empty()) {
    absl::StatusOr<std::string> secret = ReadSecret(arguments.tenant.secret_file);
    if (!secret.ok()) {
      return {.code = ExitCode::kUsage,
              .err = absl::StrCat("kvtier: ", secret.status().message(), "\n")};
    }
    request.set_secret(*std::move(secret));
  }
  const auto answers = Ask<v1::SetTenantResponse>(
      arguments,
      [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).SetTenant(request);
      },
      [&](const std::string& address) {
        return CoordinatorAdmin(address, arguments.timeout).SetTenant(request);
      });
  return OutcomeOf(arguments, answers);
}

Outcome RunDropTenant(const Arguments& arguments) {
  KVT_CHECK(arguments.yes);
  v1::DropTenantRequest request;
  request.set_tenant(arguments.tenant.change.name);
  const auto answers = Ask<v1::DropTenantResponse>(
      arguments,
      [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).DropTenant(request);
      },
      [&](const std::string& address) {
        return CoordinatorAdmin(address, arguments.timeout).DropTenant(request);
      });
  // The tenant need not have been on every node.
  const auto knew = [](const v1::DropTenantResponse&) { return true; };
  return {.code = CodeWhereOneHas(answers, knew),
          .out = arguments.format == Format::kJson ? DropTenantJson(answers)
                                                   : DropTenantTable(answers)};
}

}  // namespace kvtier::cli

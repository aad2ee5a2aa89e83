#include "cli/pins.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/check.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

std::string PinLines(const v1::ListTenantsKeptResponse& response) {
  Table table({{"TENANT"},
               {"PIN", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"BYTES", Align::kRight},
               {"TIME LEFT", Align::kRight}},
              /*indent=*/2);
  bool any = false;
  for (const v1::TenantKept& tenant : response.tenants()) {
    for (const v1::KeptPrefix& prefix : tenant.prefixes()) {
      any = true;
      table.AddRow({tenant.tenant(), absl::StrCat(prefix.id()), CountText(prefix.blocks()),
                    BytesText(prefix.bytes()), SecondsText(prefix.ttl_left_ms() / 1e3)});
    }
  }
  return any ? table.ToString() : "";
}

// Returns what each tenant has of its quota.
std::string QuotaLines(const v1::ListTenantsKeptResponse& response) {
  std::string lines;
  for (const v1::TenantKept& tenant : response.tenants()) {
    const v1::KeptUse& used = tenant.used();
    const v1::KeptUse& quota = tenant.quota();
    absl::StrAppend(&lines, "  ", Printable(tenant.tenant()), ": ", CountText(used.prefixes()),
                    " of ", CountText(quota.prefixes()), " pins, ", CountText(used.blocks()),
                    " of ", CountText(quota.blocks()), " blocks, ", BytesText(used.bytes()), " of ",
                    BytesText(quota.bytes()), "\n");
  }
  return lines;
}

void WriteUse(const char* name, const v1::KeptUse& use, JsonWriter* json) {
  json->OpenObject(name);
  json->Count("pins", use.prefixes());
  json->Count("blocks", use.blocks());
  json->Count("bytes", use.bytes());
  json->Close();
}

// Returns whether blocks of the prefix were or are in a tier of the agent.
bool HadBlocks(const v1::DropPrefixResponse& response) {
  return response.deleted_blocks() > 0 || response.held_blocks() > 0 || response.more();
}

// Returns whether blocks of the prefix are left, so that it is to be dropped again.
bool HasBlocksLeft(const v1::DropPrefixResponse& response) {
  return response.held_blocks() > 0 || response.more();
}

}  // namespace

std::string PinsTable(const PinsAnswers& answers) {
  return AgentSections(answers, [](const v1::ListTenantsKeptResponse& response) {
    return absl::StrCat(PinLines(response), QuotaLines(response));
  });
}

std::string PinsJson(const PinsAnswers& answers) {
  return AgentsJson(answers, [](const v1::ListTenantsKeptResponse& response, JsonWriter* json) {
    json->Text("node_id", response.node_id());
    json->OpenArray("tenants");
    for (const v1::TenantKept& tenant : response.tenants()) {
      json->OpenElement();
      json->Text("name", tenant.tenant());
      json->OpenArray("pins");
      for (const v1::KeptPrefix& prefix : tenant.prefixes()) {
        json->OpenElement();
        json->Count("id", prefix.id());
        json->Count("blocks", prefix.blocks());
        json->Count("bytes", prefix.bytes());
        json->Seconds("left_seconds", prefix.ttl_left_ms() / 1e3);
        json->Close();
      }
      json->Close();
      WriteUse("used", tenant.used(), json);
      WriteUse("quota", tenant.quota(), json);
      json->Close();
    }
    json->Close();
  });
}

std::string EndedTable(const EndedAnswers& answers) {
  Table table({{"AGENT"}, {"DROPPED PINS", Align::kRight}, {""}});
  for (const auto& [address, response] : answers) {
    if (response.ok()) {
      table.AddRow({address, CountText(response->ended_prefixes()),
                    response->ended_prefixes() > 0 ? "" : "there was none"});
    } else {
      table.AddRow({address, "-", FailureText(response.status())});
    }
  }
  return table.ToString();
}

std::string EndedJson(const EndedAnswers& answers) {
  return AgentsJson(answers, [](const v1::EndTenantKeptResponse& response, JsonWriter* json) {
    json->Count("dropped_pins", response.ended_prefixes());
  });
}

std::string DroppedTable(const DroppedAnswers& answers) {
  Table table({{"AGENT"}, {"DROPPED", Align::kRight}, {"STILL HELD", Align::kRight}, {""}});
  for (const auto& [address, response] : answers) {
    if (!response.ok()) {
      table.AddRow({address, "-", "-", FailureText(response.status())});
      continue;
    }
    table.AddRow({address, CountText(response->deleted_blocks()),
                  CountText(response->held_blocks()),
                  response->more()              ? "more is here: drop again"
                  : response->held_blocks() > 0 ? "drop again when they are released"
                  : HadBlocks(*response)        ? ""
                                                : "there was none"});
  }
  return table.ToString();
}

std::string DroppedJson(const DroppedAnswers& answers) {
  return AgentsJson(answers, [](const v1::DropPrefixResponse& response, JsonWriter* json) {
    json->Count("dropped_blocks", response.deleted_blocks());
    json->Count("held_blocks", response.held_blocks());
    json->Flag("more", response.more());
  });
}

Outcome RunPinsList(const Arguments& arguments) {
  v1::ListTenantsKeptRequest request;
  request.set_tenant(arguments.pins_tenant);
  const PinsAnswers answers =
      AskAll<v1::ListTenantsKeptResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).ListTenantsKept(request);
      });
  Verdict verdict;
  for (const auto& answer : answers) verdict.Add(answer);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? PinsJson(answers) : PinsTable(answers)};
}

Outcome RunPinsDrop(const Arguments& arguments) {
  KVT_CHECK(!arguments.pins_tenant.empty());
  v1::EndTenantKeptRequest request;
  request.set_tenant(arguments.pins_tenant);
  request.set_kept_id(arguments.pin);
  const EndedAnswers answers =
      AskAll<v1::EndTenantKeptResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).EndTenantKept(request);
      });
  const auto had = [](const v1::EndTenantKeptResponse& response) {
    return response.ended_prefixes() > 0;
  };
  return {.code = CodeWhereOneHas(answers, had),
          .out = arguments.format == Format::kJson ? EndedJson(answers) : EndedTable(answers)};
}

Outcome RunPrefixDrop(const Arguments& arguments) {
  KVT_CHECK(arguments.engine_name && arguments.yes);
  v1::DropPrefixRequest request;
  request.set_tenant(arguments.engine_name->tenant);
  request.set_space_digest(convert::ToWire(arguments.engine_name->space));
  request.set_engine_key(std::string(arguments.engine_name->key.bytes()));
  const DroppedAnswers answers =
      AskAll<v1::DropPrefixResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).DropPrefix(request);
      });
  const ExitCode code = CodeWhereOneHas(answers, HadBlocks);
  const bool is_whole = std::ranges::none_of(answers, [](const auto& answer) {
    return answer.response.ok() && HasBlocksLeft(*answer.response);
  });
  return {.code = code == ExitCode::kOk && !is_whole ? ExitCode::kFailed : code,
          .out = arguments.format == Format::kJson ? DroppedJson(answers) : DroppedTable(answers)};
}

}  // namespace kvtier::cli

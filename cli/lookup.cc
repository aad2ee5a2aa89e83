#include "cli/lookup.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/tiers.h"
#include "cli/units.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

v1::LookupRequest RequestOf(const Arguments& arguments) {
  v1::LookupRequest request;
  if (arguments.block_key) {
    request.set_block_key(convert::ToWire(*arguments.block_key));
  } else {
    const EngineName& name = *arguments.engine_name;
    request.set_tenant(name.tenant);
    request.set_space_digest(convert::ToWire(name.space));
    request.set_engine_key(std::string(name.key.bytes()));
  }
  return request;
}

// Asks the coordinator, which knows no tenant's key, by the name that an agent made.
Answer<v1::LookupResponse> AskCoordinator(const Arguments& arguments, const LookupAnswers& agents) {
  Answer<v1::LookupResponse> answer{.address = *arguments.coordinator};
  v1::LookupRequest request;
  for (const auto& agent : agents) {
    if (agent.response.ok() && !agent.response->peer_name().empty()) {
      request.set_peer_name(agent.response->peer_name());
    }
  }
  if (request.peer_name().empty()) {
    answer.response = absl::FailedPreconditionError(
        "the coordinator knows blocks by names that only an agent of their tenant makes, and none "
        "did; see their answers, or give --agent, and --tenant with --space-digest and "
        "--engine-key");
    return answer;
  }
  answer.response = CoordinatorAdmin(*arguments.coordinator, arguments.timeout).Lookup(request);
  return answer;
}

std::string KeyOf(const LookupAnswers& answers) {
  for (const auto& answer : answers) {
    if (answer.response.ok() && !answer.response->block_key().empty()) {
      return absl::BytesToHexString(answer.response->block_key());
    }
  }
  return "";
}

}  // namespace

std::string LookupTable(const LookupAnswers& answers) {
  Table table({{"SAYS"}, {"NODE"}, {"TIER"}, {"LENGTH", Align::kRight}});
  for (const auto& [address, response] : answers) {
    if (!response.ok()) {
      table.AddRow({address, FailureText(response.status()), "", ""});
    } else if (response->copies().empty()) {
      table.AddRow({address, "nobody", "", ""});
    } else {
      for (const v1::LookupResponse::Copy& copy : response->copies()) {
        table.AddRow({address, copy.node_id(), WireTierName(copy.tier()),
                      copy.length() == 0 ? "?" : BytesText(copy.length())});
      }
    }
  }
  return absl::StrCat("BLOCK  ", KeyOf(answers), "\n", table.ToString());
}

std::string LookupJson(const LookupAnswers& answers) {
  JsonWriter json;
  json.Text("block_key", KeyOf(answers));
  json.OpenArray("answers");
  for (const auto& [address, response] : answers) {
    json.OpenElement();
    json.Text("address", address);
    if (!response.ok()) {
      json.Text("error", FailureText(response.status()));
    } else {
      json.OpenArray("copies");
      for (const v1::LookupResponse::Copy& copy : response->copies()) {
        json.OpenElement();
        json.Text("node_id", copy.node_id());
        json.Text("tier", WireTierName(copy.tier()));
        json.Count("length_bytes", copy.length());
        json.Close();
      }
      json.Close();
    }
    json.Close();
  }
  json.Close();
  return json.Finish();
}

Outcome RunLookup(const Arguments& arguments) {
  const v1::LookupRequest request = RequestOf(arguments);
  LookupAnswers answers =
      AskAll<v1::LookupResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).Lookup(request);
      });
  if (arguments.coordinator) answers.push_back(AskCoordinator(arguments, answers));
  const auto has = [](const v1::LookupResponse& response) { return !response.copies().empty(); };
  return {.code = CodeWhereOneHas(answers, has),
          .out = arguments.format == Format::kJson ? LookupJson(answers) : LookupTable(answers)};
}

}  // namespace kvtier::cli

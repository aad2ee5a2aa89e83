#include "cli/evict.h"

#include "cli/admin_client.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/check.h"
#include "proto/convert.h"

namespace kvtier::cli {

std::string EvictTable(const EvictAnswers& answers) {
  Table table({{"AGENT"}, {"EVICTED", Align::kRight}, {"STILL HELD", Align::kRight}, {""}});
  for (const auto& [address, response] : answers) {
    if (response.ok()) {
      table.AddRow(
          {address, CountText(response->evicted_blocks()), CountText(response->held_blocks()), ""});
    } else {
      table.AddRow({address, "-", "-", FailureText(response.status())});
    }
  }
  return table.ToString();
}

std::string EvictJson(const EvictAnswers& answers) {
  return AgentsJson(answers, [](const v1::EvictTierResponse& response, JsonWriter* json) {
    json->Count("evicted_blocks", response.evicted_blocks());
    json->Count("held_blocks", response.held_blocks());
  });
}

Outcome RunEvict(const Arguments& arguments) {
  KVT_CHECK(arguments.tier && arguments.yes);
  v1::EvictTierRequest request;
  request.set_tier(convert::ToWire(*arguments.tier));
  const EvictAnswers answers =
      AskAll<v1::EvictTierResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).EvictTier(request);
      });
  Verdict verdict;
  for (const auto& answer : answers) verdict.Add(answer);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? EvictJson(answers) : EvictTable(answers)};
}

}  // namespace kvtier::cli

#include "cli/erase_tenant.h"

#include <algorithm>

#include "cli/admin_client.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/check.h"

namespace kvtier::cli {

std::string EraseTenantTable(const EraseTenantAnswers& answers) {
  Table table({{"AGENT"},
               {"ON DISK", Align::kRight},
               {"IN MEMORY", Align::kRight},
               {"STILL HELD", Align::kRight},
               {""}});
  for (const auto& [address, response] : answers) {
    if (response.ok()) {
      table.AddRow({address, CountText(response->disk_blocks()),
                    CountText(response->memory_blocks()), CountText(response->held_blocks()),
                    response->held_blocks() == 0 ? "" : "erase again when they are released"});
    } else if (absl::IsNotFound(response.status())) {
      table.AddRow({address, "0", "0", "0", "not known here"});
    } else {
      table.AddRow({address, "-", "-", "-", FailureText(response.status())});
    }
  }
  return table.ToString();
}

std::string EraseTenantJson(const EraseTenantAnswers& answers) {
  return AgentsJson(answers, [](const v1::EraseTenantResponse& response, JsonWriter* json) {
    json->Count("disk_blocks", response.disk_blocks());
    json->Count("memory_blocks", response.memory_blocks());
    json->Count("held_blocks", response.held_blocks());
  });
}

Outcome RunEraseTenant(const Arguments& arguments) {
  KVT_CHECK(!arguments.erased_tenant.empty() && arguments.yes);
  v1::EraseTenantRequest request;
  request.set_tenant(arguments.erased_tenant);
  const EraseTenantAnswers answers =
      AskAll<v1::EraseTenantResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).EraseTenant(request);
      });
  // It is enough that one node knew the tenant, which need not have been on every node.
  const bool known =
      std::ranges::any_of(answers, [](const auto& answer) { return answer.response.ok(); });
  Verdict verdict;
  for (const auto& answer : answers) {
    const bool nothing_to_do = known && absl::IsNotFound(answer.response.status());
    verdict.Add(nothing_to_do ? absl::OkStatus() : answer.response.status());
  }
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? EraseTenantJson(answers)
                                                   : EraseTenantTable(answers)};
}

}  // namespace kvtier::cli

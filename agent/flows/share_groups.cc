#include "agent/flows/share_groups.h"

#include "absl/strings/str_cat.h"
#include "core/log.h"

namespace kvtier {

std::vector<SessionId> ApplyMembers(const TenantBook& book, const SessionTable& sessions,
                                    TenantTable* tenants) {
  for (const Tenant* const tenant : tenants->All()) {
    tenants->SetMembers(tenant->domain, book.Of(tenant->name).settings.members);
  }
  std::vector<SessionId> over;
  for (const SessionId id : sessions.InGroups()) {
    const SessionTenants& of = sessions.TenantsOf(id);
    if (tenants->Admitted(of.payer->name, of.home->name) == of) continue;
    Log(LogLevel::kInfo, absl::StrCat("a session of tenant ", of.payer->name, " in share group ",
                                      of.home->name, " ends: the group's members changed"));
    over.push_back(id);
  }
  return over;
}

}  // namespace kvtier

// ApplyMembers() lets the members of share groups in. A share group is a tenant whose settings name
// other tenants, its members, that may use its blocks (docs/design/tenants.md, "Share groups").
#ifndef KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_
#define KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_

#include <vector>

#include "agent/block_run.h"
#include "agent/flows/tenant_book.h"
#include "agent/sessions/sessions.h"
#include "agent/tenants.h"

namespace kvtier {

// Tells the table which tenant is a member of which group, as the applied settings say. Returns the
// sessions in share groups that must end, because the membership or its access has changed, or one
// of the two tenants is no longer admitted. Executor thread only.
std::vector<SessionId> ApplyMembers(const TenantBook& book, const SessionTable& sessions,
                                    TenantTable* tenants);

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_

// ApplyMembers() lets the members of share groups in: tenants whose settings name others, which may
// use their blocks (docs/design/tenants.md, "Share groups").
#ifndef KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_
#define KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_

#include <vector>

#include "agent/block_run.h"
#include "agent/flows/tenant_book.h"
#include "agent/sessions/sessions.h"
#include "agent/tenants.h"

namespace kvtier {

// Tells the table who is a member of whom, as the settings that hold say it. Returns the sessions
// in share groups that are to end: their member, or its access, is another now, or one of the two
// tenants is let in no more. Executor thread only.
std::vector<SessionId> ApplyMembers(const TenantBook& book, const SessionTable& sessions,
                                    TenantTable* tenants);

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_SHARE_GROUPS_H_

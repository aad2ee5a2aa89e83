// CallShares divides the memory of the calls of workers that are in progress between the tenants of
// the node, by the rule of TenantShares, in bytes. A call is charged on the thread that receives
// it, before it takes a turn of the executor; the token of its session says to which tenant. So a
// tenant that keeps thousands of calls in progress has calls of its own refused, and no other's.
//
// Thread-safe; what it does under its lock is bookkeeping alone.
#ifndef KVTIER_AGENT_SESSIONS_CALL_SHARES_H_
#define KVTIER_AGENT_SESSIONS_CALL_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "agent/block_run.h"
#include "agent/tenant_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class CallShares {
 public:
  // Use is what a tenant's calls take and are guaranteed and the limit of all tenants' calls, in
  // bytes, and how many calls of the tenant were refused.
  struct Use {
    size_t taken = 0;
    size_t guaranteed = 0;
    uint64_t refused = 0;
    size_t limit = 0;
  };
  // `bytes` are those of all tenants together, `domains` is the number of tenants.
  CallShares(size_t bytes, size_t domains) : shares_(bytes, domains) {}

  void AddDomain() ABSL_LOCKS_EXCLUDED(mu_);
  // Guarantees the tenant nothing any more, and the others more.
  void DropDomain(DomainId domain) ABSL_LOCKS_EXCLUDED(mu_);
  // Charges calls with this token to the domain until SessionClosed().
  void SessionOpened(const SessionToken& token, DomainId domain) ABSL_LOCKS_EXCLUDED(mu_);
  // Charges calls with this token to no tenant from now on. Those in progress stay charged.
  void SessionClosed(const SessionToken& token) ABSL_LOCKS_EXCLUDED(mu_);

  // Charges a call to the tenant of the session that has the token, and returns the tenant, for
  // GiveBack(); nullopt: no open session has it, and nothing was charged. Errors:
  // kResourceExhausted, the tenant may take no more now; calls of its own are to end first.
  absl::StatusOr<std::optional<DomainId>> Take(absl::string_view token, size_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Gives back what a call was charged.
  void GiveBack(DomainId domain, size_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  Use Of(DomainId domain) const ABSL_LOCKS_EXCLUDED(mu_);
  // Checks TenantShares, and that `sessions` sessions are open.
  void Audit(size_t sessions) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  TenantShares shares_ ABSL_GUARDED_BY(mu_);  // Shares of the bytes.
  absl::flat_hash_map<SessionToken, DomainId> domains_
      ABSL_GUARDED_BY(mu_);  // Payers of open sessions.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_CALL_SHARES_H_

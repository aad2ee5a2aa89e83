// LeaseTable holds what workers were promised: a Lease is a Pin with a deadline
// that belongs to a session. It ends by release, by deadline, or with its session. In the
// GPU pool it is a hold of the worker's, too: the slot outlives it by what the worker's
// steps may still read.
//
// Executor thread only. A grant, a release and an expiry take as long with many leases as with few;
// but a grant whose deadline lies before others' passes these, and ReleaseAll() looks at each
// lease. Invariants, checked by Audit(): a session's count equals its leases; they are in the order
// of their deadlines.
#ifndef KVTIER_AGENT_SESSIONS_LEASES_H_
#define KVTIER_AGENT_SESSIONS_LEASES_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/block_run.h"
#include "agent/index/pin.h"
#include "agent/limits.h"
#include "agent/sessions/tenant_shares.h"
#include "tier_gpu/worker_hold.h"

namespace kvtier {

enum class LeaseId : uint64_t {};

class LeaseTable {
 public:
  // `domains` is the number of tenants.
  explicit LeaseTable(size_t domains) : shares_(kMaxLeases, domains) {}
  // `domain` is that of the session's tenant. Errors: kResourceExhausted at kMaxLeasesPerSession,
  // and at the tenant's share of kMaxLeases.
  absl::StatusOr<LeaseId> Grant(SessionId session, DomainId domain, Pin pin, absl::Time deadline,
                                GpuHold hold = {});
  // The block in host memory of the session's lease; nullopt: unknown, another session's, or it is
  // in the GPU pool.
  std::optional<BlockKey> HostBlockOf(SessionId session, LeaseId id) const;
  // Ids that are unknown or another session's are ignored.
  void Release(SessionId session, std::span<const LeaseId> ids);
  void ReleaseAll(SessionId session);
  // Ends the leases whose deadline lies before `now`; returns how many.
  size_t Expire(absl::Time now);
  size_t size() const { return leases_.size(); }
  void Audit() const;

 private:
  struct Lease {
    LeaseId id{};
    SessionId session{};
    DomainId domain{};
    Pin pin;
    GpuHold hold;  // Empty: not in the GPU pool, or of a session without steps.
    absl::Time deadline;
  };
  using Leases = std::list<Lease>;
  // Returns the session's lease; the end: unknown, or another session's.
  Leases::const_iterator Find(SessionId session, LeaseId id) const;
  // Returns the next one.
  Leases::const_iterator End(Leases::const_iterator lease);

  uint64_t next_id_ = 1;
  TenantShares shares_;
  Leases leases_;  // By deadline, and of one deadline in the order of the grants.
  absl::flat_hash_map<LeaseId, Leases::const_iterator> by_id_;
  absl::flat_hash_map<SessionId, size_t> counts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_LEASES_H_

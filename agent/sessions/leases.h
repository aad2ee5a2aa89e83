// LeaseTable holds the leases of workers. A Lease is a Pin with a deadline that belongs to a
// session. It ends by release, by deadline, or with its session. A lease in the GPU pool also has a
// hold of the worker's: the slot stays held after the end of the lease while the worker's steps may
// still read it.
//
// Executor thread only. A grant, a release and an expiry cost what DeadlineSlots says, and
// ReleaseAll() looks at every lease of the table, and ends only some of them. Invariant, checked by
// Audit(): a session's count equals its leases.
#ifndef KVTIER_AGENT_SESSIONS_LEASES_H_
#define KVTIER_AGENT_SESSIONS_LEASES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/block_run.h"
#include "agent/index/pin.h"
#include "agent/limits.h"
#include "agent/sessions/deadline_slots.h"
#include "agent/tenant_shares.h"
#include "tier_gpu/worker_hold.h"

namespace kvtier {

enum class LeaseId : uint64_t {};

class LeaseTable {
 public:
  // Makes a table for so many tenants.
  explicit LeaseTable(size_t domains) : shares_(kMaxLeases, domains) {}
  // Add and remove a tenant, as TenantShares does.
  void AddDomain() { shares_.AddDomain(); }
  void DropDomain(DomainId domain) { shares_.DropDomain(domain); }
  // Grants a lease, for which the tenant with the domain `payer` pays. Errors: kResourceExhausted
  // at kMaxLeasesPerSession, and at the tenant's share of kMaxLeases.
  absl::StatusOr<LeaseId> Grant(SessionId session, DomainId payer, Pin pin, absl::Time deadline,
                                GpuHold hold = {});
  // Returns the block of the session's lease, if it is in host memory; nullopt: the lease is
  // unknown or another session's, or its block is in the GPU pool.
  std::optional<BlockKey> HostBlockOf(SessionId session, LeaseId id) const;
  // Returns the pin of the lease. REQUIRES: it has not ended.
  const Pin& PinOf(LeaseId id) const { return leases_.Find(id)->pin; }
  // Ids that are unknown or another session's are ignored.
  void Release(SessionId session, std::span<const LeaseId> ids);
  // Ends kEndedPerSweep leases of the session; more of them are the first that Expire() ends.
  void ReleaseAll(SessionId session);
  // Ends the leases whose deadline lies before `now`, `limit` at most; returns how many.
  size_t Expire(absl::Time now, size_t limit = kEndedPerSweep);
  const TenantShares& shares() const { return shares_; }  // Shares of kMaxLeases.
  size_t size() const { return leases_.size(); }
  void Audit() const;

 private:
  struct Lease {
    SessionId session{};
    DomainId payer{};
    Pin pin;
    // Hold on the slot; empty if the block is not in the GPU pool or its session has no steps.
    GpuHold hold;
  };
  // Returns the session's lease; nullptr: unknown, or another session's.
  const Lease* Find(SessionId session, LeaseId id) const;
  void End(LeaseId id, const Lease& lease);

  TenantShares shares_;
  DeadlineSlots<LeaseId, Lease> leases_;
  absl::flat_hash_map<SessionId, size_t> counts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_LEASES_H_

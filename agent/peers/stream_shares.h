// StreamShares divides a small number of streams of blocks between the tenants of a node. Half of
// them are guaranteed: the same number to each tenant, and at least one. If there are more tenants
// than streams in that half, it is kept for tenants that have no stream. The other half, and
// streams that guarantees leave unused, go to the tenant that comes first. So one tenant may take
// all streams but those kept for the others, and none can take the last ones from tenants that have
// fewer.
//
// StreamShares differ from TenantShares in two ways: there may be more tenants than streams, and
// guarantees are given to the current tenants, so a new tenant waits for streams to end.
//
// Pure bookkeeping. Executor thread only.
#ifndef KVTIER_AGENT_PEERS_STREAM_SHARES_H_
#define KVTIER_AGENT_PEERS_STREAM_SHARES_H_

#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class StreamShares {
 public:
  // REQUIRES: limit > 0.
  explicit StreamShares(size_t limit) : limit_(limit) {}

  // Returns what each of so many tenants is guaranteed. REQUIRES: tenants > 0.
  size_t GuaranteeOf(size_t tenants) const;
  // Returns how many streams more the tenant may take, one of so many tenants. O(limit).
  size_t FreeFor(DomainId domain, size_t tenants) const;
  // Takes a stream. REQUIRES: one is free.
  void Take(DomainId domain);
  // Gives a stream back. REQUIRES: the tenant has one.
  void GiveBack(DomainId domain);

  // Counts that the tenant got no stream because of its share.
  void CountRefused(DomainId domain) { ++refused_[domain]; }
  uint64_t Refused(DomainId domain) const;

  size_t limit() const { return limit_; }
  size_t taken() const { return taken_; }
  size_t Taken(DomainId domain) const;

 private:
  const size_t limit_;
  size_t taken_ = 0;
  absl::flat_hash_map<DomainId, size_t> streams_;  // Number of streams of each domain that has any.
  absl::flat_hash_map<DomainId, uint64_t> refused_;  // Refusals of each domain that had any.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_STREAM_SHARES_H_

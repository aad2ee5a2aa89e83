// TierPart is what one tenant of a node has of one tier, and how full that is.
#ifndef KVTIER_CLI_TIER_PARTS_H_
#define KVTIER_CLI_TIER_PARTS_H_

#include <cstdint>
#include <string>

#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// A tenant that uses so many percent of TierPart::whole, or more, is marked: what it puts from then
// on costs it blocks, or is lent.
inline constexpr int kNearlyFullPercent = 90;

struct TierPart {
  v1::Tier tier = v1::TIER_UNSPECIFIED;
  uint64_t has = 0;  // Bytes that are the tenant's now; of the disks, those that it uses.
  uint64_t used = 0;
  uint64_t guaranteed = 0;
  uint64_t maximum = UINT64_MAX;  // UINT64_MAX: none.
  // Bytes that fill the part: the guarantee. For a tenant that is alone in the tier or has no
  // guarantee: its maximum, or the whole tier if that is less.
  uint64_t whole = 0;

  // Returns the bytes of the guarantee that the tenant does not have, and of what it has beyond it.
  uint64_t lent() const { return guaranteed > has ? guaranteed - has : 0; }
  uint64_t borrowed() const { return has > guaranteed ? has - guaranteed : 0; }
  bool is_nearly_full() const;
  // Returns "97.0 % !": how full the part is, and the sign of kNearlyFullPercent.
  std::string FullText() const;
};

// Return the part of a tenant of `response`; empty parts where it has none.
TierPart HostPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant);
TierPart DiskPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant);
TierPart GpuPart(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TIER_PARTS_H_

// TierShare is what one tenant may have of a tier that several tenants share, and FairShares()
// divides the tier by it. Both are in units of the tier: bytes of disk, slabs of host memory.
//
// Pure arithmetic; any thread.
#ifndef KVTIER_CORE_TIER_SHARE_H_
#define KVTIER_CORE_TIER_SHARE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace kvtier {

struct TierShare {
  uint64_t guaranteed = 0;        // Units that the tenant has whenever it wants them.
  uint64_t maximum = UINT64_MAX;  // Maximum of units that it has; at least `guaranteed`.
  uint32_t weight = 1;  // Its part of what the guarantees leave, in proportion to all weights.

  friend bool operator==(const TierShare&, const TierShare&) = default;
};

// Largest weight; the smallest is 1.
inline constexpr uint32_t kMaxShareWeight = 1000;

struct ShareClaim {
  TierShare share;
  uint64_t wanted = 0;  // Units that the tenant could use; UINT64_MAX: all that it can get.
};

// Returns the fair share of each claim of a tier of `capacity` units: what it wants of its
// guarantee and, of what all guarantees leave, parts by weight to those that want more, none
// beyond what it wants or its maximum (weighted max-min). Units are handed out whole, each to the
// claim that has least for its weight, the first of equal ones: so a claim that wants less than
// before, but no less than its share was, still has the same share. O(n log n). REQUIRES: the
// guarantees fit into `capacity` together, and each share is as TierShare says.
std::vector<uint64_t> FairShares(uint64_t capacity, std::span<const ShareClaim> claims);

}  // namespace kvtier

#endif  // KVTIER_CORE_TIER_SHARE_H_

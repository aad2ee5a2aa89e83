// SharesOneByOne is the plain reference of FairShares() (core/tier_share.h).
#ifndef KVTIER_TESTS_TESTING_SHARES_ONE_BY_ONE_H_
#define KVTIER_TESTS_TESTING_SHARES_ONE_BY_ONE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tier_share.h"

namespace kvtier::testing {

// Hands out one unit after the other, each to the claim that has the least beyond its guarantee, in
// proportion to its weight, and to the first of equal ones. O(capacity * claims).
inline std::vector<uint64_t> SharesOneByOne(uint64_t capacity, std::span<const ShareClaim> claims) {
  std::vector<uint64_t> fair;
  fair.reserve(claims.size());
  for (const ShareClaim& claim : claims) {
    fair.push_back(std::min(claim.wanted, claim.share.guaranteed));
    capacity -= fair.back();
  }
  std::vector<uint64_t> beyond(claims.size());
  for (; capacity > 0; --capacity) {
    size_t next = claims.size();
    for (size_t i = 0; i < claims.size(); ++i) {
      if (fair[i] >= std::min(claims[i].wanted, claims[i].share.maximum)) continue;
      if (next == claims.size() || (beyond[i] + 1) * claims[next].share.weight <
                                       (beyond[next] + 1) * claims[i].share.weight) {
        next = i;
      }
    }
    if (next == claims.size()) break;
    ++fair[next];
    ++beyond[next];
  }
  return fair;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SHARES_ONE_BY_ONE_H_

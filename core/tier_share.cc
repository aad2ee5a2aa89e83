#include "core/tier_share.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "core/check.h"

namespace kvtier {

std::vector<uint64_t> FairShares(uint64_t capacity, std::span<const ShareClaim> claims) {
  std::vector<uint64_t> fair(claims.size());
  std::vector<uint64_t> beyond(claims.size());  // Wanted on top of the guarantee.
  uint64_t guaranteed = 0;
  uint64_t weights = 0;
  uint64_t left = capacity;
  for (size_t i = 0; i < claims.size(); ++i) {
    const TierShare& share = claims[i].share;
    KVT_CHECK(share.guaranteed <= share.maximum && share.guaranteed <= capacity - guaranteed);
    KVT_CHECK(share.weight >= 1 && share.weight <= kMaxShareWeight);
    guaranteed += share.guaranteed;
    const uint64_t wanted = std::min(claims[i].wanted, share.maximum);
    fair[i] = std::min(wanted, share.guaranteed);
    beyond[i] = wanted - fair[i];
    left -= fair[i];
    if (beyond[i] > 0) weights += share.weight;
  }
  // Those that want least for their weight come first: what they leave of their parts is divided
  // between the ones that follow.
  std::vector<size_t> by_want(claims.size());
  std::iota(by_want.begin(), by_want.end(), size_t{0});
  std::ranges::stable_sort(by_want, [&](size_t a, size_t b) {
    return static_cast<double>(beyond[a]) / claims[a].share.weight <
           static_cast<double>(beyond[b]) / claims[b].share.weight;
  });
  for (const size_t i : by_want) {
    if (beyond[i] == 0) continue;
    const uint32_t weight = claims[i].share.weight;
    // In 128 bits: bytes of a large tier times a weight pass 64.
    const auto part =
        static_cast<uint64_t>(static_cast<unsigned __int128>(left) * weight / weights);
    const uint64_t given = std::min(beyond[i], part);
    fair[i] += given;
    left -= given;
    weights -= weight;
  }
  return fair;
}

}  // namespace kvtier

#include "core/tier_share.h"

#include <algorithm>
#include <cstddef>
#include <queue>

#include "absl/numeric/int128.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Part is one claim's part of what the guarantees leave.
struct Part {
  uint32_t weight = 1;
  uint64_t wanted = 0;
  uint64_t given = 0;
};

// Returns whether a/weight of one is less than b/weight of the other; the products pass 64 bits.
bool IsLess(uint64_t a, uint32_t weight_of_a, uint64_t b, uint32_t weight_of_b) {
  return absl::uint128(a) * weight_of_b < absl::uint128(b) * weight_of_a;
}

// Hands out `units` one by one, each to the part that then has least for its weight.
void HandOut(uint64_t units, std::vector<Part>* parts) {
  const auto comes_later = [](const Part* a, const Part* b) {
    if (IsLess(b->given + 1, b->weight, a->given + 1, a->weight)) return true;
    return a > b && !IsLess(a->given + 1, a->weight, b->given + 1, b->weight);
  };
  std::priority_queue<Part*, std::vector<Part*>, decltype(comes_later)> next(comes_later);
  for (Part& part : *parts) {
    if (part.given < part.wanted) next.push(&part);
  }
  for (; units > 0 && !next.empty(); --units) {
    Part* const part = next.top();
    next.pop();
    if (++part->given < part->wanted) next.push(part);
  }
}

// Divides `units` between the parts by weight.
void Divide(uint64_t units, std::vector<Part>* parts) {
  std::vector<Part*> by_want;  // Parts in the order of want by weight, smallest first.
  uint64_t weights = 0;
  for (Part& part : *parts) {
    if (part.wanted == 0) continue;
    by_want.push_back(&part);
    weights += part.weight;
  }
  std::ranges::stable_sort(by_want, [](const Part* a, const Part* b) {
    return IsLess(a->wanted, a->weight, b->wanted, b->weight);
  });
  auto part = by_want.begin();
  // Parts that want no more than their proportion get all that they want; later parts get the rest.
  for (; part != by_want.end(); ++part) {
    if (absl::uint128((*part)->wanted) * weights > absl::uint128(units) * (*part)->weight) break;
    (*part)->given = (*part)->wanted;
    units -= (*part)->given;
    weights -= (*part)->weight;
  }
  uint64_t left = units;
  for (; part != by_want.end(); ++part) {
    (*part)->given =
        absl::Uint128Low64(absl::uint128(units) * (*part)->weight / absl::uint128(weights));
    left -= (*part)->given;
  }
  HandOut(left, parts);  // Fewer units than there are parts.
}

}  // namespace

std::vector<uint64_t> FairShares(uint64_t capacity, std::span<const ShareClaim> claims) {
  std::vector<uint64_t> fair(claims.size());
  std::vector<Part> parts(claims.size());
  uint64_t guaranteed = 0;
  uint64_t left = capacity;
  for (size_t i = 0; i < claims.size(); ++i) {
    const TierShare& share = claims[i].share;
    KVT_CHECK(share.guaranteed <= share.maximum && share.guaranteed <= capacity - guaranteed);
    KVT_CHECK(share.weight >= 1 && share.weight <= kMaxShareWeight);
    guaranteed += share.guaranteed;
    const uint64_t wanted = std::min(claims[i].wanted, share.maximum);
    fair[i] = std::min(wanted, share.guaranteed);
    left -= fair[i];
    parts[i] = {.weight = share.weight, .wanted = wanted - fair[i]};
  }
  Divide(left, &parts);
  for (size_t i = 0; i < claims.size(); ++i) fair[i] += parts[i].given;
  return fair;
}

}  // namespace kvtier

#include "tier_disk/admission/seen_keys.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr uint64_t kWordBits = 64;

}  // namespace

SeenKeys::SeenKeys(uint64_t bytes)
    : keys_per_filter_(bytes * 8 / 2 / kSeenBitsPerKey),
      young_(bytes / 16, 0),
      old_(bytes / 16, 0) {
  KVT_CHECK(bytes >= kMinSeenBytes);
}

std::array<SeenKeys::Bit, kSeenProbes> SeenKeys::BitsOf(const BlockKey& key) const {
  // A BlockKey is the output of an HMAC, so its halves are two independent hashes. Two are enough
  // for any number of probes (Kirsch and Mitzenmacher 2006).
  std::array<Bit, kSeenProbes> bits;
  uint64_t hash = key.hi;
  for (Bit& bit : bits) {
    const uint64_t at = hash % (young_.size() * kWordBits);
    bit = {.word = at / kWordBits, .mask = uint64_t{1} << (at % kWordBits)};
    hash += key.lo | 1;  // Odd, so that the probes do not repeat one bit.
  }
  return bits;
}

bool SeenKeys::HasAll(const Filter& filter, const std::array<Bit, kSeenProbes>& bits) {
  return std::all_of(bits.begin(), bits.end(),
                     [&](const Bit& bit) { return (filter[bit.word] & bit.mask) != 0; });
}

bool SeenKeys::Contains(const BlockKey& key) const {
  const auto bits = BitsOf(key);
  return HasAll(young_, bits) || HasAll(old_, bits);
}

void SeenKeys::Add(const BlockKey& key) {
  const auto bits = BitsOf(key);
  if (HasAll(young_, bits)) return;
  if (young_keys_ == keys_per_filter_) {
    std::swap(young_, old_);
    std::fill(young_.begin(), young_.end(), 0);
    young_keys_ = 0;
  }
  for (const Bit& bit : bits) young_[bit.word] |= bit.mask;
  ++young_keys_;
}

}  // namespace kvtier

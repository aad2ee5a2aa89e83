// Tier names where a block's bytes can be on one node. A peer's tiers are reached
// through that peer; they never appear as a Tier here.
#ifndef KVTIER_CORE_TIER_H_
#define KVTIER_CORE_TIER_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvtier {

enum class Tier : uint8_t { kGpu = 0, kHost = 1, kDisk = 2 };

inline constexpr size_t kTierCount = 3;
inline constexpr std::array<Tier, kTierCount> kAllTiers = {Tier::kGpu, Tier::kHost, Tier::kDisk};

constexpr size_t TierIndex(Tier tier) { return static_cast<size_t>(tier); }

// Returns "gpu", "host" or "disk": the label in metrics, tables and JSON.
constexpr const char* TierName(Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return "gpu";
    case Tier::kHost:
      return "host";
    case Tier::kDisk:
      return "disk";
  }
  return "unknown";
}

}  // namespace kvtier

#endif  // KVTIER_CORE_TIER_H_

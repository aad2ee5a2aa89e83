// SortedRanges() checks memory that somebody else owns and that copies are to touch: an engine's
// own tensors, one range each. AdoptedRegion is such memory on a device; lanes between host
// memories use the ranges directly.
//
// Pure.
#ifndef KVTIER_TIER_GPU_DEVICE_ADOPTED_RANGES_H_
#define KVTIER_TIER_GPU_DEVICE_ADOPTED_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace kvtier {

// Maximum number of ranges of adopted memory: keys and values of as many layers as a space may
// have.
inline constexpr size_t kMaxAdoptedRanges = 8192;

inline uint64_t AddressOf(std::span<std::byte> range) {
  return reinterpret_cast<uint64_t>(range.data());
}

// Returns the ranges by their addresses, ascending. Errors: kInvalidArgument, naming the range:
// there is none or more than kMaxAdoptedRanges, one is empty or ends above the 64-bit address
// space, or two overlap.
absl::StatusOr<std::vector<std::span<std::byte>>> SortedRanges(
    std::span<const std::span<std::byte>> ranges);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_ADOPTED_RANGES_H_

#include "tier_gpu/device/adopted_ranges.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

absl::Status CheckRange(size_t i, std::span<std::byte> range) {
  if (range.empty() || range.data() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("adopted range ", i, " is ", range.size(),
                                                   " bytes at ", AddressOf(range),
                                                   "; must not be empty"));
  }
  if (range.size() > std::numeric_limits<uint64_t>::max() - AddressOf(range)) {
    return absl::InvalidArgumentError(absl::StrCat("adopted range ", i, " is ", range.size(),
                                                   " bytes at ", AddressOf(range),
                                                   "; must end within 64 bits"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::span<std::byte>>> SortedRanges(
    std::span<const std::span<std::byte>> ranges) {
  if (ranges.empty() || ranges.size() > kMaxAdoptedRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat("adopting ", ranges.size(), " ranges; must be 1 to ", kMaxAdoptedRanges));
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    const absl::Status checked = CheckRange(i, ranges[i]);
    if (!checked.ok()) return checked;
  }
  std::vector<std::span<std::byte>> sorted(ranges.begin(), ranges.end());
  std::ranges::sort(sorted, {}, AddressOf);
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (AddressOf(sorted[i - 1]) + sorted[i - 1].size() <= AddressOf(sorted[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "adopted range of ", sorted[i - 1].size(), " bytes at ", AddressOf(sorted[i - 1]),
        " overlaps the one of ", sorted[i].size(), " bytes at ", AddressOf(sorted[i])));
  }
  return sorted;
}

}  // namespace kvtier

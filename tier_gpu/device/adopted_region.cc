#include "tier_gpu/device/adopted_region.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

uint64_t AddressOf(std::span<std::byte> range) { return reinterpret_cast<uint64_t>(range.data()); }

absl::Status CheckRange(size_t i, std::span<std::byte> range) {
  if (range.empty() || range.data() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("adopted range ", i, " is ", range.size(),
                                                   " bytes at ", AddressOf(range),
                                                   "; must not be empty"));
  }
  if (range.size() > std::numeric_limits<uint64_t>::max() - AddressOf(range)) {
    return absl::InvalidArgumentError(absl::StrCat("adopted range ", i, " is ", range.size(),
                                                   " bytes at ", AddressOf(range),
                                                   ", past 64 bits"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdoptedRegion>> AdoptedRegion::Of(
    std::span<const std::span<std::byte>> ranges, AccessChecker* checker) {
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
  return absl::WrapUnique(new AdoptedRegion(std::move(sorted), checker));
}

AdoptedRegion::AdoptedRegion(std::vector<std::span<std::byte>> ranges, AccessChecker* checker)
    : ranges_(std::move(ranges)),
      shape_{.handle_bytes =
                 AddressOf(ranges_.back()) + ranges_.back().size() - AddressOf(ranges_.front()),
             .max_handles = 1},
      checker_(checker) {
  if (checker_ == nullptr) return;
  for (const std::span<std::byte> range : ranges_) {
    checker_->AddMapping(range, absl::StrCat("adopted memory ", AddressOf(range)), 0);
  }
}

AdoptedRegion::~AdoptedRegion() {
  if (checker_ == nullptr) return;
  for (const std::span<std::byte> range : ranges_) checker_->RemoveMapping(range);
}

bool AdoptedRegion::Holds(uint64_t offset, uint64_t length) const {
  if (offset >= shape_.handle_bytes) return false;
  const uint64_t address = AddressOf(ranges_.front()) + offset;
  const auto after = std::ranges::upper_bound(ranges_, address, {}, AddressOf);
  const std::span<std::byte> range = *std::prev(after);  // The first is not above.
  const uint64_t inside = address - AddressOf(range);
  return inside < range.size() && length <= range.size() - inside;
}

absl::Status AdoptedRegion::Fixed() {
  return absl::FailedPreconditionError(
      "adopted memory is its owner's: it neither grows nor shrinks");
}

void AdoptedRegion::Shrink() { KVT_CHECK(false); }

}  // namespace kvtier

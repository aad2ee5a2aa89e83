#include "tier_gpu/device/adopted_region.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/adopted_ranges.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<AdoptedRegion>> AdoptedRegion::Of(
    std::span<const std::span<std::byte>> ranges, AccessChecker* checker) {
  KVT_ASSIGN_OR_RETURN(std::vector<std::span<std::byte>> sorted, SortedRanges(ranges));
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
  const std::span<std::byte> range = *std::prev(after);  // Exists: front() <= address.
  const uint64_t inside = address - AddressOf(range);
  return inside < range.size() && length <= range.size() - inside;
}

absl::Status AdoptedRegion::Fixed() {
  return absl::FailedPreconditionError(
      "adopted memory cannot grow or shrink, because it belongs to the engine");
}

void AdoptedRegion::Shrink() { KVT_CHECK(false); }

}  // namespace kvtier

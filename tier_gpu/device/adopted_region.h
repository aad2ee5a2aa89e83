// AdoptedRegion is a DeviceRegion over device memory that somebody else owns: an engine's own
// tensors, one range each. It reaches from the first byte of the lowest range to the last byte of
// the highest. It never touches bytes between two ranges: every segment must lie inside one range.
//
// AdoptedRegion allocates, exports and frees nothing.
#ifndef KVTIER_TIER_GPU_DEVICE_ADOPTED_REGION_H_
#define KVTIER_TIER_GPU_DEVICE_ADOPTED_REGION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {

class AdoptedRegion final : public DeviceRegion {
 public:
  // Makes the region. Reports every range to `checker`, which may be null and is not owned. Errors:
  // as SortedRanges().
  static absl::StatusOr<std::unique_ptr<AdoptedRegion>> Of(
      std::span<const std::span<std::byte>> ranges, AccessChecker* checker);
  ~AdoptedRegion() override;

  const RegionShape& shape() const override { return shape_; }
  size_t handles() const override { return 1; }
  int descriptor(size_t) const override { return -1; }
  std::byte* address() const override { return ranges_.front().data(); }
  bool Holds(uint64_t offset, uint64_t length) const override;
  absl::Status Grow() override { return Fixed(); }
  absl::Status GrowBy(int) override { return Fixed(); }
  void Shrink() override;

 private:
  AdoptedRegion(std::vector<std::span<std::byte>> ranges, AccessChecker* checker);
  static absl::Status Fixed();

  const std::vector<std::span<std::byte>> ranges_;  // Sorted by address.
  const RegionShape shape_;
  AccessChecker* const checker_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_ADOPTED_REGION_H_

// EmulatedRegion is a DeviceRegion without a GPU: every handle is a memfd, sealed so that nobody
// can truncate it. Sharing it with another process is real. A handle takes its memory page by page
// as it is first written.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_REGION_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_REGION_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {

class EmulatedRegion final : public DeviceRegion {
 public:
  // Reserves the addresses, without handles. Reports every mapping to `checker`, which may be null
  // and is not owned. Errors: kInvalidArgument, as CheckShape(); kResourceExhausted, no addresses.
  static absl::StatusOr<std::unique_ptr<EmulatedRegion>> Reserve(const RegionShape& shape,
                                                                 AccessChecker* checker);
  ~EmulatedRegion() override;

  const RegionShape& shape() const override { return shape_; }
  size_t handles() const override { return descriptors_.size(); }
  int descriptor(size_t handle) const override;
  std::byte* address() const override { return start_; }
  absl::Status Grow() override;
  absl::Status GrowBy(int descriptor) override;
  void Shrink() override;

 private:
  EmulatedRegion(const RegionShape& shape, std::byte* start, AccessChecker* checker)
      : shape_(shape), start_(start), checker_(checker) {}
  absl::Status CheckRoom() const;
  // Maps the handle and takes ownership of the descriptor.
  absl::Status Map(int descriptor);
  std::span<std::byte> memory(size_t handle) const {
    return {start_ + handle * shape_.handle_bytes, shape_.handle_bytes};
  }

  const RegionShape shape_;
  std::byte* const start_;  // Start of max_handles * handle_bytes addresses.
  AccessChecker* const checker_;
  std::vector<int> descriptors_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_REGION_H_

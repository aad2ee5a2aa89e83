// CudaRegion is a DeviceRegion of a GPU: addresses that are reserved once, and handles of memory
// mapped one after another. It makes the handles with the driver's virtual memory calls, as only
// such memory can be exported as a file descriptor.
//
// A region keeps a descriptor of each handle: one that it exported, or in an imported region a
// duplicate of the descriptor that it was given.
//
// If memory is unmapped under a running copy, the driver may reuse its addresses. So a region stays
// mapped if its device gave up waiting for copies.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_REGION_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_REGION_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {

// CopiesAbandoned is set by a device that ended operations of which some may still run; it is never
// cleared.
using CopiesAbandoned = std::atomic<bool>;

class CudaRegion final : public DeviceRegion {
 public:
  // Reserves the addresses, without handles. Errors: kInvalidArgument, as CheckShape(), or
  // handle_bytes that are no multiple of this GPU's allocation granularity; kResourceExhausted, no
  // addresses; kUnavailable, the driver's.
  static absl::StatusOr<std::unique_ptr<CudaRegion>> Reserve(
      const CudaDriver& driver, const CudaContext& context, const RegionShape& shape,
      std::shared_ptr<const CopiesAbandoned> abandoned);
  // REQUIRES: nothing on the device uses the region, or copies were abandoned. In the latter case
  // mappings and memory stay until the process ends, also memory that Shrink() removed.
  ~CudaRegion() override;

  const RegionShape& shape() const override { return shape_; }
  size_t handles() const override { return handles_.size(); }
  int descriptor(size_t handle) const override;
  std::byte* address() const override;
  absl::Status Grow() override;
  absl::Status GrowBy(int descriptor) override;
  void Shrink() override;

 private:
  struct Handle {
    CUmemGenericAllocationHandle memory = 0;
    int descriptor = -1;
  };
  CudaRegion(const CudaDriver& driver, const CudaContext& context, const RegionShape& shape,
             std::shared_ptr<const CopiesAbandoned> abandoned)
      : driver_(driver), context_(context), shape_(shape), abandoned_(std::move(abandoned)) {}
  absl::Status CheckRoom() const;
  // Converts the result of a call; kInvalidArgument if the memory is no handle of this shape. A
  // driver finds that out in any of the calls that import, map and give access.
  absl::Status StatusOfHandle(const char* call, CUresult error) const;
  // Maps the memory after the last handle; takes ownership of the handle on success only.
  absl::Status Map(const Handle& handle);
  CUdeviceptr place(size_t handle) const { return start_ + handle * shape_.handle_bytes; }

  const CudaDriver driver_;
  const CudaContext context_;
  const RegionShape shape_;
  const std::shared_ptr<const CopiesAbandoned> abandoned_;
  CUdeviceptr start_ = 0;  // Start of max_handles * handle_bytes addresses.
  std::vector<Handle> handles_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_REGION_H_

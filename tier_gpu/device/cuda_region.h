// CudaRegion is a DeviceRegion of a GPU: addresses reserved once, handles of memory made
// by the driver's virtual memory calls (only those can be exported as a file descriptor)
// and mapped one behind the other.
//
// An imported region keeps a duplicate of every descriptor it was given, as one that made them.
//
// The driver unmaps memory under a copy that runs, whose addresses are then anybody's. So
// a region of a device that gave up waiting for its copies stays mapped.
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

// Raised by a device that ended operations of which some may still run; for good.
using CopiesAbandoned = std::atomic<bool>;

class CudaRegion final : public DeviceRegion {
 public:
  // Without handles. Errors: kInvalidArgument, as CheckShape(), or a handle that is no
  // multiple of what this GPU allocates by; kResourceExhausted, no addresses;
  // kUnavailable, the driver's.
  static absl::StatusOr<std::unique_ptr<CudaRegion>> Reserve(
      const CudaDriver& driver, const CudaContext& context, const RegionShape& shape,
      std::shared_ptr<const CopiesAbandoned> abandoned);
  // REQUIRES: nothing on the device uses it, or copies were abandoned: then mappings and
  // memory stay until the process ends, also what Shrink() gives back.
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
  // Returns what the call answered; kInvalidArgument where the memory is no handle of this shape. A
  // driver finds that out in any of the calls that import, map and give access.
  absl::Status StatusOfHandle(const char* call, CUresult error) const;
  // Maps the memory behind the last handle; the handle is ours on success only.
  absl::Status Map(const Handle& handle);
  CUdeviceptr place(size_t handle) const { return start_ + handle * shape_.handle_bytes; }

  const CudaDriver driver_;
  const CudaContext context_;
  const RegionShape shape_;
  const std::shared_ptr<const CopiesAbandoned> abandoned_;
  CUdeviceptr start_ = 0;  // Of max_handles * handle_bytes addresses.
  std::vector<Handle> handles_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_REGION_H_

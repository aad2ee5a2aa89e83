// DeviceRegion is memory on a device that several processes can map: a range of addresses, filled
// from its start by handles of one size. Each handle is exported as a file descriptor of its own,
// so a region can grow and shrink by whole handles while it is shared.
#ifndef KVTIER_TIER_GPU_DEVICE_DEVICE_REGION_H_
#define KVTIER_TIER_GPU_DEVICE_DEVICE_REGION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace kvtier {

struct RegionShape {
  uint64_t handle_bytes = 0;  // Bytes of a handle, a multiple of kRegionGranularity.
  size_t max_handles = 1;     // Number of handles for which addresses are reserved at once.
  bool operator==(const RegionShape&) const = default;
};

// Allocation granularity of the driver, on all current GPUs.
inline constexpr uint64_t kRegionGranularity = uint64_t{2} << 20;
// Maximum number of handles of one region: all of their descriptors fit into one message
// (SCM_MAX_FD).
inline constexpr size_t kMaxRegionHandles = 253;

// Checks the shape. Errors: kInvalidArgument, naming the field and the value.
absl::Status CheckShape(const RegionShape& shape);

// DeviceRegion owns mappings of its handles. The memory of a handle lives until every descriptor
// and mapping of it, in any process, is gone. Used by one thread at a time.
class DeviceRegion {
 public:
  virtual ~DeviceRegion() = default;
  virtual const RegionShape& shape() const = 0;
  virtual size_t handles() const = 0;
  // Returns the descriptor of handle `handle` < handles(), which may be sent to another process by
  // SCM_RIGHTS; the region owns it. Returns -1 for adopted memory, which is not ours to share.
  virtual int descriptor(size_t handle) const = 0;
  // Returns the region's first address in this process, as the device sees it.
  virtual std::byte* address() const = 0;
  // Grow() and GrowBy() add one handle at the end: new memory or, in an imported region, the memory
  // that a duplicate of `descriptor` names. Errors: kResourceExhausted, no memory, or the shape has
  // no more handles; kInvalidArgument and kUnavailable, as Device::ImportRegion();
  // kFailedPrecondition, the memory was adopted. An error changes nothing.
  virtual absl::Status Grow() = 0;
  virtual absl::Status GrowBy(int descriptor) = 0;
  // Frees the last handle. REQUIRES: there is one, nothing on the device uses it any more, and the
  // memory was not adopted.
  virtual void Shrink() = 0;
  // Returns whether these bytes belong to the region; in adopted memory, whether they lie inside
  // one range.
  virtual bool Holds(uint64_t offset, uint64_t length) const {
    return length <= bytes() && offset <= bytes() - length;
  }

  uint64_t bytes() const { return handles() * shape().handle_bytes; }
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_DEVICE_REGION_H_

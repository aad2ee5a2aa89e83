// CopySegment is the smallest piece of a copy between device and host memory that a copy engine is
// given. This header also has the limits of a batch of segments.
#ifndef KVTIER_TIER_GPU_DEVICE_COPY_H_
#define KVTIER_TIER_GPU_DEVICE_COPY_H_

#include <cstddef>
#include <cstdint>

namespace kvtier {

enum class CopyDirection : uint8_t { kHostToDevice, kDeviceToHost };
inline constexpr size_t kCopyDirections = 2;

// CopySegment is one contiguous run. `device_offset` counts bytes from the start of the region.
struct CopySegment {
  uint64_t device_offset = 0;
  std::byte* host = nullptr;
  uint64_t bytes = 0;
  bool operator==(const CopySegment&) const = default;
};

// Maximum number of segments in a batch; longer ones crash or hang some drivers (CUDA 13.0, R580).
inline constexpr size_t kMaxCopySegments = 1024;
// Maximum bytes of a batch, unless a single segment is longer. An operation queued after the batch
// waits no longer than these bytes take on the link.
inline constexpr uint64_t kMaxCopyBytes = uint64_t{4} << 20;

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_COPY_H_

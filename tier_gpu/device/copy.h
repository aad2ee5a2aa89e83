// CopySegment is the smallest piece of a copy between device and host memory that a copy engine is
// told about; here are the limits of a batch of them, too.
#ifndef KVTIER_TIER_GPU_DEVICE_COPY_H_
#define KVTIER_TIER_GPU_DEVICE_COPY_H_

#include <cstddef>
#include <cstdint>

namespace kvtier {

enum class CopyDirection : uint8_t { kHostToDevice, kDeviceToHost };
inline constexpr size_t kCopyDirections = 2;

// One contiguous run. `device_offset` counts from the start of the region.
struct CopySegment {
  uint64_t device_offset = 0;
  std::byte* host = nullptr;
  uint64_t bytes = 0;
  bool operator==(const CopySegment&) const = default;
};

// A batch is cut here; longer ones crash or hang some drivers (CUDA 13.0, R580).
inline constexpr size_t kMaxCopySegments = 1024;
// A batch is cut here too, unless one segment is longer: what is behind it in the lane
// waits no longer than this takes on the link.
inline constexpr uint64_t kMaxCopyBytes = uint64_t{4} << 20;

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_COPY_H_

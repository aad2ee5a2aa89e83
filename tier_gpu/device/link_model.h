#ifndef KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_
#define KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

struct CopyShape {
  CopyDirection direction{};
  CopyPath path{};
  size_t segments = 0;
  uint64_t bytes = 0;
  bool duplex = false;
};

struct LinkModel {
  double bytes_per_second = 0;
  absl::Duration per_batch;
  absl::Duration per_segment;
  absl::Duration Predict(const CopyShape& shape) const {
    absl::Duration time = per_batch + static_cast<int64_t>(shape.segments) * per_segment;
    if (bytes_per_second > 0)
      time += absl::Seconds(static_cast<double>(shape.bytes) / bytes_per_second);
    return time;
  }
  static LinkModel Pcie5() { return {55e9, absl::Nanoseconds(2300), absl::Nanoseconds(540)}; }
  static LinkModel Pcie4() { return {25e9, absl::Nanoseconds(2300), absl::Nanoseconds(540)}; }
  static LinkModel Instant() { return {}; }
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

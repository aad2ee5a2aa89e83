// LinkModel predicts how long a copy takes on a device and its link: the virtual time of the
// emulated device. Its constants are figures that others published for one kind of machine;
// link_model_test.cc compares it with figures from which it was not made.
//
// LinkModel is a value type, cheap to copy. Its methods are pure. It does not model compute that
// runs at the same time, such as a kernel of a second process that waits for its time slice.
#ifndef KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_
#define KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// Progress of the batches of one lane: the times at which the resources that move them are free
// again. A value; its initial state is a lane that was idle since 1970.
struct LanePipeline {
  // Delays everything later in the lane until `at` at least.
  void Fence(absl::Time at) { launches = std::max(launches, at); }

  absl::Time launches;
  absl::Time kernels;  // Kernels that use device memory only.
  absl::Time link;
  absl::Time end;  // End of the last batch.
};

// Properties of one batch that determine its time.
struct CopyShape {
  CopyDirection direction = CopyDirection::kHostToDevice;
  // Number of segments, all of one size; a batch with none takes the time of the call.
  size_t segments = 0;
  uint64_t bytes = 0;         // Bytes of all segments together.
  uint64_t kernel_bytes = 0;  // Bytes that kernels read and write in device memory; 0: no kernels.
  bool duplex = false;        // Whether the other direction is as busy.
};

class LinkModel {
 public:
  // Returns the model of PCIe 5.0 x16 with an H100 or H200.
  static LinkModel Pcie5();
  // Returns a model without time: a copy takes as long as moving the bytes takes.
  static LinkModel Instant() { return {}; }

  // Predicts one batch that is alone in its lane, from its submission to its end:
  //   call + (segments - 1) * descriptor + bytes / rate
  // and, with kernels, before that
  //   launch + kernel bytes / gather rate
  absl::Duration Predict(const CopyShape& shape) const;
  // Appends a batch, submitted at `from`, to a lane and returns its end. Launches, kernels on
  // device memory and the link overlap with each other, and each does its own work in order. A
  // buffer is filled while earlier batches of the lane still run. It is emptied, and bytes that use
  // no buffer are moved, after all earlier batches have ended, so batches end in their order.
  // REQUIRES: `from` never falls.
  absl::Time Advance(const CopyShape& shape, absl::Time from, LanePipeline* lane) const;
  // Predicts batches that were submitted one after another to an idle lane.
  absl::Duration PredictLane(std::span<const CopyShape> shapes) const;

 private:
  // Time of one batch, by resource.
  struct Work {
    absl::Duration launch{};
    absl::Duration kernel{};  // Kernels on device memory only.
    absl::Duration link{};
  };
  Work Divide(const CopyShape& shape) const;
  absl::Duration Engine(const CopyShape& shape) const;
  absl::Duration Kernel(uint64_t bytes) const;  // Time to read and write `bytes`.

  // Rates in bytes a second; 0: no time.
  double alone_ = 0;             // Link, each way.
  double duplex_ = 0;            // Link, each way, with the other direction as busy.
  double short_to_device_ = 0;   // Link to the device, for segments shorter than 28 KiB.
  double gather_ = 0;            // Kernel that reads and writes device memory.
  absl::Duration call_{};        // Call of the copy engine, with its first descriptor.
  absl::Duration descriptor_{};  // Time of each further descriptor.
  absl::Duration launch_{};      // Launch of a kernel with its table of segments.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

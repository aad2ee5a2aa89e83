// LinkModel says how long a copy takes on a device and its link: the virtual time of the emulated
// device. Its constants are figures that others
// published for one kind of machine; link_model_test.cc holds it against those that it was not made
// from.
//
// A value, cheap to copy. Pure. It knows nothing of what computes beside the copy: a
// kernel of a second process that waits for its time slice is not in it.
#ifndef KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_
#define KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// How far the batches of one lane have come: when what moves them is free again. A value;
// it begins as a lane that was idle since 1970.
struct LanePipeline {
  // Nothing of what comes behind begins before.
  void Fence(absl::Time at) { launches = std::max(launches, at); }

  absl::Time launches;
  absl::Time kernels;  // Those that work on device memory alone.
  absl::Time link;
  absl::Time end;  // The last batch's.
};

// One batch, as far as its time is concerned.
struct CopyShape {
  CopyDirection direction = CopyDirection::kHostToDevice;
  size_t segments = 0;        // Of one size; none takes the time of the call.
  uint64_t bytes = 0;         // All segments' together.
  uint64_t kernel_bytes = 0;  // What kernels read and write in device memory; 0: there are none.
  bool duplex = false;        // The other direction is as busy.
};

class LinkModel {
 public:
  // PCIe 5.0 x16 with an H100 or H200.
  static LinkModel Pcie5();
  // No modelled time at all: a copy takes what moving the bytes takes.
  static LinkModel Instant() { return {}; }

  // One batch that is alone in its lane, from its submission to its end:
  //   call + (segments - 1) * descriptor + bytes / rate
  // and with kernels ahead of it
  //   launch + kernel bytes / gather rate
  absl::Duration Predict(const CopyShape& shape) const;
  // Puts a batch behind those of its lane, submitted at `from`, and says when it ends.
  // Launches, kernels on device memory and the link overlap, each with itself in order. A
  // buffer is filled while what is ahead in the lane still runs. It is emptied, and what goes
  // through none is moved, when all that has ended: so batches end in their order. REQUIRES: `from`
  // never falls.
  absl::Time Advance(const CopyShape& shape, absl::Time from, LanePipeline* lane) const;
  // Batches that were submitted one behind the other to an idle lane.
  absl::Duration PredictLane(std::span<const CopyShape> shapes) const;

 private:
  // Time that one batch takes, by what does it.
  struct Work {
    absl::Duration launch{};
    absl::Duration kernel{};  // Device memory alone.
    absl::Duration link{};
  };
  Work Divide(const CopyShape& shape) const;
  absl::Duration Engine(const CopyShape& shape) const;
  absl::Duration Kernel(uint64_t bytes) const;  // Read and written.

  // Bytes a second; 0: no time.
  double alone_ = 0;             // The link, each way.
  double duplex_ = 0;            // The same with the other direction as busy.
  double short_to_device_ = 0;   // The link to the device, segments shorter than 28 KiB.
  double gather_ = 0;            // A kernel that reads and writes device memory.
  absl::Duration call_{};        // A call of the copy engine with its first descriptor.
  absl::Duration descriptor_{};  // Each further one.
  absl::Duration launch_{};      // A kernel and its table of segments.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

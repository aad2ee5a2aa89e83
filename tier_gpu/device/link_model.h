// LinkModel says how long a copy takes on a device and its link: what the emulated
// device waits, and what a planner that has measured nothing yet goes by. Its constants
// are fitted to figures that others measured and published; tests/tier_gpu/
// link_model_test.cc lists each figure beside what the model says.
//
// A value, cheap to copy. Pure. It knows nothing of what computes beside the copy: a
// kernel of a second process that waits for its time slice is not in it.
#ifndef KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_
#define KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// Of a lane: the next batch's kernel runs while this one is on the link.
inline constexpr size_t kMaxBatchesInFlight = 2;

// How far the batches of one lane have come: when what moves them is free again. A value;
// it begins as a lane that was idle since 1970.
struct LanePipeline {
  // Nothing of what comes behind begins before.
  void Fence(absl::Time at) { launches = std::max(launches, at); }

  absl::Time launches;
  absl::Time kernels;  // On device memory alone.
  absl::Time link;
  std::array<absl::Time, kMaxBatchesInFlight> ends{};  // Of the last batches, by number.
  size_t batches = 0;
};

// One batch, as far as its time is concerned.
struct CopyShape {
  CopyDirection direction = CopyDirection::kHostToDevice;
  CopyPath path = CopyPath::kBatch;
  size_t segments = 0;  // Of one size; none takes the time of the call.
  uint64_t bytes = 0;   // Of all segments.
  // kStaged: what kernels read and write in device memory, where they do more than to
  // gather or scatter; 0: twice the bytes.
  uint64_t kernel_bytes = 0;
  bool duplex = false;  // The other direction is as busy.
};

// What a copy takes from the compute beside it.
struct CopyLoad {
  uint64_t memory_bytes = 0;    // Read and written in device memory.
  absl::Duration processors{};  // Time on multiprocessors, summed over them.
};

class LinkModel {
 public:
  // PCIe 5.0 x16 with an H100 or H200.
  static LinkModel Pcie5();
  // PCIe 4.0 x16 with an A100, or an A30 as far as its link goes.
  static LinkModel Pcie4();
  // NVLink-C2C of a GH200.
  static LinkModel Coherent();
  // NVLink-C2C of a GB300: of the same kind, and slower.
  static LinkModel CoherentGb300();
  // No modelled time at all: a copy takes what moving the bytes takes.
  static LinkModel Instant();

  // One batch that is alone in its lane, from its submission to its end:
  //   kBatch   call + (segments - 1) * descriptor + bytes / rate
  //   kStaged  launch + kernel bytes / gather rate + call + bytes / rate
  //   kDirect  launch + bytes / rate of a kernel
  absl::Duration Predict(const CopyShape& shape) const;
  // Puts a batch behind those of its lane, submitted at `from`, and says when it ends.
  // Launches, kernels on device memory and the link overlap, each with itself in order,
  // for kMaxBatchesInFlight batches at a time. A buffer is filled while what is ahead in
  // the lane still runs. It is emptied, and what goes through none is moved, when all
  // that has ended: so batches end in their order. REQUIRES: `from` never falls.
  absl::Time Advance(const CopyShape& shape, absl::Time from, LanePipeline* lane) const;
  // Batches that were submitted one behind the other to an idle lane.
  absl::Duration PredictLane(std::span<const CopyShape> shapes) const;
  CopyLoad Load(const CopyShape& shape) const;

 private:
  struct Rate {
    double alone = 0;   // Bytes a second; 0: no time.
    double duplex = 0;  // With the other direction as busy.
  };
  using Rates = std::array<Rate, kCopyDirections>;  // By CopyDirection.

  // What one batch needs, by what does it.
  struct Work {
    absl::Duration launch{};
    absl::Duration kernel{};  // On device memory alone.
    absl::Duration link{};
  };
  Work Divide(const CopyShape& shape) const;
  absl::Duration Descriptor(size_t segments) const;
  absl::Duration Engine(const CopyShape& shape) const;

  Rates engine_{};
  Rates direct_{};
  absl::Duration call_{};                // Of the copy engine, its first descriptor in it.
  absl::Duration descriptor_{};          // Each further one of a batch of up to 10^4,
  absl::Duration descriptor_of_many_{};  // of 10^5 or more.
  absl::Duration launch_{};              // A kernel and its table of segments.
  uint64_t inline_below_ = 0;            // Host to device: shorter segments take the slow way,
  double inline_rate_ = 0;               // which has these bytes a second.
  double processor_rate_ = 0;            // Device memory that one multiprocessor reads and writes.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_LINK_MODEL_H_

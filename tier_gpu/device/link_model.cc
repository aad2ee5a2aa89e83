#include "tier_gpu/device/link_model.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace kvtier {
namespace {

// A loop of cudaMemcpyAsync costs 2.0 to 2.3 us a copy; a batch call 0.54 us a
// descriptor at 10^4 of them and 0.17 us at 10^5 (H100).
constexpr absl::Duration kCall = absl::Nanoseconds(2300);
constexpr absl::Duration kDescriptor = absl::Nanoseconds(540);
constexpr absl::Duration kDescriptorOfMany = absl::Nanoseconds(170);
constexpr double kFew = 1e4;
constexpr double kMany = 1e5;

// Where kernels overtake the engine (H100: 28 KiB between 64 and 256 segments, 8 KiB at
// 16; A30: 8 KiB between 32 and 64, 28 KiB between 64 and 128) is 25 us late, in all
// four: the launch and the upload of what to copy.
constexpr absl::Duration kLaunch = absl::Microseconds(25);

// Host to device, segments below 28 KiB: 4 to 7 GB/s for whatever size, as if a core
// fed them (H100). The A30's points fit only without it.
constexpr uint64_t kInlineBelow = uint64_t{28} << 10;
constexpr double kInlineRate = 7.2e9;

// 4.3 TB/s, read and written, of an H200's 132 multiprocessors; an A100 has 108 and,
// by its memory's data sheet, 1.7 TB/s of 2.0.
constexpr double kHopperProcessor = 4.3e12 / 132;
constexpr double kAmpereProcessor = 1.7e12 / 108;

// Four keep up with PCIe 5.0; twice as many leave room for uneven segments.
constexpr double kGatherProcessors = 8;
// A kernel that keeps its bytes in flight in shared memory needs no more on any link.
constexpr double kDirectProcessors = 4;

absl::Duration At(double bytes_per_second, double bytes) {
  return bytes_per_second > 0 ? absl::Seconds(bytes / bytes_per_second) : absl::ZeroDuration();
}

uint64_t KernelBytes(const CopyShape& shape) {
  return shape.kernel_bytes > 0 ? shape.kernel_bytes : 2 * shape.bytes;
}

size_t Index(CopyDirection direction) { return static_cast<size_t>(direction); }

}  // namespace

LinkModel LinkModel::Pcie5() {
  LinkModel model;
  // Copy engine: 50 to 55.6 GB/s each way, 83.4 in sum. Kernels: 35.2 in, as reads over
  // the link are bound by how many may be outstanding, 52.8 out, 68.5 in sum.
  model.engine_ = {{{.alone = 55e9, .duplex = 41.7e9}, {.alone = 55e9, .duplex = 41.7e9}}};
  model.direct_ = {{{.alone = 35.2e9, .duplex = 34.25e9}, {.alone = 52.8e9, .duplex = 34.25e9}}};
  model.call_ = kCall;
  model.descriptor_ = kDescriptor;
  model.descriptor_of_many_ = kDescriptorOfMany;
  model.launch_ = kLaunch;
  model.inline_below_ = kInlineBelow;
  model.inline_rate_ = kInlineRate;
  model.processor_rate_ = kHopperProcessor;
  return model;
}

LinkModel LinkModel::Pcie4() {
  LinkModel model = Pcie5();
  // Copy engine: 25 and 24 GB/s; at once 11 and 24, on the one host that was published.
  // Kernels: 20 in follows from the A30's crossovers; out as much less than the engine
  // as on PCIe 5.0; at once no figure is known, so as the engine or as alone.
  model.engine_ = {{{.alone = 25e9, .duplex = 11e9}, {.alone = 24e9, .duplex = 24e9}}};
  model.direct_ = {{{.alone = 20e9, .duplex = 11e9}, {.alone = 22.8e9, .duplex = 22.8e9}}};
  model.inline_below_ = 0;
  model.processor_rate_ = kAmpereProcessor;
  return model;
}

LinkModel LinkModel::Coherent() {
  LinkModel model = Pcie5();
  // Copy engine: 342 and 295 GB/s. Kernels: the share of it that a GB300's reach. Both
  // ways at once: no figure is known, and the wires are separate.
  model.engine_ = {{{.alone = 342e9, .duplex = 342e9}, {.alone = 295e9, .duplex = 295e9}}};
  model.direct_ = {{{.alone = 313e9, .duplex = 313e9}, {.alone = 281e9, .duplex = 281e9}}};
  model.inline_below_ = 0;
  return model;
}

LinkModel LinkModel::CoherentGb300() {
  LinkModel model = Coherent();
  model.engine_ = {{{.alone = 210e9, .duplex = 210e9}, {.alone = 192e9, .duplex = 192e9}}};
  model.direct_ = {{{.alone = 192e9, .duplex = 192e9}, {.alone = 183e9, .duplex = 183e9}}};
  return model;
}

LinkModel LinkModel::Instant() { return {}; }

absl::Duration LinkModel::Descriptor(size_t segments) const {
  const double decades =
      std::log10(static_cast<double>(segments) / kFew) / std::log10(kMany / kFew);
  return descriptor_ + std::clamp(decades, 0.0, 1.0) * (descriptor_of_many_ - descriptor_);
}

absl::Duration LinkModel::Engine(const CopyShape& shape) const {
  const Rate& rates = engine_[Index(shape.direction)];
  double rate = shape.duplex ? rates.duplex : rates.alone;
  const size_t segments = std::max<size_t>(shape.segments, 1);
  const bool slow =
      shape.direction == CopyDirection::kHostToDevice && shape.bytes < inline_below_ * segments;
  if (slow) rate = std::min(rate, inline_rate_);
  return call_ + static_cast<double>(segments - 1) * Descriptor(segments) +
         At(rate, static_cast<double>(shape.bytes));
}

LinkModel::Work LinkModel::Divide(const CopyShape& shape) const {
  const auto bytes = static_cast<double>(shape.bytes);
  switch (shape.path) {
    case CopyPath::kBatch:
      return {.link = Engine(shape)};
    case CopyPath::kStaged: {
      CopyShape whole = shape;
      whole.segments = 1;
      const double gather = kGatherProcessors * processor_rate_;
      return {.launch = launch_,
              .kernel = At(gather, static_cast<double>(KernelBytes(shape))),
              .link = Engine(whole)};
    }
    case CopyPath::kDirect: {
      const Rate& rates = direct_[Index(shape.direction)];
      return {.launch = launch_, .link = At(shape.duplex ? rates.duplex : rates.alone, bytes)};
    }
  }
  KVT_CHECK(false);
}

absl::Duration LinkModel::Predict(const CopyShape& shape) const {
  const Work work = Divide(shape);
  return work.launch + work.kernel + work.link;
}

absl::Time LinkModel::Advance(const CopyShape& shape, absl::Time from, LanePipeline* lane) const {
  const Work work = Divide(shape);
  const auto end_of = [lane](size_t batch) -> absl::Time& {
    return lane->ends[batch % kMaxBatchesInFlight];
  };
  const absl::Time ahead = end_of(lane->batches + kMaxBatchesInFlight - 1);
  absl::Time& end = end_of(lane->batches++);  // Of the one that made room.
  lane->launches = std::max({lane->launches, from, end}) + work.launch;
  const bool staged = shape.path == CopyPath::kStaged;
  const bool gathers = staged && shape.direction == CopyDirection::kDeviceToHost;
  const bool scatters = staged && !gathers;
  absl::Time begin = lane->launches;
  if (gathers) begin = lane->kernels = std::max(lane->kernels, begin) + work.kernel;
  if (!scatters) begin = std::max(begin, ahead);
  end = lane->link = std::max(lane->link, begin) + work.link;
  if (scatters) end = lane->kernels = std::max({lane->kernels, end, ahead}) + work.kernel;
  return end;
}

absl::Duration LinkModel::PredictLane(std::span<const CopyShape> shapes) const {
  const absl::Time start;
  absl::Time end = start;
  LanePipeline lane;
  for (const CopyShape& shape : shapes) end = Advance(shape, start, &lane);
  return end - start;
}

CopyLoad LinkModel::Load(const CopyShape& shape) const {
  switch (shape.path) {
    case CopyPath::kBatch:
      return {.memory_bytes = shape.bytes};
    case CopyPath::kStaged:
      // Read and written by the kernel, and read or written again by the engine.
      return {.memory_bytes = KernelBytes(shape) + shape.bytes,
              .processors = At(processor_rate_, static_cast<double>(KernelBytes(shape)))};
    case CopyPath::kDirect:
      return {.memory_bytes = shape.bytes, .processors = kDirectProcessors * Divide(shape).link};
  }
  KVT_CHECK(false);
}

}  // namespace kvtier

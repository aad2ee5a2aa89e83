#include "tier_gpu/device/link_model.h"

namespace kvtier {
namespace {

// Segments shorter than this are much slower on the way to the device (H100, vLLM #42212).
constexpr uint64_t kShortSegment = uint64_t{28} << 10;

absl::Duration At(double bytes_per_second, double bytes) {
  return bytes_per_second > 0 ? absl::Seconds(bytes / bytes_per_second) : absl::ZeroDuration();
}

}  // namespace

LinkModel LinkModel::Pcie5() {
  LinkModel model;
  // Copy engine of an H100: 50 to 55.6 GB/s each way (nvbandwidth, vLLM); 83.4 GB/s both ways
  // together (vLLM).
  model.alone_ = 55e9;
  model.duplex_ = 41.7e9;
  // 4 to 7 GB/s for any size from 4 to 24 KiB, as if a core copied them (H100, vLLM #42212).
  model.short_to_device_ = 7.2e9;
  // Eight of an H200's 132 multiprocessors, which together read and write 4.3 TB/s.
  model.gather_ = 8 * 4.3e12 / 132;
  // A loop of cudaMemcpyAsync costs 2.0 to 2.3 us a copy (FlexKV #193). A batch of 10^4 copies
  // costs 0.54 us more for each descriptor (fitted to vLLM #42212).
  model.call_ = absl::Nanoseconds(2300);
  model.descriptor_ = absl::Nanoseconds(540);
  // Kernels become faster than the copy engine at 28 KiB between 64 and 256 segments (H100, vLLM
  // #57555). Their delay is the launch and the upload of the list of segments.
  model.launch_ = absl::Microseconds(25);
  return model;
}

absl::Duration LinkModel::Engine(const CopyShape& shape) const {
  double rate = shape.duplex ? duplex_ : alone_;
  const size_t segments = std::max<size_t>(shape.segments, 1);
  const bool is_short =
      shape.direction == CopyDirection::kHostToDevice && shape.bytes < kShortSegment * segments;
  if (is_short) rate = std::min(rate, short_to_device_);
  return call_ + static_cast<double>(segments - 1) * descriptor_ +
         At(rate, static_cast<double>(shape.bytes));
}

absl::Duration LinkModel::Kernel(uint64_t bytes) const {
  return At(gather_, static_cast<double>(bytes));
}

LinkModel::Work LinkModel::Divide(const CopyShape& shape) const {
  if (shape.kernel_bytes == 0) return {.link = Engine(shape)};
  return {.launch = launch_, .kernel = Kernel(shape.kernel_bytes), .link = Engine(shape)};
}

absl::Duration LinkModel::Predict(const CopyShape& shape) const {
  const Work work = Divide(shape);
  return work.launch + work.kernel + work.link;
}

absl::Time LinkModel::Advance(const CopyShape& shape, absl::Time from, LanePipeline* lane) const {
  const Work work = Divide(shape);
  const absl::Time ahead = lane->end;
  lane->launches = std::max(lane->launches, from) + work.launch;
  const bool staged = shape.kernel_bytes > 0;
  const bool gathers = staged && shape.direction == CopyDirection::kDeviceToHost;
  const bool scatters = staged && !gathers;
  absl::Time begin = lane->launches;
  if (gathers) begin = lane->kernels = std::max(lane->kernels, begin) + work.kernel;
  if (!scatters) begin = std::max(begin, ahead);
  lane->end = lane->link = std::max(lane->link, begin) + work.link;
  if (scatters) {
    lane->end = lane->kernels = std::max({lane->kernels, lane->end, ahead}) + work.kernel;
  }
  return lane->end;
}

absl::Duration LinkModel::PredictLane(std::span<const CopyShape> shapes) const {
  const absl::Time start;
  absl::Time end = start;
  LanePipeline lane;
  for (const CopyShape& shape : shapes) end = Advance(shape, start, &lane);
  return end - start;
}

}  // namespace kvtier

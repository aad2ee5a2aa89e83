// GpuRig is what the sections of gpu_bench work on: a device, memory on it, and pinned
// host memory to copy from and back to. Whatever is timed was proved first: with random
// bytes, into memory that held others on both sides.
#ifndef KVTIER_BENCH_GPU_RIG_H_
#define KVTIER_BENCH_GPU_RIG_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "core/clock.h"
#include "tier_gpu/device/device.h"

namespace kvtier::bench {

// The two ways over the link, short for the sections' tables.
inline constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
inline constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

struct RigBatch {
  CopyPath path = CopyPath::kBatch;
  std::span<const CopySegment> segments;
};

// One way to move the same segments in and out. Each call moves all of them and returns
// its seconds.
struct CopyWay {
  std::function<double()> in;
  std::function<double()> out;
};

class GpuStream;

// Host memory at the start of a page, so that no two buffers share one.
struct HostBytesFree {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using HostBytes = std::unique_ptr<std::byte[], HostBytesFree>;
HostBytes MakeHostBytes(uint64_t bytes);

class GpuRig {
 public:
  // `name` as OpenDevice() has it; with kernels, where it is a GPU. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<GpuRig>> Open(const std::string& name, uint64_t bytes);
  ~GpuRig();
  GpuRig(const GpuRig&) = delete;
  GpuRig& operator=(const GpuRig&) = delete;

  Device& device() { return *device_; }
  DeviceRegion* region() { return region_.get(); }
  uint64_t bytes() const { return bytes_; }
  std::byte* source() { return source_.get(); }
  std::byte* back() { return back_.get(); }
  bool emulated() const { return stream_ == nullptr; }
  // N of "cuda:N".
  int ordinal() const { return ordinal_; }
  // What the benchmark runs itself; it is also the device's Lane::kCompute.
  // REQUIRES: not emulated.
  GpuStream& stream() { return *stream_; }

  // Runs the batches one behind the other; seconds from the first submission to the end
  // of the last that was seen. `first_end`, if not null: of the batches up to the
  // `first`th. Aborts when one fails. REQUIRES: each is as the planner cuts them.
  double Run(CopyDirection direction, std::span<const RigBatch> batches, size_t first = 0,
             double* first_end = nullptr);
  // Runs both directions at once; seconds until both have ended.
  double RunBoth(std::span<const RigBatch> in, std::span<const RigBatch> out);
  // Run(), as a way. The batches must stay where they are.
  CopyWay ByBatches(std::span<const RigBatch> in, std::span<const RigBatch> out);
  // Sends the segments' bytes of source() in by the way, and back into back(); aborts if
  // any came back wrong. `out` has the hosts of `in`, moved into back(). What lay there
  // before is overwritten first, on the device too: a way cannot pass by what the one
  // before it left.
  void Prove(std::span<const CopySegment> in, std::span<const CopySegment> out, const CopyWay& way);

 private:
  GpuRig() = default;
  absl::Status OpenDeviceOf(const std::string& name);
  struct Running;
  // Submits as much as the lane takes.
  void Push(Running* lane);
  // Overwrites the device's bytes from the first of these segments to the last.
  void PoisonDevice(std::span<const CopySegment> segments);

  const MonotonicClock clock_;
  int ordinal_ = 0;
  uint64_t bytes_ = 0;
  HostBytes source_;
  HostBytes back_;
  // Shared, for its type is known only where CUDA is.
  std::shared_ptr<GpuStream> stream_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceRegion> region_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_GPU_RIG_H_

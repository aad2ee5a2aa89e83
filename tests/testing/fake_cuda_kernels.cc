// Launches on the fake GPU. A launch reads its lists when its turn in the stream comes, turns the
// device's addresses into the host's, and runs the kernel's host form.
#include <cuda_runtime_api.h>

#include <vector>

#include "core/check.h"
#include "kernels/codec.h"
#include "kernels/copy_segments.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"
#include "tests/testing/fake_cuda_ranges.h"

namespace kvtier::kernels {
namespace {

namespace fake = kvtier::testing::fake_cuda;

template <typename T>
T* HostSide(T* device, uint64_t count) {
  return reinterpret_cast<T*>(fake::Touched(device, count * sizeof(T)));
}
std::byte* HostSide(const std::byte* device, uint64_t bytes) {
  return fake::Touched(device, bytes);
}

SumRequest HostSide(const SumRequest& request, uint32_t count) {
  if (request.sums == nullptr) return {};
  return {.sums = HostSide(request.sums, count),
          .pieces = HostSide(request.pieces, uint64_t{count} * request.room),
          .arrived = HostSide(request.arrived, 1),
          .room = request.room};
}

// Aborts unless the device has all bytes of all runs from `at` on.
void CheckRuns(const std::byte* at, const StridedSegment& segment, const OuterAxes& outer,
               uint64_t CopyAxis::* outer_stride, uint64_t run_stride) {
  const auto& axes = outer.axes;
  for (uint64_t i = 0; i < RunsOf(segment, outer); ++i) {
    uint64_t index = i / segment.runs;
    uint64_t offset = i % segment.runs * run_stride;
    for (const CopyAxis& axis : axes) {
      offset += index % axis.count * (axis.*outer_stride);
      index /= axis.count;
    }
    fake::Touched(at + offset, segment.run_bytes);
  }
}

using Form = int (*)(const CodecLaunch&);

int RunCodec(const CodecLaunch& launch, Form form) {
  if (!IsValid(launch)) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch, form] {
    const CodecBlock* const list = HostSide(launch.blocks, launch.count);
    std::vector<CodecBlock> blocks(list, list + launch.count);
    for (CodecBlock& block : blocks) {
      block.source = HostSide(block.source, block.source_bytes);
      block.destination = HostSide(block.destination, block.destination_bytes);
    }
    CodecLaunch on_host = launch;
    on_host.blocks = blocks.data();
    on_host.outcomes = HostSide(launch.outcomes, launch.count);
    KVT_CHECK(form(on_host) == 0);
  });
}

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch] {
    const StridedSegment* const list = HostSide(launch.segments, launch.count);
    std::vector<StridedSegment> segments(list, list + launch.count);
    for (StridedSegment& segment : segments) {
      if (segment.runs == 0) continue;
      if (fake::LosesWrite("CopySegmentsOnDevice", segment.destination)) return;
      CheckRuns(segment.source, segment, launch.outer, &CopyAxis::source_stride,
                segment.source_stride);
      segment.source = fake::HostAddress(segment.source);
      if (segment.destination == nullptr) continue;
      CheckRuns(segment.destination, segment, launch.outer, &CopyAxis::destination_stride,
                segment.destination_stride);
      segment.destination = fake::HostAddress(segment.destination);
    }
    CopySegmentsLaunch on_host = launch;
    on_host.segments = segments.data();
    on_host.sum = HostSide(launch.sum, launch.count);
    KVT_CHECK(CopySegmentsOnHost(on_host) == 0);
  });
}

int EncodeOnDevice(const CodecLaunch& launch) { return RunCodec(launch, EncodeOnHost); }
int DecodeOnDevice(const CodecLaunch& launch) { return RunCodec(launch, DecodeOnHost); }

}  // namespace kvtier::kernels

// Launches on the fake GPU: the kernels' host forms, over what the lists hold when their
// turn comes, with every address of the device turned into the host's.
#include <cuda_runtime_api.h>

#include <vector>

#include "core/check.h"
#include "kernels/codec.h"
#include "kernels/copy_segments.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"

namespace kvtier::kernels {
namespace {

namespace fake = kvtier::testing::fake_cuda;

template <typename T>
T* HostSide(T* device) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(fake::HostSide(device)));
}

SumRequest HostSide(const SumRequest& request) {
  if (request.sums == nullptr) return {};
  // The host form asks for no more room than it is told of: the last of it is there, too.
  return {.sums = HostSide(request.sums), .pieces = HostSide(request.pieces), .room = request.room};
}

using Form = int (*)(const CodecLaunch&);

int RunCodec(const CodecLaunch& launch, Form form) {
  if (!IsValid(launch)) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch, form] {
    const CodecBlock* const list = HostSide(launch.blocks);
    std::vector<CodecBlock> blocks(list, list + launch.count);
    for (CodecBlock& block : blocks) {
      if (block.source != nullptr) block.source = HostSide(block.source);
      if (block.destination != nullptr) block.destination = HostSide(block.destination);
    }
    CodecLaunch on_host = launch;
    on_host.blocks = blocks.data();
    on_host.outcomes = HostSide(launch.outcomes);
    on_host.sum = HostSide(launch.sum);
    KVT_CHECK(form(on_host) == 0);
  });
}

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch] {
    const StridedSegment* const list = HostSide(launch.segments);
    std::vector<StridedSegment> segments(list, list + launch.count);
    for (StridedSegment& segment : segments) {
      if (segment.runs == 0) continue;
      if (fake::LosesWrite("CopySegmentsOnDevice", segment.destination)) return;
      segment.source = HostSide(segment.source);
      if (segment.destination != nullptr) segment.destination = HostSide(segment.destination);
    }
    CopySegmentsLaunch on_host = launch;
    on_host.segments = segments.data();
    on_host.sum = HostSide(launch.sum);
    KVT_CHECK(CopySegmentsOnHost(on_host) == 0);
  });
}

int EncodeOnDevice(const CodecLaunch& launch) { return RunCodec(launch, EncodeOnHost); }
int DecodeOnDevice(const CodecLaunch& launch) { return RunCodec(launch, DecodeOnHost); }

}  // namespace kvtier::kernels

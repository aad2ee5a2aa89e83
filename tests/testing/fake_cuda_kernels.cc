// Launches on the fake GPU: the host's forms, over what the device's addresses mean.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "core/check.h"
#include "kernels/codec.h"
#include "kernels/copy_segments.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"

namespace fake = kvtier::testing::fake_cuda;

namespace kvtier::kernels {
namespace {

template <typename T>
T* HostSideOf(T* device) {
  return device == nullptr
             ? nullptr
             : reinterpret_cast<T*>(fake::HostSide(reinterpret_cast<const void*>(device)));
}

int ConvertOnDevice(const CodecLaunch& launch, int (*form)(const CodecLaunch&)) {
  if (!IsValid(launch)) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch, form] {
    const CodecBlock* const list = HostSideOf(launch.blocks);
    std::vector<CodecBlock> blocks(list, list + launch.count);
    for (CodecBlock& block : blocks) {
      block.source = HostSideOf(block.source);
      block.destination = HostSideOf(block.destination);
    }
    CodecLaunch here = launch;
    here.blocks = blocks.data();
    here.outcomes = HostSideOf(launch.outcomes);
    here.sum.sums = HostSideOf(launch.sum.sums);
    here.sum.pieces = HostSideOf(launch.sum.pieces);
    KVT_CHECK(form(here) == 0);
  });
}

}  // namespace

int CopySegmentsOnDevice(const CopySegmentsLaunch& launch) {
  if (launch.thread_blocks == 0 || launch.segments == nullptr) return kInvalidLaunch;
  return fake::EnqueueWork(launch.stream, [launch] {
    const StridedSegment* const list = HostSideOf(launch.segments);
    for (uint32_t i = 0; i < launch.count; ++i) {
      if (list[i].runs == 0) continue;
      KVT_CHECK(list[i].runs == 1);
      std::memcpy(HostSideOf(list[i].destination), HostSideOf(list[i].source), list[i].run_bytes);
    }
  });
}

int EncodeOnDevice(const CodecLaunch& launch) { return ConvertOnDevice(launch, EncodeOnHost); }
int DecodeOnDevice(const CodecLaunch& launch) { return ConvertOnDevice(launch, DecodeOnHost); }

}  // namespace kvtier::kernels

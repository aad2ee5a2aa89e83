// Tests the words by which lanes and an engine's streams wait for each other, on the fake GPU.
#include "tier_gpu/device/cuda_outside_streams.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/testing/device_rig.h"
#include "tests/testing/patience.h"
#include "tier_gpu/device/cuda_device.h"

namespace kvtier::testing {
namespace {

EngineWork WorkOf(cudaStream_t stream) {
  return {.kind = EngineWork::Kind::kStream, .handle = stream};
}

// Were the word used again, its first stream could lower it below the value of the new mark.
TEST(CudaOutsideStreamsTest, AWordThatAStreamIsStillToWriteIsNotUsedAgain) {
  cudaStream_t held_up = nullptr;
  cudaStream_t idle = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&held_up, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithPriority(&idle, cudaStreamNonBlocking, 0), cudaSuccess);
  MonotonicClock clock;
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  {
    const auto device = *OpenCudaDevice({.compute_stream = held_up}, &clock);
    ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
    ASSERT_TRUE(device->Await(Lane::kCompute, page->word(0), 1).ok());
    const auto streams = *OpenCudaOutsideStreams(0);

    const SignalWord* const late = streams->MarkOf(WorkOf(held_up))->word;
    std::vector<WorkMark> marks;
    for (size_t i = 1; i < kSignalWords; ++i) {
      marks.push_back(*streams->MarkOf(WorkOf(idle)));
      ASSERT_NE(marks.back().word, late);
    }
    EXPECT_EQ(streams->MarkOf(WorkOf(idle)).status().code(), absl::StatusCode::kResourceExhausted);

    device->Raise(page->word(0), 1);
    ASSERT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
    EXPECT_TRUE(Await(absl::Seconds(10), [&] { return streams->MarkOf(WorkOf(idle)).ok(); }));
  }
  EXPECT_EQ(cudaStreamDestroy(idle), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(held_up), cudaSuccess);
}

}  // namespace
}  // namespace kvtier::testing

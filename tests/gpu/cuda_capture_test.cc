// Tests that an engine can capture a graph while the lanes go on. The fake GPU refuses calls that a
// capture forbids, and reports whether the graph was spoilt.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/testing/device_rig.h"
#include "tests/testing/fake_cuda.h"
#include "tier_gpu/device/cuda_device.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier::testing {
namespace {

class CudaCaptureTest : public ::testing::Test {
 protected:
  CudaCaptureTest() {
    EXPECT_EQ(cudaStreamCreateWithPriority(&engine_, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  ~CudaCaptureTest() override { EXPECT_EQ(cudaStreamDestroy(engine_), cudaSuccess); }

  MonotonicClock clock_;
  cudaStream_t engine_ = nullptr;
};

// torch captures in the mode "global": one forbidden call of any thread ends the capture.
TEST_F(CudaCaptureTest, AllThatADeviceDoesLeavesACaptureAsItIs) {
  fake_cuda::BeginCapture(engine_);
  {
    const Arena arena(kArenaBytes);
    const auto device = *OpenCudaDevice({.kernels = true, .compute_stream = engine_}, &clock_);
    const auto region = *device->CreateRegion({.handle_bytes = kHandleBytes}, 1);
    ASSERT_EQ(device->Pin(arena.bytes()), absl::OkStatus());
    const CopySegment segment = {0, arena.bytes().data(), 4096};
    ASSERT_TRUE(device->Submit({.region = region.get(), .segments = {&segment, 1}}).ok());
    ASSERT_EQ(SubmitRow(device.get(), region.get(), arena.bytes()), absl::OkStatus());
    EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
    EXPECT_EQ(device->Unpin(arena.bytes()), absl::OkStatus());
  }
  EXPECT_TRUE(fake_cuda::EndCapture());
}

// The device asks CUDA for errors when a word does not change.
TEST_F(CudaCaptureTest, ASilentLaneIsAskedAboutAndTheCaptureStays) {
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  const auto device = *OpenCudaDevice({}, &clock_);
  ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
  ASSERT_TRUE(device->Await(Lane::kOnboard, page->word(0), 1).ok());
  fake_cuda::BeginCapture(engine_);
  EXPECT_EQ(device->Drain(absl::Milliseconds(50)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device->state(), absl::OkStatus());
  EXPECT_TRUE(fake_cuda::EndCapture());
  device->Raise(page->word(0), 1);
  EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
}

// A word in a graph would be written, or waited for, whenever the engine runs the graph.
TEST_F(CudaCaptureTest, AStreamThatCapturesTakesNoWords) {
  for (const cudaStream_t compute : {engine_, cudaStream_t{nullptr}}) {
    const std::unique_ptr<SignalPage> page = *SignalPage::Create();
    const auto device = *OpenCudaDevice({.compute_stream = compute}, &clock_);
    ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
    fake_cuda::BeginCapture(engine_);
    for (const auto& put : {device->Signal(Lane::kCompute, page->word(0), 1).status(),
                            device->Await(Lane::kCompute, page->word(0), 1).status()}) {
      EXPECT_EQ(put.code(), absl::StatusCode::kFailedPrecondition) << put;
    }
    EXPECT_TRUE(device->Signal(Lane::kOnboard, page->word(0), 1).ok()) << "a stream of its own";
    EXPECT_TRUE(fake_cuda::EndCapture());
    EXPECT_TRUE(device->Await(Lane::kCompute, page->word(0), 1).ok());
    EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
  }
}

// cudaStreamPerThread is another stream on each thread, and the lanes have a thread of their own.
TEST_F(CudaCaptureTest, TheStreamOfEachThreadIsNoComputeStream) {
  const auto device = OpenCudaDevice({.compute_stream = cudaStreamPerThread}, &clock_);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaCaptureTest, TheThreadsOwnModeComesBack) {
  const auto device = *OpenCudaDevice({}, &clock_);
  device->Poll({});
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  const auto another = *OpenCudaDevice({}, &clock_);
  mode = cudaStreamCaptureModeGlobal;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeThreadLocal);
}

// Calls the lane without the capture mode that the device sets. CUDA refuses because of the
// capture, which says nothing about the stream.
TEST_F(CudaCaptureTest, WhatACaptureRefusesToTellIsNotKnown) {
  SignalWord word = 0;
  const auto driver = *CudaDriver::Find();
  const auto lane = *CudaLane::Open(driver, {.lane = Lane::kOnboard, .word = &word});
  fake_cuda::BeginCapture(engine_);
  EXPECT_FALSE(lane->Quiet());
  EXPECT_EQ(lane->Failure(), absl::OkStatus());
  EXPECT_FALSE(fake_cuda::EndCapture()) << "and the fake notices who asks";
  EXPECT_TRUE(lane->Quiet());
}

}  // namespace
}  // namespace kvtier::testing

// Tests the promises of Device with the CUDA form on a GPU.
#include "tests/testing/block_cases.h"
#include "tests/testing/device_cases.h"
#include "tests/testing/region_cases.h"
#ifdef KVTIER_HAVE_CUDA
#include "tier_gpu/device/cuda_device.h"
#endif

namespace kvtier::testing {
namespace {

const DeviceForm kCuda = {
    .name = "Gpu",
    .open = [](const Clock* clock,
               uint64_t pin_chunk_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
#ifdef KVTIER_HAVE_CUDA
      // A buffer holds a few of the tests' blocks, so a batch needs several buffers.
      return OpenCudaDevice(
          {.kernels = true, .largest_block = 5 * kBlockRaw, .pin_chunk_bytes = pin_chunk_bytes},
          clock);
#else
      (void)clock, (void)pin_chunk_bytes;
      return absl::UnavailableError("this build has no CUDA");
#endif
    }};

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceTest, ::testing::Values(kCuda),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Cuda, BlockBatchTest, ::testing::Values(kCuda),
                         [](const auto& info) { return info.param.name; });

#ifdef KVTIER_HAVE_CUDA

class CudaDeviceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> Open(const CudaOptions& options) {
    auto device = OpenCudaDevice(options, &clock_);
    return device.ok() ? *std::move(device) : nullptr;
  }
  void SetUp() override {
    const auto device = OpenCudaDevice({}, &clock_);
    if (!device.ok()) GTEST_SKIP() << "NOT TESTED: " << device.status();
  }
  MonotonicClock clock_;
};

TEST_F(CudaDeviceTest, OnlyMemoryOfTheGpuIsAdopted) {
  const std::unique_ptr<Device> device = Open({});
  const auto region = device->CreateRegion({.handle_bytes = kHandleBytes, .max_handles = 2}, 1);
  ASSERT_TRUE(region.ok()) << region.status();
  const Arena arena(kHandleBytes);
  ASSERT_EQ(device->Pin(arena.bytes()), absl::OkStatus());
  std::byte* const start = (*region)->address();
  // These ranges pass the region's end, or are pinned host memory.
  for (const std::span<std::byte> range : {std::span(start + kHandleBytes - 1, 2),
                                           std::span(start + kHandleBytes, 1), arena.bytes()}) {
    EXPECT_EQ(device->AdoptRegion({&range, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  ASSERT_EQ((*region)->Grow(), absl::OkStatus());
  const std::span<std::byte> both(start, 2 * kHandleBytes);
  EXPECT_EQ(device->AdoptRegion({&both, 1}).status(), absl::OkStatus()) << "two handles";
}

TEST_F(CudaDeviceTest, MemoryThatIsNotThereIsResourceExhausted) {
  const std::unique_ptr<Device> device = Open({});
  EXPECT_EQ(device->CreateRegion({.handle_bytes = uint64_t{1} << 42}, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device->CreateRegion({.handle_bytes = kHandleBytes}, 1).ok());
  EXPECT_EQ(device->state(), absl::OkStatus());
}

// Submits a block of 32 bytes in the first words of the page.
absl::Status SubmitSmallBlock(Device* device, DeviceRegion* region, SignalPage* page) {
  const BlockGeometry geometry = {.shape = {.layers = 1, .axes = 1, .tokens = 2, .kv_heads = 1},
                                  .row_bytes = 16,
                                  .planes = {0}};
  std::byte* const pinned = page->bytes().data();
  const BlockTransfer block = {.host = pinned};
  return device
      ->SubmitBlocks({.region = region,
                      .geometry = &geometry,
                      .block_bytes = 32,
                      .blocks = {&block, 1},
                      .outcomes = reinterpret_cast<BlockOutcomes*>(pinned + 64)})
      .status();
}

TEST_F(CudaDeviceTest, BlocksNeedKernelsAndRoomForThem) {
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  ASSERT_GE(page->bytes().size(), 64 + sizeof(BlockOutcomes));
  for (const CudaOptions& options :
       {CudaOptions{.kernels = false}, CudaOptions{.kernels = true, .largest_block = 31},
        CudaOptions{.kernels = true, .largest_block = 32}}) {
    const std::unique_ptr<Device> device = Open(options);
    const auto region = device->CreateRegion({.handle_bytes = kHandleBytes}, 1);
    ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
    const absl::Status status = SubmitSmallBlock(device.get(), region->get(), page.get());
    if (options.kernels && options.largest_block == 32) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      const std::string named =
          options.kernels ? "at most 31, the largest_block" : "without kernels";
      EXPECT_NE(status.ToString().find(named), std::string::npos) << status;
    }
    EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
    EXPECT_EQ(device->Unpin(page->bytes()), absl::OkStatus());
  }
}

// If the stream is full, a word waits outside, and only polling feeds it to the stream.
TEST_F(CudaDeviceTest, WhatHasNoRoomInTheStreamIsNotHandedOver) {
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  const Arena arena(kArenaBytes);
  const std::unique_ptr<Device> device = Open({});
  const auto region = *device->CreateRegion({.handle_bytes = kHandleBytes}, 1);
  ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
  ASSERT_EQ(device->Pin(arena.bytes()), absl::OkStatus());
  std::vector<CopySegment> segments;
  for (uint64_t i = 0; i < kMaxCopySegments; ++i) {
    segments.push_back({i * 1024, &arena.bytes()[i * 2048], 1024});
  }
  const Rescuer rescuer(page.get(), Patience(absl::Minutes(2)));
  const Ticket awaited = *device->Await(Lane::kOnboard, page->word(0), 1);
  ASSERT_TRUE(device->Submit({.region = region.get(), .segments = segments}).ok());
  const Ticket signalled = *device->Signal(Lane::kOnboard, page->word(1), 1);
  EXPECT_TRUE(device->HandedOver(awaited));
  EXPECT_FALSE(device->HandedOver(signalled));
  device->Raise(page->word(0), 1);
  EXPECT_TRUE(testing::Await(absl::Seconds(20), [&] {
    device->Poll({});
    return device->HandedOver(signalled);
  }));
  EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
  EXPECT_EQ(page->word(1)->load(), 1U);
  EXPECT_TRUE(device->HandedOver(signalled));
}

TEST_F(CudaDeviceTest, TheEnginesStreamSignalsAndWaits) {
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  const std::unique_ptr<Device> device = Open({.compute_stream = nullptr});
  ASSERT_EQ(device->Pin(page->bytes()), absl::OkStatus());
  ASSERT_TRUE(device->Signal(Lane::kCompute, page->word(0), 1).ok());
  ASSERT_TRUE(device->Await(Lane::kOnboard, page->word(0), 1).ok());
  EXPECT_EQ(device->Drain(Patience(absl::Seconds(20))), absl::OkStatus());
}

#endif

}  // namespace
}  // namespace kvtier::testing

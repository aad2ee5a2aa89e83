// Tests what the CUDA device does when the GPU fails, which only a fake GPU does on demand.
#include <gtest/gtest.h>

#include <optional>

#include "tests/testing/device_rig.h"
#include "tests/testing/fake_cuda.h"
#include "tier_gpu/device/cuda_device.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier::testing {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class CudaFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = *OpenCudaDevice({.kernels = true, .pin_chunk_bytes = kTestPinChunk}, &clock_);
    region_ = *device_->CreateRegion({.handle_bytes = kHandleBytes, .max_handles = 2}, 1);
    ASSERT_EQ(device_->Pin(arena_.bytes()), absl::OkStatus());
    ASSERT_EQ(device_->Pin(page_->bytes()), absl::OkStatus());
  }
  void TearDown() override {
    region_.reset();
    device_.reset();
    fake_cuda::Repair();
  }

  absl::Status Submit() {
    const CopySegment segment = {0, arena_.bytes().data(), 4096};
    return device_
        ->Submit({.direction = CopyDirection::kHostToDevice,
                  .region = region_.get(),
                  .segments = {&segment, 1}})
        .status();
  }
  absl::Status SubmitBlocks(CopyDirection direction) {
    return SubmitRow(device_.get(), region_.get(), arena_.bytes(), direction);
  }
  // Polls until `count` operations have ended.
  std::vector<absl::Status> Ends(size_t count) {
    std::vector<absl::Status> ends;
    EXPECT_TRUE(Await(absl::Seconds(20), [&] {
      std::array<Completion, 8> ended;
      const size_t polled = device_->Poll(ended);
      for (size_t i = 0; i < polled; ++i) ends.push_back(ended[i].status);
      return ends.size() >= count;
    }));
    EXPECT_EQ(ends.size(), count);
    return ends;
  }

  const uint64_t registered_before_ = fake_cuda::RegisteredBytes();
  MonotonicClock clock_;
  std::unique_ptr<SignalPage> page_ = *SignalPage::Create();
  const Arena arena_{kArenaBytes};
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceRegion> region_;
};

TEST_F(CudaFaultsTest, AFailedCopyLosesTheDeviceAndEndsEverything) {
  for (const bool blocks : {false, true}) {
    ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(0), 1).ok());
    ASSERT_EQ(blocks ? SubmitBlocks(kIn) : Submit(), absl::OkStatus());
    ASSERT_TRUE(device_->Signal(Lane::kOnboard, page_->word(1), 1).ok());
    ASSERT_TRUE(device_->Await(Lane::kCompute, page_->word(1), 1).ok());
    fake_cuda::FailNextMove();
    device_->Raise(page_->word(0), 1);
    const std::vector<absl::Status> ends = Ends(4);
    // The first operation is the wait for the word, which may have ended well before the failure.
    for (size_t i = 1; i < ends.size(); ++i) EXPECT_EQ(ends[i].code(), kUnavailable) << i;
    EXPECT_EQ(page_->word(1)->load(), 0) << "not signalled behind a failure";
    EXPECT_EQ(device_->next_poll(), absl::InfiniteFuture());
    page_->word(0)->store(0);
    TearDown();
    SetUp();
  }
}

TEST_F(CudaFaultsTest, ALostDeviceRefusesEverythingAndDoesNotHang) {
  fake_cuda::FailNextMove();
  ASSERT_EQ(Submit(), absl::OkStatus());
  const absl::Status ended = Ends(1)[0];
  EXPECT_EQ(ended.code(), kUnavailable);
  EXPECT_FALSE(IsAbandoned(ended)) << "nothing runs any more";
  EXPECT_EQ(device_->state().code(), kUnavailable);
  EXPECT_EQ(Submit().code(), kUnavailable);
  EXPECT_EQ(device_->Signal(Lane::kOffload, page_->word(0), 1).status().code(), kUnavailable);
  EXPECT_EQ(device_->Await(Lane::kCompute, page_->word(0), 1).status().code(), kUnavailable);
  EXPECT_EQ(device_->CreateRegion(region_->shape(), 1).status().code(), kUnavailable);
  EXPECT_EQ(device_->ImportRegion(region_->shape(), {}, device_->uuid()).status().code(),
            kUnavailable);
  EXPECT_EQ(device_->Pin(page_->bytes()).code(), kUnavailable);
  EXPECT_EQ(device_->Drain(absl::InfiniteDuration()).code(), kUnavailable);
  EXPECT_EQ(device_->Unpin(page_->bytes()), absl::OkStatus());
}

// Kernels and copies of blocks fail like other operations, and a lost device takes no blocks.
TEST_F(CudaFaultsTest, AFailedBatchOfBlocksLosesTheDevice) {
  for (const CopyDirection direction : {kIn, kOut}) {
    ASSERT_EQ(SubmitBlocks(direction), absl::OkStatus());
    EXPECT_EQ(Ends(1)[0], absl::OkStatus());
    fake_cuda::FailNextMove();
    ASSERT_EQ(SubmitBlocks(direction), absl::OkStatus());
    EXPECT_EQ(Ends(1)[0].code(), kUnavailable);
    EXPECT_EQ(SubmitBlocks(direction).code(), kUnavailable);
    TearDown();
    SetUp();
  }
}

// A call that CUDA refuses, for example for a bad argument, fails that copy only: the device goes
// on.
TEST_F(CudaFaultsTest, ARefusedCallFailsItsCopyAndNothingElse) {
  for (const bool blocks : {false, true}) {
    SCOPED_TRACE(blocks);
    const auto submit = [this, blocks] { return blocks ? SubmitBlocks(kIn) : Submit(); };
    fake_cuda::RefuseNextMove();
    ASSERT_EQ(submit(), absl::OkStatus()) << "it has its place, and its end is polled";
    const absl::Status end = Ends(1)[0];
    EXPECT_EQ(end.code(), kUnavailable);
    EXPECT_NE(end.message().find("an error of the fake's"), std::string::npos) << end;
    EXPECT_FALSE(IsAbandoned(end));
    EXPECT_EQ(device_->state(), absl::OkStatus());
    ASSERT_EQ(submit(), absl::OkStatus());
    EXPECT_EQ(Ends(1)[0], absl::OkStatus());
  }
}

// Each call of a batch of blocks fails in turn; the calls that were put into the streams end first.
TEST_F(CudaFaultsTest, ARefusedCallInsideABatchOfBlocksFailsTheBatch) {
  for (const CopyDirection direction : {kIn, kOut}) {
    for (const uint64_t nth : {1, 2}) {
      fake_cuda::RefuseMove(nth);
      ASSERT_EQ(SubmitBlocks(direction), absl::OkStatus());
      EXPECT_EQ(Ends(1)[0].code(), kUnavailable) << nth;
      ASSERT_EQ(SubmitBlocks(direction), absl::OkStatus());
      EXPECT_EQ(Ends(1)[0], absl::OkStatus());
    }
  }
}

// A word tells its reader that the copy is done.
TEST_F(CudaFaultsTest, NoWordIsWrittenBehindARefusedCopyUntilItsEndIsPolled) {
  fake_cuda::RefuseNextMove();
  ASSERT_EQ(Submit(), absl::OkStatus());
  ASSERT_TRUE(device_->Signal(Lane::kOnboard, page_->word(0), 1).ok());
  ASSERT_TRUE(device_->Signal(Lane::kOffload, page_->word(1), 1).ok());
  std::vector<absl::Status> ends = Ends(3);
  EXPECT_EQ(std::ranges::count(ends, absl::OkStatus()), 1) << "the other lane's";
  EXPECT_EQ(page_->word(0)->load(), 0U);
  EXPECT_EQ(page_->word(1)->load(), 1U);
  ASSERT_TRUE(device_->Signal(Lane::kOnboard, page_->word(0), 1).ok());
  EXPECT_EQ(Ends(1)[0], absl::OkStatus());
  EXPECT_EQ(page_->word(0)->load(), 1U);
}

// Without the wait, later operations would run too early.
TEST_F(CudaFaultsTest, ARefusedWaitForAWordLosesTheDevice) {
  fake_cuda::RefuseNextWait();
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(0), 1).ok());
  EXPECT_EQ(device_->state().code(), kUnavailable);
  EXPECT_EQ(Ends(1)[0].code(), kUnavailable);
}

// Copies of a lost device may still run in host memory. The memory's owner gets it back only when
// the copies end.
TEST_F(CudaFaultsTest, ALostDevicesCopiesEndOnceWhatRunsHasEnded) {
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(0), 1).ok());
  ASSERT_EQ(Submit(), absl::OkStatus());
  fake_cuda::RefuseNextWait();
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(1), 1).ok());
  EXPECT_EQ(device_->state().code(), kUnavailable);
  std::array<Completion, 8> ended;
  EXPECT_EQ(device_->Poll(ended), 0);
  EXPECT_NE(device_->next_poll(), absl::InfiniteFuture());
  device_->Raise(page_->word(0), 1);
  EXPECT_EQ(Ends(3)[2].code(), kUnavailable);
}

TEST_F(CudaFaultsTest, ALostDeviceEndsWhatWaitsForever) {
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(0), 1).ok());
  fake_cuda::RefuseNextWait();
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page_->word(1), 1).ok());
  for (const absl::Status& end : Ends(2)) EXPECT_EQ(end.code(), kUnavailable);
  device_->Raise(page_->word(0), 1);
}

// The driver unmaps memory under running copies, and a copy that was given up may still run.
TEST_F(CudaFaultsTest, MemoryOfAnAbandonedCopyStaysMappedAndPinned) {
  // The page stays registered until the process ends.
  const SignalPage* const page = SignalPage::Create()->release();
  ASSERT_EQ(device_->Pin(page->bytes()), absl::OkStatus());
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page->word(0), 1).ok());
  ASSERT_EQ(Submit(), absl::OkStatus());
  fake_cuda::RefuseNextWait();
  ASSERT_TRUE(device_->Await(Lane::kOnboard, page->word(1), 1).ok());
  for (const absl::Status& end : Ends(3)) {
    EXPECT_EQ(end.code(), kUnavailable);
    EXPECT_TRUE(IsAbandoned(end));
  }
  EXPECT_EQ(region_->Grow().code(), kUnavailable);
  region_.reset();
  const uint64_t before = fake_cuda::RegisteredBytes();
  EXPECT_EQ(device_->Unpin(page->bytes()), absl::OkStatus());
  EXPECT_EQ(device_->Unpin(page->bytes()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fake_cuda::RegisteredBytes(), before);
  page->Release(0, 1);
  device_.reset();  // Runs after the copy has run.
}

// The toolkit that built this test has batched copies; the driver of the machine may be older.
TEST_F(CudaFaultsTest, ADriverWithoutBatchedCopiesIsNotOpened) {
  fake_cuda::SetDriverVersion(12070);
  const absl::Status status = OpenCudaDevice({}, &clock_).status();
  EXPECT_EQ(status.code(), kUnavailable);
  EXPECT_NE(status.message().find("CUDA 12.7; update it to one for CUDA 12.8 or later"),
            std::string::npos)
      << status;
}

TEST_F(CudaFaultsTest, APinningThatFailsHalfWayIsTakenBack) {
  const Arena second(3 * kTestPinChunk);
  const uint64_t before = fake_cuda::RegisteredBytes();
  fake_cuda::FailRegistration(3);
  EXPECT_EQ(device_->Pin(second.bytes()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake_cuda::RegisteredBytes(), before);
  EXPECT_EQ(device_->Unpin(second.bytes()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(device_->Pin(second.bytes()), absl::OkStatus());
  EXPECT_EQ(device_->Unpin(second.bytes()), absl::OkStatus());
  EXPECT_EQ(fake_cuda::RegisteredBytes(), before);
  EXPECT_EQ(SubmitBlocks(kIn), absl::OkStatus());
  EXPECT_EQ(Ends(1)[0], absl::OkStatus()) << "the error is no other call's";
}

TEST_F(CudaFaultsTest, AClosedDeviceGivesHostMemoryBack) {
  ASSERT_EQ(SubmitBlocks(kIn), absl::OkStatus());
  EXPECT_EQ(Ends(1)[0], absl::OkStatus());
  region_.reset();
  device_.reset();
  EXPECT_EQ(fake_cuda::RegisteredBytes(), registered_before_);
}

TEST_F(CudaFaultsTest, ADeviceWhoseLaneWaitsIsClosedAllTheSame) {
  for (const Lane lane : {Lane::kOnboard, Lane::kCompute}) {
    region_.reset();
    device_ = *OpenCudaDevice({.compute_stream = nullptr}, &clock_);
    // The page stays registered until the process ends.
    const SignalPage* const page = SignalPage::Create()->release();
    const uint64_t before = fake_cuda::RegisteredBytes();
    ASSERT_EQ(device_->Pin(page->bytes()), absl::OkStatus());
    ASSERT_TRUE(device_->Await(lane, page->word(0), 1).ok());
    device_.reset();
    EXPECT_GT(fake_cuda::RegisteredBytes(), before) << "what still waits keeps what it uses";
    page->Release(0, 1);
  }
}

}  // namespace
}  // namespace kvtier::testing

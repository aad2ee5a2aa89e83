// Tests lanes on a device beside an engine's own streams, on the fake GPU of the tests.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "client/device_lanes/device_lanes.h"
#include "tests/client/host_rig.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_cuda.h"
#include "tier_gpu/device/cuda_driver.h"

namespace kvtier {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HostRig;
using testing::Patience;
using testing::ResultsOf;
using testing::Slots;
using testing::TestKeys;
namespace fake_cuda = testing::fake_cuda;

constexpr uint32_t kSlots = 8;
constexpr uint64_t kRun = 4096;
constexpr uint64_t kBytes = 2 * kRun * kSlots;

// An engine with KV on the GPU, keys and values apart, and a stream whose work ends on demand.
class DeviceLanesOnFakeTest : public ::testing::Test {
 protected:
  DeviceLanesOnFakeTest()
      : driver_(*CudaDriver::Find()),
        context_(*CudaContext::Open(driver_, 0)),
        scope_(context_),
        page_(*SignalPage::Create()) {
    void* tensor = nullptr;
    EXPECT_EQ(cudaMalloc(&tensor, kBytes), cudaSuccess);
    tensor_ = static_cast<std::byte*>(tensor);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaHostRegister(page_->bytes().data(), page_->bytes().size(),
                               cudaHostRegisterPortable | cudaHostRegisterMapped),
              cudaSuccess);
    for (uint32_t slot = 0; slot < 4; ++slot) Compute(slot, static_cast<int>(slot + 1));
    space_ = *rig_.client().RegisterSpace(Spec());
    lanes_ = *Open(Tensors());
  }
  ~DeviceLanesOnFakeTest() override {
    Finish();
    lanes_.reset();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaHostUnregister(page_->bytes().data()), cudaSuccess);
    EXPECT_EQ(cudaFree(tensor_), cudaSuccess);
  }

  absl::StatusOr<std::unique_ptr<DeviceLanes>> Open(const KvTensors& tensors) {
    return DeviceLanes::Open(&rig_.client(), space_, tensors,
                             *devices_.Of(&rig_.client(), "cuda:0", 2 * kRun));
  }
  static SpaceSpec Spec() {
    SpaceSpec spec = testing::TestSpace(2 * kRun);
    spec.layers = 1;
    spec.layout = SpaceLayout(KvAxes::kApart, KvOrder::kTokenHead);
    return spec;
  }
  KvTensors Tensors() const {
    return {.tensors = {{tensor_, kBytes}},
            .axes = KvAxes::kApart,
            .layers = 1,
            .slots = kSlots,
            .run_bytes = kRun,
            .block_stride = kRun,
            .bases = {{.tensor = 0, .offset = 0}, {.tensor = 0, .offset = kSlots * kRun}}};
  }
  std::byte* Run(int axis, uint32_t slot) const {
    return fake_cuda::HostSide(tensor_) + (axis * kSlots + slot) * kRun;
  }
  void Compute(uint32_t slot, int content) {
    for (int axis = 0; axis < 2; ++axis) std::memset(Run(axis, slot), content + 40 * axis, kRun);
  }
  bool Holds(uint32_t slot, int content) const {
    for (int axis = 0; axis < 2; ++axis) {
      const auto wanted = static_cast<std::byte>(content + 40 * axis);
      const std::byte* const run = Run(axis, slot);
      if (!std::all_of(run, run + kRun, [&](std::byte byte) { return byte == wanted; })) {
        return false;
      }
    }
    return true;
  }
  // Starts a step in the engine's stream that lasts until Finish().
  void Begin() {
    void* word = nullptr;
    ASSERT_EQ(cudaHostGetDevicePointer(&word, page_->word(0), 0), cudaSuccess);
    ASSERT_EQ(driver_.wait_word(stream_, reinterpret_cast<CUdeviceptr>(word), 1,
                                CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
  }
  void Finish() { page_->word(0)->store(1); }
  EngineWork Stream() const { return {EngineWork::Kind::kStream, stream_}; }
  // Records an event after the work that the stream has so far.
  EngineWork Event() const {
    EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
    return {EngineWork::Kind::kEvent, event_};
  }
  void Store(size_t count) {
    EXPECT_THAT(ResultsOf(lanes_->Offload(TestKeys(1, count), {}, Slots(0, count), {})),
                Each(true));
  }

  const CudaDriver driver_;
  const CudaContext context_;
  const CudaScope scope_;
  const std::unique_ptr<SignalPage> page_;
  std::byte* tensor_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  HostRig rig_;
  LaneDevices devices_;
  SpaceHandle space_{};
  std::unique_ptr<DeviceLanes> lanes_;
};

TEST_F(DeviceLanesOnFakeTest, ADeviceThatIsOpenTakesNoLargerBlocks) {
  EXPECT_TRUE(devices_.Of(&rig_.client(), "cuda:0", kMaxBlockBatchBytes).ok());
  const absl::Status larger =
      devices_.Of(&rig_.client(), "cuda:0", kMaxBlockBatchBytes + 1).status();
  EXPECT_EQ(larger.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(larger.message()), HasSubstr("blocks of at most 16777216 bytes"));
}

TEST_F(DeviceLanesOnFakeTest, BlocksOfTheGpuComeBack) {
  Store(3);
  EXPECT_THAT(ResultsOf(lanes_->Onboard(TestKeys(1, 3), Slots(5, 3), {})), Each(true));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(Holds(5 + i, static_cast<int>(i + 1))) << i;
}

TEST_F(DeviceLanesOnFakeTest, AnOffloadReadsNothingBeforeTheStreamOrTheEventIsReached) {
  for (const bool by_event : {false, true}) {
    page_->word(0)->store(0);
    Begin();
    Compute(0, 77);
    const auto keys = TestKeys(by_event ? 50 : 60, 1);
    const auto job =
        lanes_->Offload(keys, {}, Slots(0, 1), {.after = by_event ? Event() : Stream()});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_FALSE((*job)->Wait(absl::Milliseconds(20)));
    EXPECT_FALSE((*job)->copied());
    Compute(0, 3);  // Does what the step does at its end.
    Finish();
    EXPECT_THAT(ResultsOf(job), ElementsAre(true));
    EXPECT_THAT(ResultsOf(lanes_->Onboard(keys, Slots(6, 1), {})), ElementsAre(true));
    EXPECT_TRUE(Holds(6, 3)) << by_event;
    Compute(6, 9);
  }
}

// A job does not wait for work that the stream gets after the call.
TEST_F(DeviceLanesOnFakeTest, AMarkIsOfTheMomentOfTheCall) {
  const EngineWork before = Event();
  Begin();
  EXPECT_THAT(ResultsOf(lanes_->Offload(TestKeys(1, 1), {}, Slots(0, 1), {.after = before})),
              ElementsAre(true));
  const auto behind = lanes_->Offload(TestKeys(9, 1), {}, Slots(0, 1), {.after = Stream()});
  ASSERT_TRUE(behind.ok());
  EXPECT_FALSE((*behind)->Wait(absl::Milliseconds(10)));
  Finish();
  EXPECT_THAT(ResultsOf(behind), ElementsAre(true));
}

TEST_F(DeviceLanesOnFakeTest, AnOnboardWritesNothingBeforeTheStepThatReadsTheBlocksHasEnded) {
  Store(1);
  Compute(5, 33);
  Begin();
  const auto job = lanes_->Onboard(TestKeys(1, 1), Slots(5, 1), {.after = Stream()});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE((*job)->Wait(absl::Milliseconds(20)));
  EXPECT_TRUE(Holds(5, 33));
  Finish();
  EXPECT_THAT(ResultsOf(job), ElementsAre(true));
  EXPECT_TRUE(Holds(5, 1));
}

TEST_F(DeviceLanesOnFakeTest, AnEventIsRecordedBehindTheCopiesOfAnOnboard) {
  Store(2);
  Begin();
  const auto job =
      lanes_->Onboard(TestKeys(1, 2), Slots(5, 2), {.after = Stream(), .record = event_});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE((*job)->Wait(absl::Milliseconds(10)));
  EXPECT_FALSE((*job)->recorded());
  Finish();
  EXPECT_THAT(ResultsOf(job), Each(true));
  EXPECT_TRUE((*job)->recorded());
  EXPECT_TRUE(Eventually([this] { return cudaEventQuery(event_) == cudaSuccess; }));
  EXPECT_TRUE(Holds(5, 1) && Holds(6, 2));
}

TEST_F(DeviceLanesOnFakeTest, AMissRecordsNothing) {
  const auto job = lanes_->Onboard(TestKeys(70, 2), Slots(5, 2), {.record = event_});
  EXPECT_THAT(ResultsOf(job), Each(false));
  EXPECT_FALSE((*job)->recorded());
}

TEST_F(DeviceLanesOnFakeTest, AStreamThatCapturesAGraphIsRefusedAndTheGraphStays) {
  fake_cuda::BeginCapture(stream_);
  const auto job = lanes_->Offload(TestKeys(1, 1), {}, Slots(0, 1), {.after = Stream()});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("is capturing a CUDA graph"));
  EXPECT_THAT(ResultsOf(lanes_->Offload(TestKeys(1, 1), {}, Slots(0, 1), {})), ElementsAre(true));
  EXPECT_TRUE(fake_cuda::EndCapture());
}

TEST_F(DeviceLanesOnFakeTest, MoreMarksThanWordsAreRefusedUntilSomeAreReached) {
  Begin();
  std::vector<std::shared_ptr<HostJob>> jobs;
  absl::Status refused;
  while (refused.ok()) {
    const auto job = lanes_->Offload(TestKeys(1, 1), {}, Slots(0, 1), {.after = Stream()});
    refused = job.status();
    if (job.ok()) jobs.push_back(*job);
    ASSERT_LE(jobs.size(), 100U);
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  Finish();
  for (const auto& job : jobs) EXPECT_TRUE(job->Wait(Patience(testing::kLong)));
  EXPECT_THAT(ResultsOf(lanes_->Offload(TestKeys(1, 1), {}, Slots(0, 1), {.after = Stream()})),
              ElementsAre(true));
}

// With two groups of KV the agent's memory is pinned once, and each set of lanes runs without the
// other.
TEST_F(DeviceLanesOnFakeTest, LanesOfOneClientShareTheirDevice) {
  Store(1);  // Pins the memory of this block; the agent has no other.
  const uint64_t pinned = fake_cuda::RegisteredBytes();
  auto second = *Open(Tensors());
  EXPECT_THAT(ResultsOf(second->Onboard(TestKeys(1, 1), Slots(7, 1), {})), ElementsAre(true));
  EXPECT_EQ(fake_cuda::RegisteredBytes(), pinned);
  lanes_->Close();
  EXPECT_THAT(ResultsOf(second->Onboard(TestKeys(1, 1), Slots(6, 1), {})), ElementsAre(true));
  EXPECT_TRUE(Holds(6, 1) && Holds(7, 1));
}

TEST_F(DeviceLanesOnFakeTest, MemoryThatIsNotTheGpusIsRefused) {
  std::vector<std::byte> host(kBytes);
  KvTensors tensors = Tensors();
  tensors.tensors = {host};
  const auto lanes = Open(tensors);
  EXPECT_EQ(lanes.status().code(), absl::StatusCode::kInvalidArgument) << lanes.status();
}

}  // namespace
}  // namespace kvtier

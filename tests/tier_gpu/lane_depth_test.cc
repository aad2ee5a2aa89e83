// Holds the queue model of a lane against figures that others published, and the lanes' depth and
// poll interval against the model.
#include "tier_gpu/device/lane_depth.h"

#include <gtest/gtest.h>

#include "tier_gpu/device/copy.h"

namespace kvtier {
namespace {

// The copy engine of an H100 on PCIe 5.0 x16: 50 to 55.6 GB/s (nvbandwidth, vLLM).
constexpr double kLink = 55;
// A call of cudaMemcpyAsync on an H20: about 2.3 us (FlexKV #193).
constexpr double kCall = 2.3;
// A batched call takes 0.54 us more for each descriptor (H100, fit of vLLM #42212).
constexpr double kDescriptor = 0.54;
// A stream takes about 1,000 entries before its caller waits (vLLM #29013).
constexpr size_t kStreamEntries = 1000;

// GB/s of a loop that copies pieces by a call each, in one stream.
double LoopSpeed(uint64_t piece_bytes, double call_us) {
  const LaneQueue loop = {.link_gb_per_s = kLink,
                          .batch_bytes = piece_bytes,
                          .in_flight = kStreamEntries,
                          .call_us = call_us};
  return kLink * BusyShare(loop);
}

TEST(LaneDepthTest, ALoopOfShortCopiesIsAsSlowAsFlexKvMeasured) {
  EXPECT_NEAR(LoopSpeed(256, kCall), 0.11, 0.11 * 0.05);  // 256 bytes a call, H20 (FlexKV #193).
}

// llm-d replaced its loop by batched calls: 1.9 to 2.4 times as fast with small pieces, no gain
// with large ones (llm-d #607). Neither the call's cost nor a descriptor's is from there.
TEST(LaneDepthTest, BatchedCallsGainOverALoopWhatLlmDMeasured) {
  const double small = LoopSpeed(64 << 10, kDescriptor) / LoopSpeed(64 << 10, kCall);
  EXPECT_GT(small, 1.9);
  EXPECT_LT(small, 2.4);
  EXPECT_DOUBLE_EQ(LoopSpeed(kMaxCopyBytes, kDescriptor) / LoopSpeed(kMaxCopyBytes, kCall), 1);
}

// A lane's own delays. An idle Linux thread wakes 5 us late at the median and 23 us in one of 100
// (measured on a virtual machine).
struct Waking {
  double poll_us;
  double slack_us;
  double late_us;
};
constexpr Waking kBefore = {.poll_us = 20, .slack_us = 50, .late_us = 5};
const Waking kNow = {
    .poll_us = absl::ToDoubleMicroseconds(kLanePollInterval), .slack_us = 0.001, .late_us = 23};

// A batch of blocks of 2 MiB: ten calls, and a kernel that gathers 8 MiB in 65 us and then carries
// the sums of all blocks through in 84 us (measured on an H200; docs/results/2026-11-26-gpu.md).
constexpr uint64_t kBatch = kMaxBlockBatchBytes;
constexpr double kBatchCalls = 10 * kCall;
double KernelMicroseconds(uint64_t bytes) {
  return 65 * static_cast<double>(bytes) / (8 << 20) + 84;
}

double LaneShare(const Waking& waking, size_t in_flight, uint64_t bytes) {
  return BusyShare({.link_gb_per_s = kLink,
                    .batch_bytes = bytes,
                    .in_flight = in_flight,
                    .call_us = kBatchCalls,
                    .notice_us = waking.poll_us + waking.slack_us + waking.late_us,
                    .prepare_us = KernelMicroseconds(bytes)});
}

TEST(LaneDepthTest, TheLinkIsBusy) {
  EXPECT_GE(LaneShare(kNow, kMaxBatchesInFlight, kBatch), 0.95);
  EXPECT_GE(LaneShare(kNow, kMaxBatchesInFlight, kBatch / 2), 0.95);
  EXPECT_LT(LaneShare(kNow, kMaxBatchesInFlight, kBatch / 4), 0.7) << "kernels are slower";
}

// Lanes once had two batches of a quarter of the size in flight, 20 us between polls, and the
// default timer slack.
TEST(LaneDepthTest, TwoInFlightAndALatePollStarveIt) {
  EXPECT_LT(LaneShare(kBefore, 2, kBatch / 2), 0.8);
  EXPECT_LT(LaneShare(kBefore, 2, kBatch / 4), 0.6);
}

// Batches that are not full, as of a few layers or of a short job.
TEST(LaneDepthTest, TwoInFlightStarveItHoweverPromptThePoll) {
  EXPECT_LT(LaneShare(kNow, 2, kBatch / 2), 0.95);
}

}  // namespace
}  // namespace kvtier

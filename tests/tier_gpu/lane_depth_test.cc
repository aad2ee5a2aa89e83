// Compares the queue model of a lane with figures that others published, and the lanes' depth and
// poll interval with the model.
#include "tier_gpu/device/lane_depth.h"

#include <gtest/gtest.h>

#include "tier_gpu/device/copy.h"

namespace kvtier {
namespace {

// Speed of the copy engine of an H100 on PCIe 5.0 x16: 50 to 55.6 GB/s (nvbandwidth, vLLM).
constexpr double kLink = 55;
// Time of a call of cudaMemcpyAsync on an H20: about 2.3 us (FlexKV #193).
constexpr double kCall = 2.3;
// Extra time of a batched call for each descriptor: 0.54 us (H100, fitted to vLLM #42212).
constexpr double kDescriptor = 0.54;
// Number of entries that a stream takes before its caller waits, about 1,000 (vLLM #29013).
constexpr size_t kStreamEntries = 1000;

// Returns the GB/s of a loop that copies pieces by one call each, in one stream.
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
// with large ones (llm-d #607). The cost of a call and of a descriptor comes from other sources.
TEST(LaneDepthTest, BatchedCallsGainOverALoopWhatLlmDMeasured) {
  const double small = LoopSpeed(64 << 10, kDescriptor) / LoopSpeed(64 << 10, kCall);
  EXPECT_GT(small, 1.9);
  EXPECT_LT(small, 2.4);
  EXPECT_DOUBLE_EQ(LoopSpeed(kMaxCopyBytes, kDescriptor) / LoopSpeed(kMaxCopyBytes, kCall), 1);
}

// Delays of a lane's thread. An idle Linux thread wakes 5 us late at the median and 23 us in one of
// 100 cases (measured on a virtual machine).
struct Waking {
  double poll_us;
  double slack_us;
  double late_us;
};
constexpr Waking kBefore = {.poll_us = 20, .slack_us = 50, .late_us = 5};
const Waking kNow = {
    .poll_us = absl::ToDoubleMicroseconds(kLanePollInterval), .slack_us = 0.001, .late_us = 23};

// Batch of blocks of 2 MiB: ten calls, and a kernel that gathers 8 MiB in 65 us and then carries
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

// Batches are not full if they have a few layers or belong to a short job.
TEST(LaneDepthTest, TwoInFlightStarveItHoweverPromptThePoll) {
  EXPECT_LT(LaneShare(kNow, 2, kBatch / 2), 0.95);
}

}  // namespace
}  // namespace kvtier

#include "tier_gpu/device/staging_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool Everywhere(const std::byte*) { return true; }
bool Nowhere(const std::byte*) { return false; }

// Does what a device does with the plan: pieces into a buffer, runs out of it.
std::vector<std::byte> Offloaded(const std::vector<StagedPortion>& plan,
                                 const std::vector<std::byte>& device, std::byte* host,
                                 uint64_t host_bytes) {
  std::vector<std::byte> buffer(kStagingBufferBytes);
  for (const StagedPortion& portion : plan) {
    std::ranges::fill(buffer, std::byte{0xee});
    for (const StagedPiece& piece : portion.pieces) {
      EXPECT_LE(piece.buffer_offset + piece.bytes, kStagingBufferBytes);
      std::memcpy(buffer.data() + piece.buffer_offset, device.data() + piece.device_offset,
                  piece.bytes);
    }
    for (const StagedRun& run : portion.runs) {
      EXPECT_EQ(run.buffer_offset % 16, 0);
      std::memcpy(run.host, buffer.data() + run.buffer_offset, run.bytes);
    }
  }
  return {host, host + host_bytes};
}

TEST(StagingPlanTest, NeighboursInHostMemoryAreOneRun) {
  std::vector<std::byte> host(kMiB);
  std::vector<CopySegment> segments;
  for (uint64_t i = 0; i < 64; ++i) segments.push_back({i * 8192, host.data() + i * 4096, 4096});
  std::ranges::reverse(segments);
  const auto plan = PlanStaging(segments, Everywhere);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->size(), 1);
  EXPECT_EQ(plan->front().pieces.size(), 64);
  ASSERT_EQ(plan->front().runs.size(), 1);
  EXPECT_EQ(plan->front().runs[0].bytes, 64 * 4096);
}

TEST(StagingPlanTest, ARunEndsAtABorder) {
  std::vector<std::byte> host(kMiB);
  const std::vector<CopySegment> segments = {{0, host.data(), 4096},
                                             {8192, host.data() + 4096, 4096}};
  const auto plan = PlanStaging(segments, Nowhere);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->size(), 1);
  EXPECT_EQ(plan->front().runs.size(), 2);
}

TEST(StagingPlanTest, ManyRunsArePortionsOfTheirOwn) {
  std::vector<std::byte> host(kMiB);
  std::vector<CopySegment> segments;
  for (uint64_t i = 0; i < kMaxPortionRuns + 1; ++i) {
    segments.push_back({i * 4096, host.data() + i * 4096, 16});
  }
  const auto plan = PlanStaging(segments, Everywhere);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->size(), 2);
  EXPECT_EQ(plan->front().runs.size(), kMaxPortionRuns);
  EXPECT_EQ(plan->back().runs.size(), 1);
}

TEST(StagingPlanTest, AFullBatchIsFourPortions) {
  std::vector<std::byte> host(kMaxCopyBytes);
  const std::vector<CopySegment> segments = {{0, host.data(), kMaxCopyBytes}};
  const auto plan = PlanStaging(segments, Everywhere);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->size(), 4);
}

TEST(StagingPlanTest, NoSegmentsAreNoPortions) {
  const auto plan = PlanStaging({}, Everywhere);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->empty());
}

TEST(StagingPlanTest, MoreBuffersThanABatchMayFillAreRefused) {
  // Nothing is read: a plan is about addresses.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const nowhere = reinterpret_cast<std::byte*>(uint64_t{1} << 40);
  const uint64_t most = kMaxPortions * kStagingBufferBytes;
  const std::vector<CopySegment> fits = {{0, nowhere, most}};
  EXPECT_TRUE(PlanStaging(fits, Everywhere).ok());
  const std::vector<CopySegment> larger = {{0, nowhere, most + 1}};
  EXPECT_EQ(PlanStaging(larger, Everywhere).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StagingPlanTest, EveryByteArrivesWhereItBelongs) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 20; ++round) {
    constexpr uint64_t kBytes = 12 * kMiB;
    std::vector<std::byte> device(kBytes);
    for (uint64_t i = 0; i < kBytes; i += 97) device[i] = static_cast<std::byte>(random());
    std::vector<std::byte> host(kBytes);
    std::vector<std::byte> expected(kBytes);
    std::vector<CopySegment> segments;
    uint64_t at = 0;
    uint64_t end = kBytes;
    const uint64_t longest = uint64_t{1} << (random() % 23);
    while (segments.size() < kMaxCopySegments) {
      const uint64_t bytes = 1 + random() % longest;
      if (at + bytes > kBytes || bytes > end) break;
      end -= bytes;
      segments.push_back({end, host.data() + at, bytes});
      std::memcpy(expected.data() + at, device.data() + end, bytes);
      at += bytes + (random() % 3 == 0 ? random() % 100 : 0);
    }
    std::ranges::shuffle(segments, random);
    const uint64_t grid = uint64_t{1} << (12 + random() % 10);
    const auto plan = PlanStaging(segments, [grid](const std::byte* border) {
      return reinterpret_cast<uint64_t>(border) % grid != 0;
    });
    ASSERT_TRUE(plan.ok());
    size_t pieces = 0;
    for (const StagedPortion& portion : *plan) pieces += portion.pieces.size();
    EXPECT_LE(pieces, kMaxStagedPieces);
    EXPECT_TRUE(Offloaded(*plan, device, host.data(), kBytes) == expected) << "round " << round;
  }
}

}  // namespace
}  // namespace kvtier

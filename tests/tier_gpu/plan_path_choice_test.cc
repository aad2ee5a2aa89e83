#include <gtest/gtest.h>

#include "tier_gpu/plan/path_choice.h"

namespace kvtier {
namespace {

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr uint64_t kKiB = 1024;

CopyPath PathOf(CopyDirection direction, uint64_t segment_bytes, size_t segments) {
  return ChoosePath({.direction = direction, .segment_bytes = segment_bytes, .segments = segments},
                    LanePaths::kAll);
}

// vLLM #42212 takes its kernel from 16 segments below 28 KiB; of 28 KiB and 64 segments the copy
// engine is ahead, of 256 a kernel (vLLM #57555, H100).
TEST(PathChoiceTest, FollowsWhatWasPublishedOfAnH100) {
  EXPECT_EQ(PathOf(kIn, 4 * kKiB, 16), CopyPath::kStaged);
  EXPECT_EQ(PathOf(kIn, 24 * kKiB, 16), CopyPath::kStaged);
  EXPECT_EQ(PathOf(kIn, 28 * kKiB, 64), CopyPath::kBatch);
  EXPECT_EQ(PathOf(kIn, 28 * kKiB, 256), CopyPath::kStaged);
}

TEST(PathChoiceTest, FewSegmentsAndLongOnesAreTheCopyEngines) {
  for (const CopyDirection direction : {kIn, kOut}) {
    EXPECT_EQ(PathOf(direction, 1, 15), CopyPath::kBatch);
    EXPECT_EQ(PathOf(direction, 64 * kKiB, 127), CopyPath::kBatch);
    EXPECT_EQ(PathOf(direction, 64 * kKiB, 128), CopyPath::kStaged);
    EXPECT_EQ(PathOf(direction, 64 * kKiB + 1, 100'000), CopyPath::kBatch);
  }
  EXPECT_EQ(PathOf(kOut, 4 * kKiB, 63), CopyPath::kBatch) << "no cliff on the way out";
  EXPECT_EQ(PathOf(kOut, 4 * kKiB, 64), CopyPath::kStaged);
}

TEST(PathChoiceTest, ALaneWithoutKernelsHasTheCopyEngineAlone) {
  for (const CopyDirection direction : {kIn, kOut}) {
    const CopyJob job = {.direction = direction, .segment_bytes = kKiB, .segments = 100'000};
    EXPECT_EQ(ChoosePath(job, LanePaths::kEngine), CopyPath::kBatch);
    EXPECT_EQ(ChoosePath(job, LanePaths::kAll), CopyPath::kStaged);
  }
}

}  // namespace
}  // namespace kvtier

// Tests that our sums equal the library's.
#include "kernels/payload_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "core/checksum.h"
#include "kernels/copy_segments.h"
#include "tests/testing/test_seed.h"

namespace kvtier::kernels {
namespace {

class PayloadSumTest : public ::testing::Test {
 protected:
  PayloadSumTest() : noise_(size_t{5} << 20) {
    for (std::byte& byte : noise_) byte = static_cast<std::byte>(random_());
  }
  // Returns the sum of bytes appended in parts of up to `most` bytes.
  PayloadSum SumInParts(uint64_t bytes, uint64_t most) {
    PayloadSummer summer;
    for (uint64_t at = 0; at < bytes;) {
      const uint64_t part = std::min(bytes - at, 1 + random_() % most);
      summer.Append(&noise_[at], part);
      at += part;
    }
    return summer.Sum();
  }
  void ExpectTheLibrarys(const PayloadSum& sum, uint64_t bytes) {
    const kvtier::PayloadSum expected = SumPayload(std::span(noise_).first(bytes));
    EXPECT_TRUE(sum.hi == expected.hi && sum.lo == expected.lo && sum.bytes == bytes)
        << bytes << " bytes";
  }

  std::mt19937_64 random_{testing::TestSeed()};
  std::vector<std::byte> noise_;
};

TEST_F(PayloadSumTest, EveryLengthAroundPiecesAndStripes) {
  for (uint64_t bytes = kLeastSummedBytes; bytes <= 5000; ++bytes) {
    ExpectTheLibrarys(SumInParts(bytes, 1500), bytes);
  }
}

TEST_F(PayloadSumTest, LengthsOfBlocks) {
  for (const uint64_t bytes : {65536UL, 1UL << 20, 2UL << 20, (2UL << 20) + 64, 5UL << 20}) {
    ExpectTheLibrarys(SumInParts(bytes, uint64_t{1} << 20), bytes);
  }
}

TEST_F(PayloadSumTest, TheSumOfAGatherIsThatOfWhatItWrote) {
  constexpr uint64_t kRun = 176;
  constexpr uint32_t kRuns = 24;
  std::vector<std::byte> packed(kRun * kRuns);
  PayloadSum sum;
  LaneSums unused;
  uint32_t none = 0;
  const StridedSegment gather = {.source = noise_.data(),
                                 .destination = packed.data(),
                                 .run_bytes = kRun,
                                 .source_stride = 1000,
                                 .destination_stride = kRun,
                                 .runs = kRuns};
  CopySegmentsLaunch launch = {.segments = &gather, .count = 1};
  launch.sum = {.sums = &sum, .pieces = &unused, .arrived = &none, .room = 5};
  ASSERT_EQ(CopySegmentsOnHost(launch), 0);
  std::copy(packed.begin(), packed.end(), noise_.begin());
  ExpectTheLibrarys(sum, packed.size());
}

TEST_F(PayloadSumTest, NoSumIsTakenOfWhatIsTooShortOrHasNoRoom) {
  LaneSums unused;
  uint32_t none = 0;
  for (const uint64_t bytes : {uint64_t{0}, kLeastSummedBytes - 1, uint64_t{3073}}) {
    const StridedSegment segment = {.source = noise_.data(), .run_bytes = bytes};
    PayloadSum sum = {1, 2, 3};
    CopySegmentsLaunch launch = {.segments = &segment, .count = 1};
    launch.sum = {.sums = &sum, .pieces = &unused, .arrived = &none, .room = 3};
    ASSERT_EQ(CopySegmentsOnHost(launch), 0);
    EXPECT_TRUE(sum == PayloadSum{}) << bytes;
    launch.sum.room = 4;
    ASSERT_EQ(CopySegmentsOnHost(launch), 0);
    EXPECT_EQ(sum.bytes, bytes < kLeastSummedBytes ? 0 : bytes);
  }
}

}  // namespace
}  // namespace kvtier::kernels

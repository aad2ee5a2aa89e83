#include "tier_gpu/device/access_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace kvtier {
namespace {

using Access = AccessChecker::Access;
using Timeline = AccessChecker::Timeline;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGranule = 64;

class AccessCheckerTest : public ::testing::Test {
 protected:
  AccessCheckerTest() { checker_.AddMapping(memory_, "the pool", 0); }
  std::span<const std::byte> Block(size_t index) const {
    return std::span(memory_).subspan(index * kGranule, kGranule);
  }
  AccessChecker checker_{kGranule};
  const Timeline compute_ = checker_.AddTimeline("compute");
  const Timeline copy_ = checker_.AddTimeline("copy");
  std::array<std::byte, 4 * kGranule> memory_{};
  int word_ = 0;
};

TEST_F(AccessCheckerTest, AReadThatNothingOrdersAfterAWriteIsARace) {
  checker_.Note(compute_, Access::kWrite, Block(2));
  checker_.Note(copy_, Access::kRead, Block(2));
  EXPECT_THAT(checker_.races(),
              ElementsAre("the read by copy of block 2 of the pool is not ordered after the write "
                          "by compute"));
}

TEST_F(AccessCheckerTest, AWriteThatNothingOrdersAfterAReadIsARace) {
  checker_.Note(compute_, Access::kRead, Block(1));
  checker_.Note(copy_, Access::kWrite, Block(1));
  EXPECT_EQ(checker_.races().size(), 1u);
}

TEST_F(AccessCheckerTest, TwoWritesThatNothingOrdersAreARace) {
  checker_.Note(compute_, Access::kWrite, Block(1));
  checker_.Note(copy_, Access::kWrite, Block(1));
  EXPECT_EQ(checker_.races().size(), 1u);
}

TEST_F(AccessCheckerTest, ReadsOtherBlocksAndOneTimelineAreNoRace) {
  checker_.Note(compute_, Access::kRead, Block(0));
  checker_.Note(copy_, Access::kRead, Block(0));
  checker_.Note(compute_, Access::kWrite, Block(1));
  checker_.Note(copy_, Access::kWrite, Block(2));
  checker_.Note(copy_, Access::kRead, Block(2));
  EXPECT_THAT(checker_.races(), IsEmpty());
}

// Two handles of a region are adjacent, and a copy may cross their border.
TEST_F(AccessCheckerTest, AnAccessOverTheBorderOfTwoMappingsIsNotedInBoth) {
  AccessChecker checker(kGranule);
  const Timeline compute = checker.AddTimeline("compute");
  const Timeline copy = checker.AddTimeline("copy");
  const std::span<const std::byte> memory = memory_;
  checker.AddMapping(memory.first(kGranule), "low", 0);
  checker.AddMapping(memory.subspan(kGranule, kGranule), "high", 0);
  checker.Note(compute, Access::kWrite, memory);
  checker.Note(copy, Access::kRead, memory.subspan(kGranule, 1));
  checker.Note(copy, Access::kRead, memory.subspan(2 * kGranule));
  EXPECT_THAT(checker.races(), ElementsAre("the read by copy of block 0 of high is not ordered "
                                           "after the write by compute"));
}

TEST_F(AccessCheckerTest, AWordOrdersWhatWasBeforeItsReleaseOnly) {
  checker_.Note(compute_, Access::kWrite, Block(0));
  checker_.Release(compute_, &word_);
  checker_.Note(compute_, Access::kWrite, Block(1));
  checker_.Acquire(copy_, &word_);
  checker_.Note(copy_, Access::kRead, Block(0));
  EXPECT_THAT(checker_.races(), IsEmpty());
  checker_.Note(copy_, Access::kRead, Block(1));
  EXPECT_EQ(checker_.races().size(), 1u);
}

TEST_F(AccessCheckerTest, ACopyIsAfterWhoeverSubmittedIt) {
  const Timeline host = checker_.AddTimeline("host");
  checker_.Note(host, Access::kWrite, Block(0));
  checker_.Join(copy_, checker_.Fork(host));
  checker_.Note(copy_, Access::kRead, Block(0));
  EXPECT_THAT(checker_.races(), IsEmpty());
  checker_.Note(host, Access::kWrite, Block(0));
  EXPECT_EQ(checker_.races().size(), 1u) << "the host did not wait for the copy's end";
}

TEST_F(AccessCheckerTest, OrderIsPassedOn) {
  const Timeline host = checker_.AddTimeline("host");
  checker_.Note(compute_, Access::kRead, Block(0));
  checker_.Release(compute_, &word_);
  checker_.Acquire(host, &word_);
  checker_.Join(copy_, checker_.Fork(host));
  checker_.Note(copy_, Access::kWrite, Block(0));
  EXPECT_THAT(checker_.races(), IsEmpty());
}

TEST_F(AccessCheckerTest, AWriteMustBeAfterEveryReader) {
  const Timeline other = checker_.AddTimeline("other compute");
  checker_.Note(compute_, Access::kRead, Block(0));
  checker_.Note(other, Access::kRead, Block(0));
  checker_.Release(compute_, &word_);
  checker_.Acquire(copy_, &word_);
  checker_.Note(copy_, Access::kWrite, Block(0));
  ASSERT_EQ(checker_.races().size(), 1u);
  EXPECT_THAT(checker_.races()[0], ::testing::HasSubstr("other compute"));
}

TEST_F(AccessCheckerTest, TwoMappingsOfOneMemoryAreOnePlace) {
  std::array<std::byte, 4 * kGranule> other{};
  checker_.AddMapping(other, "the pool", 0);
  checker_.Note(compute_, Access::kWrite, Block(3));
  checker_.Note(copy_, Access::kRead, std::span(other).subspan(3 * kGranule, 1));
  EXPECT_EQ(checker_.races().size(), 1u);
}

TEST_F(AccessCheckerTest, MemoryThatNobodyMappedIsNotLookedAt) {
  std::array<std::byte, kGranule> elsewhere{};
  checker_.Note(compute_, Access::kWrite, elsewhere);
  checker_.Note(copy_, Access::kWrite, elsewhere);
  checker_.RemoveMapping(memory_);
  checker_.Note(compute_, Access::kWrite, Block(0));
  checker_.Note(copy_, Access::kWrite, Block(0));
  EXPECT_THAT(checker_.races(), IsEmpty());
}

TEST_F(AccessCheckerTest, AnAccessOverSeveralBlocksTouchesEachOfThem) {
  checker_.Note(compute_, Access::kWrite, std::span(memory_).subspan(kGranule - 1, kGranule + 2));
  for (size_t block = 0; block < 4; ++block) checker_.Note(copy_, Access::kRead, Block(block));
  EXPECT_EQ(checker_.races().size(), 3u);
}

}  // namespace
}  // namespace kvtier

#include "client/host_lanes/host_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/testing/patience.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

constexpr absl::Duration kLong = absl::Seconds(20);
constexpr auto kOffload = HostDirection::kOffload;
constexpr auto kOnboard = HostDirection::kOnboard;

// Turn is a copy that reports whose turn it was.
class Turn final : public HostCopy {
 public:
  using HostCopy::HostCopy;
  uint64_t CopyNext(HostScratch*) override { return 1; }
  void Finish() override {}
};

class HostQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<HostJob> Start(HostDirection direction, std::vector<uint32_t> slots) {
    auto job = std::make_shared<HostJob>(direction, std::move(slots));
    EXPECT_EQ(queue_.Admit(job), absl::OkStatus());
    return job;
  }
  void Ready(const std::shared_ptr<HostJob>& job) { queue_.Add(std::make_unique<Turn>(job)); }
  void End(const std::shared_ptr<HostJob>& job) {
    queue_.End(job, absl::OkStatus(), std::vector<bool>(job->slots().size(), true), 0);
  }

  HostQueue queue_{8};
};

TEST_F(HostQueueTest, OnboardsGoAheadOfOffloadsBlockByBlock) {
  const auto out = Start(kOffload, {0, 1});
  Ready(out);
  std::unique_ptr<HostCopy> turn = queue_.Take();
  EXPECT_EQ(turn->job(), out);
  const auto first = Start(kOnboard, {2});
  const auto second = Start(kOnboard, {3});
  Ready(first);
  Ready(second);
  queue_.PutBack(std::move(turn), 1, absl::Milliseconds(2));
  std::unique_ptr<HostCopy> next = queue_.Take();
  EXPECT_EQ(next->job(), first);
  queue_.PutBack(std::move(next), 1, absl::Milliseconds(1));
  EXPECT_EQ(queue_.Take()->job(), first) << "a job that has begun goes on";
  EXPECT_EQ(queue_.Take()->job(), second);
  EXPECT_EQ(queue_.Take()->job(), out);
  EXPECT_EQ(queue_.StatsOf(kOffload).blocks, 1U);
  EXPECT_EQ(queue_.StatsOf(kOffload).copying, absl::Milliseconds(2));
}

TEST_F(HostQueueTest, EachDirectionHasSoManyPlacesAndAnEndFreesOne) {
  std::vector<std::shared_ptr<HostJob>> jobs;
  for (size_t i = 0; i < kMaxHostJobs; ++i) jobs.push_back(Start(kOffload, {0}));
  const auto beyond = std::make_shared<HostJob>(kOffload, std::vector<uint32_t>{0});
  EXPECT_EQ(queue_.Admit(beyond).code(), absl::StatusCode::kResourceExhausted);
  Start(kOnboard, {1});
  End(jobs[7]);
  EXPECT_EQ(queue_.Admit(beyond), absl::OkStatus());
}

TEST_F(HostQueueTest, SlotsAreFreeWhenTheLastOffloadHasReadThem) {
  const auto one = Start(kOffload, {0, 1});
  const auto other = Start(kOffload, {1, 2});
  Start(kOnboard, {4});
  const std::vector<uint32_t> asked = {1};
  const std::vector<uint32_t> others = {3, 4};
  EXPECT_TRUE(queue_.AwaitCopied(others, absl::ZeroDuration()));
  EXPECT_TRUE(queue_.EndReading(one).has_value());
  EXPECT_TRUE(one->copied() && !one->done());
  std::thread reader([&] { EXPECT_TRUE(queue_.EndReading(other).has_value()); });
  EXPECT_TRUE(queue_.AwaitCopied(asked, testing::Patience(kLong)));
  reader.join();
  End(one);
  EXPECT_THAT(one->results(), ElementsAre(true, true));
}

TEST_F(HostQueueTest, BlocksThatAreAskedBackAreReadAheadOfEverythingElse) {
  const auto in = Start(kOnboard, {5});
  const auto first = Start(kOffload, {0, 1, 2});
  const auto second = Start(kOffload, {3, 4});
  for (const auto& job : {in, first, second}) Ready(job);
  const std::vector<uint32_t> asked = {4, 2};
  std::thread waiter([&] { EXPECT_TRUE(queue_.AwaitCopied(asked, testing::Patience(kLong))); });
  std::unique_ptr<HostCopy> turn = queue_.Take();
  while (turn->job() == in) {  // The waiter does not wait yet.
    queue_.PutBack(std::move(turn), 1, absl::ZeroDuration());
    turn = queue_.Take();
  }
  EXPECT_EQ(turn->job(), first);
  EXPECT_EQ(queue_.BeginBlock(first), 2U);
  queue_.EndBlock(first, 2);
  queue_.PutBack(std::move(turn), 1, absl::ZeroDuration());
  turn = queue_.Take();
  EXPECT_EQ(turn->job(), second);
  EXPECT_EQ(queue_.BeginBlock(second), 1U);
  queue_.EndBlock(second, 1);
  waiter.join();
  EXPECT_EQ(queue_.Take()->job(), in);
  EXPECT_EQ(queue_.BeginBlock(first), 0U);
  EXPECT_EQ(queue_.BeginBlock(first), 1U);
  EXPECT_EQ(queue_.BeginBlock(first), std::nullopt);
}

TEST_F(HostQueueTest, OfWhatIsAskedBackOnlyTheBlocksThatAreNotCopiedAreGivenUp) {
  const auto job = Start(kOffload, {0, 1, 2, 3});
  EXPECT_EQ(queue_.BeginBlock(job), 0U);
  queue_.EndBlock(job, 0);
  EXPECT_EQ(queue_.BeginBlock(job), 1U);  // The job is in the middle of the block.
  const std::vector<uint32_t> asked = {0, 1, 3};
  EXPECT_FALSE(queue_.AwaitCopied(asked, absl::ZeroDuration()));
  EXPECT_TRUE(queue_.AwaitCopied(asked, absl::ZeroDuration()));
  queue_.EndBlock(job, 1);
  EXPECT_EQ(queue_.BeginBlock(job), 2U);
  queue_.EndBlock(job, 2);
  EXPECT_EQ(queue_.BeginBlock(job), std::nullopt);
  EXPECT_THAT(queue_.EndReading(job), Optional(ElementsAre(1, 3)));
  EXPECT_EQ(queue_.StatsOf(kOffload).given_up_blocks, 2U);
}

TEST_F(HostQueueTest, BlocksThatNeedNoReadingAreSkippedAndNobodyWaitsForThem) {
  const auto job = Start(kOffload, {0, 1, 2});
  const std::vector<size_t> present = {0, 2};
  queue_.SkipBlocks(job, present);
  const std::vector<uint32_t> asked = {0, 2};
  EXPECT_TRUE(queue_.AwaitCopied(asked, absl::ZeroDuration()));
  EXPECT_EQ(queue_.BeginBlock(job), 1U);
  EXPECT_EQ(queue_.BeginBlock(job), std::nullopt);
}

TEST_F(HostQueueTest, AJobOfWhichAllIsGivenUpHasEndedAndIsTakenByNoThread) {
  const auto asked_back = Start(kOffload, {0, 1});
  const auto other = Start(kOffload, {2});
  Ready(asked_back);
  Ready(other);
  const std::vector<uint32_t> asked = {5, 1, 0};
  EXPECT_FALSE(queue_.AwaitCopied(asked, absl::ZeroDuration()));
  ASSERT_TRUE(asked_back->done() && asked_back->copied());
  EXPECT_EQ(asked_back->status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(asked_back->results(), ElementsAre(false, false));
  EXPECT_EQ(queue_.EndReading(asked_back), std::nullopt) << "nothing it read may be published";
  EXPECT_TRUE(queue_.AwaitCopied(asked, absl::ZeroDuration()));
  EXPECT_EQ(queue_.Take()->job(), other);
  EXPECT_FALSE(other->done());
}

TEST_F(HostQueueTest, AJobEndsOnce) {
  const auto job = Start(kOnboard, {0});
  End(job);
  queue_.End(job, absl::AbortedError("late"), {false}, 0);
  EXPECT_EQ(job->status(), absl::OkStatus());
  EXPECT_THAT(job->results(), ElementsAre(true));
  Ready(job);
  queue_.Close();
  EXPECT_EQ(queue_.Take(), nullptr);
}

TEST_F(HostQueueTest, AClosedQueueEndsWhatItHas) {
  const auto waiting = Start(kOffload, {0});
  const auto ready = Start(kOnboard, {1});
  Ready(ready);
  std::thread thread([this] {
    while (queue_.Take() != nullptr) continue;
  });
  queue_.Close();
  thread.join();
  EXPECT_FALSE(waiting->done());
  queue_.CancelAll();
  for (const auto& job : {waiting, ready}) {
    ASSERT_TRUE(job->done());
    EXPECT_EQ(job->status().code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(job->results(), ElementsAre(false));
  }
}

}  // namespace
}  // namespace kvtier

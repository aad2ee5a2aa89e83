// Tests LocatePatience, and what a frozen coordinator costs the requests of an agent.
#include "agent/peers/locate_patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;

const absl::Time kStart = absl::UnixEpoch() + absl::Seconds(100);

TEST(LocatePatienceTest, WithoutAHistoryAnAnswerIsAwaitedForTheLimit) {
  EXPECT_EQ(LocatePatience().Allowed(kStart), kLocateTimeout);
}

TEST(LocatePatienceTest, AnAnswerIsAwaitedAsLongAsTheMeanAndFourDeviations) {
  LocatePatience patience;
  patience.Answered(kStart, kStart + absl::Milliseconds(40));  // Deviation: half of this.
  EXPECT_EQ(patience.Allowed(kStart), absl::Milliseconds(120));
  for (int i = 0; i < 30; ++i) patience.Answered(kStart, kStart + absl::Milliseconds(80));
  EXPECT_GT(patience.Allowed(kStart), absl::Milliseconds(80));
  EXPECT_LT(patience.Allowed(kStart), absl::Milliseconds(90));
}

TEST(LocatePatienceTest, TheWaitKeepsToItsLimitsHoweverFastOrSlowTheAnswersAre) {
  LocatePatience patience;
  patience.Answered(kStart, kStart + absl::Microseconds(100));
  EXPECT_EQ(patience.Allowed(kStart), kLocateGrace);
  for (int i = 0; i < 30; ++i) patience.Answered(kStart, kStart + absl::Seconds(1));
  EXPECT_EQ(patience.Allowed(kStart), kLocateTimeout);
}

TEST(LocatePatienceTest, AGraceIsGivenHoweverFastTheAnswersAreAndAlsoBeyondTheLimit) {
  LocatePatience patience(absl::Seconds(2));
  EXPECT_EQ(patience.Allowed(kStart), absl::Seconds(2)) << "without a history";
  patience.Answered(kStart, kStart + absl::Microseconds(100));
  EXPECT_EQ(patience.Allowed(kStart), absl::Seconds(2));
  patience.Failed(kStart, kStart + absl::Seconds(2));
  EXPECT_EQ(patience.Allowed(kStart + absl::Minutes(1)), absl::Seconds(2));
  EXPECT_EQ(patience.Allowed(std::nullopt), absl::ZeroDuration());
}

TEST(LocatePatienceTest, NothingIsAwaitedWhileTheCoordinatorIsSilent) {
  EXPECT_EQ(LocatePatience().Allowed(std::nullopt), absl::ZeroDuration());
}

TEST(LocatePatienceTest, AfterAFailureNothingIsAwaitedUntilSomethingIsHeardAndThenLonger) {
  LocatePatience patience;
  patience.Answered(kStart, kStart);
  const absl::Time failed = kStart + kLocateGrace;
  patience.Failed(kStart, failed);
  EXPECT_EQ(patience.Allowed(kStart), absl::ZeroDuration());
  EXPECT_EQ(patience.Allowed(failed), absl::ZeroDuration());
  EXPECT_EQ(patience.Allowed(failed + absl::Nanoseconds(1)), 2 * kLocateGrace);
  // A call that was in progress at the same time tells nothing new.
  patience.Failed(kStart, failed);
  EXPECT_EQ(patience.Allowed(failed + absl::Nanoseconds(1)), 2 * kLocateGrace);
  patience.Failed(failed, failed + 2 * kLocateGrace);
  EXPECT_EQ(patience.Allowed(kStart + absl::Minutes(1)), kLocateTimeout);
  patience.Answered(kStart, kStart);
  EXPECT_EQ(patience.Allowed(kStart), kLocateGrace);
}

// Without the limit of one request in each heartbeat, each report that the coordinator answers
// would let the next request wait for a Locate that the coordinator does not answer.
TEST(LocatePatienceTest, OneThatAnswersReportsAndNoLocatesIsAskedOnceAHeartbeat) {
  LocatePatience patience;
  patience.Failed(kStart, kStart + kLocateTimeout);
  const absl::Time retry = kStart + absl::Seconds(5);
  EXPECT_EQ(patience.Allowed(retry), kLocateTimeout);
  const absl::Time again = retry + kLocateTimeout;
  patience.Failed(retry, again);
  EXPECT_EQ(patience.Allowed(again + kHeartbeatInterval), absl::ZeroDuration());
  EXPECT_EQ(patience.Allowed(again + kHeartbeatInterval + absl::Nanoseconds(1)), kLocateTimeout);
}

// TimedCoordinator knows no holder, and answers after `takes`.
class TimedCoordinator final : public CoordinatorLink {
 public:
  Executor* executor = nullptr;
  absl::Duration takes = absl::ZeroDuration();  // Infinite: it is frozen.
  int locates = 0;

  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override {
    const bool answered = co_await Answers(deadline);
    if (!answered) co_return absl::DeadlineExceededError("frozen");
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size()};
  }
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery, absl::Time deadline) override {
    ++locates;
    const bool answered = co_await Answers(deadline);
    if (!answered) co_return absl::DeadlineExceededError("frozen");
    co_return LocateReply();
  }

 private:
  // Waits until the coordinator answers or `deadline`; returns whether it answered in time. With
  // `takes` 0 this waits for nothing: the first report comes before the rig has an executor.
  Task<bool> Answers(absl::Time deadline) {
    if (takes == absl::ZeroDuration()) co_return true;
    const absl::Time answer = executor->Now() + takes;
    co_await SleepUntil(executor, std::min(deadline, answer));
    co_return answer <= deadline;
  }
};

class FrozenCoordinatorTest : public ::testing::Test {
 protected:
  FrozenCoordinatorTest() : rig_({.coordinator = &coordinator_}) {
    coordinator_.executor = &rig_.executor;
    coordinator_.takes = absl::Milliseconds(1);
  }
  void Freeze() { coordinator_.takes = absl::InfiniteDuration(); }
  // Returns how long a request takes for blocks that no node has.
  absl::Duration MissTakes(absl::Duration timeout = absl::Seconds(30)) {
    const absl::Time start = rig_.executor.Now();
    EXPECT_EQ(rig_.Hits(rig_.session, 100, 4, timeout), 0u);
    return rig_.executor.Now() - start;
  }
  absl::Duration MatchTakes() {
    const absl::Time start = rig_.executor.Now();
    rig_.Run(
        rig_.agent->flows().matcher.Match({rig_.NameRun(rig_.session, 100, 4)}, absl::Seconds(30)));
    return rig_.executor.Now() - start;
  }

  TimedCoordinator coordinator_;
  AgentRig rig_;
};

// Once, each request with a cold tail waited 200 ms for a coordinator that the status had long
// shown as not connected.
TEST_F(FrozenCoordinatorTest, OneThatIsKnownToBeSilentCostsNoRequestAnything) {
  Freeze();
  rig_.Pass(kHeartbeatInterval + kReportTimeout + absl::Milliseconds(20));
  ASSERT_FALSE(rig_.agent->reporter()->connected());
  EXPECT_EQ(MissTakes(), absl::ZeroDuration());
  EXPECT_EQ(MatchTakes(), absl::ZeroDuration());
  EXPECT_EQ(coordinator_.locates, 0);
}

TEST_F(FrozenCoordinatorTest, OneThatIsNotYetKnownCostsWhatItsHistoryAllowsAndThatOnce) {
  for (int i = 0; i < 8; ++i) EXPECT_EQ(MissTakes(), absl::Milliseconds(1));
  Freeze();
  EXPECT_EQ(MissTakes(), kLocateGrace);
  EXPECT_EQ(MissTakes(), absl::ZeroDuration());
  EXPECT_EQ(MatchTakes(), absl::ZeroDuration());
}

TEST_F(FrozenCoordinatorTest, OneThatAnswersHeartbeatsAgainIsAskedAgain) {
  Freeze();
  EXPECT_EQ(MissTakes(), kLocateTimeout);
  coordinator_.takes = absl::Milliseconds(1);
  const int asked = coordinator_.locates;
  rig_.Pass(3 * kHeartbeatInterval);
  EXPECT_EQ(MissTakes(), absl::Milliseconds(1));
  EXPECT_EQ(coordinator_.locates, asked + 1);
}

TEST_F(FrozenCoordinatorTest, ACallersShortDeadlineTeachesNothing) {
  coordinator_.takes = absl::Milliseconds(20);
  rig_.Pass(2 * kHeartbeatInterval);
  EXPECT_EQ(MissTakes(absl::Milliseconds(5)), absl::Milliseconds(5));
  EXPECT_EQ(MissTakes(), absl::Milliseconds(20)) << "it is asked at once";
}

}  // namespace
}  // namespace kvtier

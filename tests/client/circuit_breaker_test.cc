#include "client/circuit_breaker.h"

#include "gtest/gtest.h"

namespace kvtier {
namespace {

using State = CircuitBreaker::State;

constexpr double kNoJitter = 0.0;  // The wait is half of the full backoff.
constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kShort = absl::Milliseconds(9);
constexpr absl::Duration kLong = kMinJudgedTimeout;

BreakerOptions Options() {
  return {.failures_to_open = 3, .min_backoff = absl::Seconds(2), .max_backoff = absl::Seconds(8)};
}

// Returns a breaker opened at kStart by failures_to_open failures.
CircuitBreaker OpenBreaker() {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 3; ++i) breaker.CallFailed(kStart, kNoJitter);
  return breaker;
}

TEST(CircuitBreakerTest, OpensAtTheLastOfSoManyFailuresInARow) {
  CircuitBreaker breaker(Options());
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_TRUE(breaker.Admits(kLong));
  EXPECT_TRUE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.Admits(kLong));
  EXPECT_EQ(breaker.state(), State::kOpen);
}

TEST(CircuitBreakerTest, AnAnswerStartsTheCountAgain) {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 10; ++i) {
    breaker.CallFailed(kStart, kNoJitter);
    breaker.CallFailed(kStart, kNoJitter);
    breaker.CallAnswered(kStart);
  }
  EXPECT_TRUE(breaker.Admits(kLong));
}

TEST(CircuitBreakerTest, TakesOneProbeWhenTheBackoffIsOver) {
  CircuitBreaker breaker = OpenBreaker();
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Seconds(1));
  EXPECT_FALSE(breaker.TakeProbe(kStart + absl::Milliseconds(999)));
  EXPECT_TRUE(breaker.TakeProbe(kStart + absl::Seconds(1)));
  EXPECT_EQ(breaker.state(), State::kHalfOpen);
  EXPECT_FALSE(breaker.Admits(kLong));
  EXPECT_FALSE(breaker.TakeProbe(kStart + absl::Seconds(9)));
}

TEST(CircuitBreakerTest, JitterPlacesTheProbeInTheUpperHalfOfTheBackoff) {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 3; ++i) breaker.CallFailed(kStart, 0.5);
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Milliseconds(1500));
}

TEST(CircuitBreakerTest, FailedProbesDoubleTheBackoffUpToItsMaximum) {
  CircuitBreaker breaker = OpenBreaker();
  absl::Time now = kStart;
  for (const int seconds : {1, 2, 4, 4}) {  // Half of 2, 4, 8, 8.
    EXPECT_EQ(breaker.probe_time() - now, absl::Seconds(seconds));
    now = breaker.probe_time();
    ASSERT_TRUE(breaker.TakeProbe(now));
    breaker.ProbeFailed(now, kNoJitter);
  }
}

TEST(CircuitBreakerTest, OnTrialOneFailureOpensItWithALongerBackoff) {
  CircuitBreaker breaker = OpenBreaker();
  const absl::Time now = breaker.probe_time();
  ASSERT_TRUE(breaker.TakeProbe(now));
  breaker.ProbeAnswered(now);
  EXPECT_TRUE(breaker.Admits(kLong));
  EXPECT_TRUE(breaker.CallFailed(now, kNoJitter));
  EXPECT_EQ(breaker.probe_time(), now + absl::Seconds(2));
}

TEST(CircuitBreakerTest, AnAnsweredCallEndsTheTrial) {
  CircuitBreaker breaker = OpenBreaker();
  ASSERT_TRUE(breaker.TakeProbe(breaker.probe_time()));
  breaker.ProbeAnswered(kStart);
  breaker.CallAnswered(kStart);
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_TRUE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Seconds(1));
}

TEST(CircuitBreakerTest, LateFailuresOfEarlierCallsChangeNothing) {
  CircuitBreaker breaker = OpenBreaker();
  EXPECT_FALSE(breaker.CallFailed(kStart + absl::Milliseconds(900), kNoJitter));
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Seconds(1));
}

TEST(CircuitBreakerTest, ALateAnswerClosesItAndTheProbeThenSaysNothing) {
  CircuitBreaker breaker = OpenBreaker();
  ASSERT_TRUE(breaker.TakeProbe(breaker.probe_time()));
  breaker.CallAnswered(kStart);
  breaker.ProbeFailed(kStart, kNoJitter);
  EXPECT_TRUE(breaker.Admits(kLong));
}

// Puts the breaker in doubt by failures_to_open short calls, the last of which ended at `now`.
void Doubt(CircuitBreaker* breaker, absl::Time now) {
  const absl::Time began = now - kMinJudgedTimeout;
  EXPECT_FALSE(breaker->ShortCallFailed(began, now, kNoJitter));
  EXPECT_FALSE(breaker->ShortCallFailed(began, now, kNoJitter));
  EXPECT_TRUE(breaker->ShortCallFailed(began, now, kNoJitter));
}

// An engine's scheduler waits for a few milliseconds. A stopped agent once cost each of its calls
// the whole wait, because no number of short calls was ever held against the agent.
TEST(CircuitBreakerTest, ARowOfShortCallsThatNobodyAnswersIsDecidedByAProbe) {
  CircuitBreaker breaker(Options());
  Doubt(&breaker, kStart);
  EXPECT_EQ(breaker.state(), State::kDoubted);
  EXPECT_EQ(breaker.probe_time(), kStart);
  ASSERT_TRUE(breaker.TakeProbe(kStart));
  EXPECT_FALSE(breaker.TakeProbe(kStart));
  EXPECT_TRUE(breaker.ProbeFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.Admits(kLong));
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Seconds(1));
}

TEST(CircuitBreakerTest, InDoubtOnlyShortCallsWait) {
  CircuitBreaker breaker(Options());
  EXPECT_TRUE(breaker.Admits(kShort));
  Doubt(&breaker, kStart);
  EXPECT_FALSE(breaker.Admits(kShort));
  EXPECT_TRUE(breaker.Admits(kLong));
  breaker.CallAnswered(kStart);
  EXPECT_TRUE(breaker.Admits(kShort));
}

TEST(CircuitBreakerTest, AnyAnswerStartsTheCountOfShortCallsAgain) {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(breaker.ShortCallFailed(kStart, kStart + kLong, kNoJitter));
    EXPECT_FALSE(breaker.ShortCallFailed(kStart, kStart + kLong, kNoJitter));
    breaker.CallAnswered(kStart);
  }
  EXPECT_EQ(breaker.state(), State::kClosed);
}

// Many threads wait at once: one pause of the machine fails all their calls, but counts once.
TEST(CircuitBreakerTest, AShortCallThatBeganBeforeTheLastAnswerSaysNothing) {
  CircuitBreaker breaker(Options());
  const absl::Time answered = kStart + absl::Milliseconds(2);
  breaker.CallAnswered(answered);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(breaker.ShortCallFailed(kStart, kStart + absl::Milliseconds(20), kNoJitter));
  }
  Doubt(&breaker, answered + kLong);
}

TEST(CircuitBreakerTest, ARowOfShortCallsLastsAsLongAsACallThatIsJudged) {
  CircuitBreaker breaker(Options());
  for (int ms = 0; ms < 9; ++ms) {
    const absl::Time began = kStart + absl::Milliseconds(ms);
    EXPECT_FALSE(breaker.ShortCallFailed(began, began + absl::Milliseconds(1), kNoJitter)) << ms;
  }
  EXPECT_TRUE(
      breaker.ShortCallFailed(kStart + absl::Milliseconds(9), kStart + kMinJudgedTimeout, 0.0));
}

TEST(CircuitBreakerTest, AnAgentThatAnswersProbesAndNoShortCallsIsDoubtedForLonger) {
  CircuitBreaker breaker(Options());
  absl::Time now = kStart;
  // The first probe is due at once, then after half of 10, 20, ...
  for (const int ms : {0, 5, 10, 20, 40, 80}) {
    now += kMinJudgedTimeout;
    Doubt(&breaker, now);
    EXPECT_EQ(breaker.probe_time() - now, absl::Milliseconds(ms));
    now = breaker.probe_time();
    ASSERT_TRUE(breaker.TakeProbe(now));
    breaker.ProbeAnswered(now);
    EXPECT_TRUE(breaker.Admits(kShort));
  }
  breaker.CallAnswered(now);
  now += kMinJudgedTimeout;
  Doubt(&breaker, now);
  EXPECT_EQ(breaker.probe_time(), now);
}

TEST(CircuitBreakerTest, LongerCallsJudgeADoubtedAgentAsEver) {
  CircuitBreaker breaker(Options());
  Doubt(&breaker, kStart);
  ASSERT_TRUE(breaker.TakeProbe(kStart));
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_TRUE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_EQ(breaker.state(), State::kOpen);
  breaker.ProbeAnswered(kStart);  // Ends the doubt of the calls above.
  EXPECT_EQ(breaker.state(), State::kOpen);
}

TEST(CircuitBreakerTest, AProbeOfAnEarlierDoubtSaysNothing) {
  CircuitBreaker breaker(Options());
  Doubt(&breaker, kStart);
  ASSERT_TRUE(breaker.TakeProbe(kStart));
  breaker.CallAnswered(kStart);
  Doubt(&breaker, kStart + kMinJudgedTimeout);
  EXPECT_FALSE(breaker.ProbeFailed(kStart, kNoJitter));
  EXPECT_EQ(breaker.state(), State::kDoubted);
}

TEST(BreakerOptionsTest, NamesTheFieldThatIsWrong) {
  EXPECT_TRUE(BreakerOptions{}.Validate().ok());
  const absl::Status failures = BreakerOptions{.failures_to_open = 0}.Validate();
  EXPECT_EQ(failures.message(), "breaker.failures_to_open is 0; must be at least 1");
  EXPECT_FALSE(BreakerOptions{.min_backoff = absl::ZeroDuration()}.Validate().ok());
  EXPECT_FALSE(BreakerOptions{.max_backoff = absl::Milliseconds(1)}.Validate().ok());
  EXPECT_FALSE(BreakerOptions{.probe_timeout = absl::ZeroDuration()}.Validate().ok());
}

}  // namespace
}  // namespace kvtier

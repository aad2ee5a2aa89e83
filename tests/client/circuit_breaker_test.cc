#include "client/circuit_breaker.h"

#include "gtest/gtest.h"

namespace kvtier {
namespace {

using State = CircuitBreaker::State;

constexpr double kNoJitter = 0.0;  // The wait is half of the full backoff.
constexpr absl::Time kStart = absl::UnixEpoch();

BreakerOptions Options() {
  return {.failures_to_open = 3, .min_backoff = absl::Seconds(2), .max_backoff = absl::Seconds(8)};
}

// Opened at kStart by failures_to_open failures.
CircuitBreaker OpenBreaker() {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 3; ++i) breaker.CallFailed(kStart, kNoJitter);
  return breaker;
}

TEST(CircuitBreakerTest, OpensAtTheLastOfSoManyFailuresInARow) {
  CircuitBreaker breaker(Options());
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_TRUE(breaker.Admits());
  EXPECT_TRUE(breaker.CallFailed(kStart, kNoJitter));
  EXPECT_FALSE(breaker.Admits());
  EXPECT_EQ(breaker.state(), State::kOpen);
}

TEST(CircuitBreakerTest, AnAnswerStartsTheCountAgain) {
  CircuitBreaker breaker(Options());
  for (int i = 0; i < 10; ++i) {
    breaker.CallFailed(kStart, kNoJitter);
    breaker.CallFailed(kStart, kNoJitter);
    breaker.CallAnswered();
  }
  EXPECT_TRUE(breaker.Admits());
}

TEST(CircuitBreakerTest, TakesOneProbeWhenTheBackoffIsOver) {
  CircuitBreaker breaker = OpenBreaker();
  EXPECT_EQ(breaker.probe_time(), kStart + absl::Seconds(1));
  EXPECT_FALSE(breaker.TakeProbe(kStart + absl::Milliseconds(999)));
  EXPECT_TRUE(breaker.TakeProbe(kStart + absl::Seconds(1)));
  EXPECT_EQ(breaker.state(), State::kHalfOpen);
  EXPECT_FALSE(breaker.Admits());
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
  breaker.ProbeAnswered();
  EXPECT_TRUE(breaker.Admits());
  EXPECT_TRUE(breaker.CallFailed(now, kNoJitter));
  EXPECT_EQ(breaker.probe_time(), now + absl::Seconds(2));
}

TEST(CircuitBreakerTest, AnAnsweredCallEndsTheTrial) {
  CircuitBreaker breaker = OpenBreaker();
  ASSERT_TRUE(breaker.TakeProbe(breaker.probe_time()));
  breaker.ProbeAnswered();
  breaker.CallAnswered();
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
  breaker.CallAnswered();
  breaker.ProbeFailed(kStart, kNoJitter);
  EXPECT_TRUE(breaker.Admits());
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

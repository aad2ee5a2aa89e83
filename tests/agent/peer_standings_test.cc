// PeerStandings: what a failure teaches, and for how long.
#include "agent/peers/peer_standings.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

class PeerStandingsTest : public ::testing::Test {
 protected:
  void Fail(const std::string& address, absl::Duration took = absl::ZeroDuration()) {
    standings_.Began(address);
    standings_.Ended(address, {.took = took, .failure = absl::UnavailableError("refused")});
  }
  void Serve(const std::string& address) {
    standings_.Began(address);
    standings_.Ended(address, {.bytes = 1 << 20, .took = absl::Milliseconds(3)});
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  PeerStandings standings_{&executor_};
};

TEST_F(PeerStandingsTest, APeerMayHaveItsShareOfTheFetchesAndNotOneMore) {
  for (size_t running = 0; running < kMaxFetchesPerPeer; ++running) {
    EXPECT_EQ(standings_.Of("a").free_fetches, kMaxFetchesPerPeer - running);
    standings_.Began("a");
  }
  EXPECT_EQ(standings_.Of("a").free_fetches, 0u);
  EXPECT_EQ(standings_.Of("b").free_fetches, kMaxFetchesPerPeer);
  EXPECT_EQ(standings_.running(), kMaxFetchesPerPeer);
}

TEST_F(PeerStandingsTest, APeerThatFailedIsAvoidedToTheEndOfItsTimeAndNotLonger) {
  Fail("a");
  EXPECT_TRUE(standings_.Of("a").avoided);
  EXPECT_EQ(standings_.Of("a").free_fetches, 1u);
  time_.RunUntil(time_.Now() + kPeerAvoidance - absl::Nanoseconds(1));
  EXPECT_EQ(standings_.avoided(), 1u);
  time_.RunUntil(time_.Now() + absl::Nanoseconds(1));
  EXPECT_EQ(standings_.avoided(), 0u);
  EXPECT_EQ(standings_.Of("a").free_fetches, kMaxFetchesPerPeer);
}

TEST_F(PeerStandingsTest, AFetchThatSucceedsEndsTheAvoidance) {
  Fail("a");
  Serve("a");
  EXPECT_FALSE(standings_.Of("a").avoided);
}

TEST_F(PeerStandingsTest, TimeWithoutBytesMakesThePredictionWorseAndARefusalDoesNotMakeItBetter) {
  const absl::Duration before = standings_.Of("a").estimate.Predict(4096);
  Fail("a");
  EXPECT_EQ(standings_.Of("a").estimate.Predict(4096), before);
  Fail("a", absl::Milliseconds(80));
  EXPECT_GT(standings_.Of("a").estimate.Predict(4096), before);
  time_.RunUntil(time_.Now() + kPeerEstimateLifetime + absl::Nanoseconds(1));
  EXPECT_EQ(standings_.Of("a").estimate.Predict(4096), before) << "forgotten";
}

TEST_F(PeerStandingsTest, AmongThousandsOfPeersTheOneWithARunningFetchIsNotForgotten) {
  standings_.Began("a");
  for (int i = 0; i < 5000; ++i) standings_.Of(absl::StrCat("peer-", i, ":1"));
  EXPECT_EQ(standings_.Of("a").free_fetches, kMaxFetchesPerPeer - 1);
  standings_.Ended("a", {});
  EXPECT_EQ(standings_.running(), 0u);
}

}  // namespace
}  // namespace kvtier

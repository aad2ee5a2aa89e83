// Tests PeerStandings: what a failure teaches, and for how long.
#include "agent/peers/peer_standings.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/tenants.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

class PeerStandingsTest : public ::testing::Test {
 protected:
  static constexpr DomainId kOne{0};

  void Fail(const std::string& address, absl::Duration took = absl::ZeroDuration()) {
    standings_.Began(address, kOne);
    standings_.Ended(address, kOne, {.took = took, .failure = absl::UnavailableError("refused")});
  }
  void Serve(const std::string& address) {
    standings_.Began(address, kOne);
    standings_.Ended(address, kOne, {.bytes = 1 << 20, .took = absl::Milliseconds(3)});
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  TenantTable tenants_ = *TenantTable::Create({{.name = "default"}});
  PeerStandings standings_{&executor_, &tenants_};
};

TEST_F(PeerStandingsTest, APeerMayHaveItsShareOfTheFetchesAndNotOneMore) {
  for (size_t running = 0; running < kMaxFetchesPerPeer; ++running) {
    EXPECT_EQ(standings_.Of("a", kOne).free_fetches, kMaxFetchesPerPeer - running);
    standings_.Began("a", kOne);
  }
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 0u);
  EXPECT_EQ(standings_.Of("b", kOne).free_fetches, kMaxFetchesPerPeer);
  EXPECT_EQ(standings_.running().taken(), kMaxFetchesPerPeer);
}

TEST_F(PeerStandingsTest, ATenantLeavesTheOthersTheirPartAtEachPeerAndAtAllOfThem) {
  constexpr DomainId kOther{1};
  tenants_.Add({.name = "other", .secret = "sixteen bytes or more"});
  for (const char* address : {"a", "b", "c"}) {
    while (standings_.Of(address, kOne).free_fetches > 0 && standings_.FreeFor(kOne) > 0) {
      standings_.Began(address, kOne);
    }
  }
  EXPECT_EQ(standings_.running().Taken(kOne), kMaxFetchesRunning * 3 / 4);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 0u);
  EXPECT_EQ(standings_.Of("a", kOther).free_fetches, kMaxFetchesPerPeer / 4);
  EXPECT_EQ(standings_.FreeFor(kOther), kMaxFetchesRunning / 4);
  standings_.Began("a", kOther);
  EXPECT_EQ(standings_.Of("a", kOther).free_fetches, kMaxFetchesPerPeer / 4 - 1);
  Fail("d");
  EXPECT_EQ(standings_.Of("d", kOther).free_fetches, 1u) << "avoided";
}

TEST_F(PeerStandingsTest, APeerThatFailedIsAvoidedToTheEndOfItsTimeAndNotLonger) {
  Fail("a");
  EXPECT_TRUE(standings_.Of("a", kOne).avoided);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 1u);
  time_.RunUntil(time_.Now() + kPeerAvoidance - absl::Nanoseconds(1));
  EXPECT_EQ(standings_.avoided(), 1u);
  time_.RunUntil(time_.Now() + absl::Nanoseconds(1));
  EXPECT_EQ(standings_.avoided(), 0u);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, kMaxFetchesPerPeer);
}

TEST_F(PeerStandingsTest, AFetchThatSucceedsEndsTheAvoidance) {
  Fail("a");
  Serve("a");
  EXPECT_FALSE(standings_.Of("a", kOne).avoided);
}

TEST_F(PeerStandingsTest, TheNodesThatFailedAreNamedTheLastOneInFront) {
  const auto fail = [&](const std::string& name) {
    standings_.Began(name, kOne);
    standings_.Ended(
        name, kOne,
        {.failure = absl::UnavailableError("silent"), .node = *NodeId::FromString(name)});
    time_.RunUntil(time_.Now() + absl::Milliseconds(1));
  };
  fail("a");
  fail("b");
  Serve("c");
  ASSERT_EQ(standings_.AvoidedNodes().size(), 2u);
  EXPECT_EQ(standings_.AvoidedNodes()[0].str(), "b");
  Serve("b");
  EXPECT_EQ(standings_.AvoidedNodes().size(), 1u);
  for (size_t i = 0; i <= kMaxAvoidedNodes; ++i) fail(absl::StrCat("n", i));
  EXPECT_EQ(standings_.AvoidedNodes().size(), kMaxAvoidedNodes);
  EXPECT_EQ(standings_.AvoidedNodes()[0].str(), absl::StrCat("n", kMaxAvoidedNodes));
}

TEST_F(PeerStandingsTest, OfPeersThatFailedOneIsTriedAgainAtATime) {
  Fail("a");
  Fail("b");
  time_.RunUntil(time_.Now() + kPeerAvoidance);
  EXPECT_FALSE(standings_.Of("a", kOne).avoided);
  EXPECT_FALSE(standings_.Of("b", kOne).avoided);
  Fail("a");
  EXPECT_TRUE(standings_.Of("b", kOne).avoided) << "it would probably fail, too";
  EXPECT_FALSE(standings_.Of("c", kOne).avoided) << "it never failed";
  time_.RunUntil(time_.Now() + kPeerAvoidance);
  Serve("a");
  EXPECT_FALSE(standings_.Of("b", kOne).avoided);
}

TEST_F(PeerStandingsTest, ABusyPeerBeginsAsManyFetchesAsItServedAndOneMoreAfterEachThatSucceeds) {
  const auto refuse = [&] {
    standings_.Began("a", kOne);
    standings_.Ended("a", kOne, {.failure = absl::AbortedError("busy"), .busy = true});
  };
  for (int i = 0; i < 3; ++i) standings_.Began("a", kOne);
  refuse();
  EXPECT_FALSE(standings_.Of("a", kOne).avoided);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 0u);
  time_.RunUntil(time_.Now() + kPeerBusyPause);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 0u) << "three run, as many as it serves";
  const auto end = [&] {
    standings_.Ended("a", kOne, {.bytes = 1, .took = absl::Milliseconds(1)});
  };
  end();
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 2u);
  end();
  end();
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 6u);
  refuse();
  time_.RunUntil(time_.Now() + kPeerBusyPause);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, 1u) << "one is always tried";
}

TEST_F(PeerStandingsTest, TimeWithoutBytesMakesThePredictionWorseAndARefusalDoesNotMakeItBetter) {
  const absl::Duration before = standings_.Of("a", kOne).estimate.Predict(4096);
  Fail("a");
  EXPECT_EQ(standings_.Of("a", kOne).estimate.Predict(4096), before);
  Fail("a", absl::Milliseconds(80));
  EXPECT_GT(standings_.Of("a", kOne).estimate.Predict(4096), before);
  time_.RunUntil(time_.Now() + kPeerEstimateLifetime + absl::Nanoseconds(1));
  EXPECT_EQ(standings_.Of("a", kOne).estimate.Predict(4096), before) << "forgotten";
}

TEST_F(PeerStandingsTest, AmongThousandsOfPeersTheOneWithARunningFetchIsNotForgotten) {
  standings_.Began("a", kOne);
  for (int i = 0; i < 5000; ++i) standings_.Of(absl::StrCat("peer-", i, ":1"), kOne);
  EXPECT_EQ(standings_.Of("a", kOne).free_fetches, kMaxFetchesPerPeer - 1);
  standings_.Ended("a", kOne, {});
  EXPECT_EQ(standings_.running().taken(), 0u);
}

}  // namespace
}  // namespace kvtier

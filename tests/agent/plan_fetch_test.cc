// Tests PlanFetch: which holder is asked for which block, and how much time the holder gets.
#include "agent/peers/plan_fetch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/limits.h"

namespace kvtier {
namespace {

LocateReply Located(const std::vector<std::vector<std::string>>& addresses) {
  LocateReply reply;
  for (const auto& holders : addresses) {
    std::vector<Holder>& list = reply.emplace_back();
    for (const std::string& address : holders) {
      list.push_back({.node = *NodeId::FromString("n"), .address = address});
    }
  }
  return reply;
}

PeerStanding Fast(const std::string& address) {
  return {.estimate = {absl::Milliseconds(1), 1e9},
          .avoided = address == "avoided" || address == "avoided too",
          .free_fetches = address == "full" ? size_t{0} : kMaxFetchesPerPeer};
}
std::vector<PeerRun> PlanOf(const LocateReply& located, absl::Duration budget,
                            uint64_t block_bytes = 4096) {
  return PlanFetch(
      located, {.block_bytes = block_bytes, .budget = budget, .free_fetches = kMaxFetchesRunning},
      Fast);
}

TEST(PlanFetchTest, StaysWithAPeerWhileItHasTheNextBlock) {
  const auto runs = PlanOf(Located({{"a", "b"}, {"b", "a"}, {"b"}, {"a"}}), absl::Seconds(1));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].address, "a");
  EXPECT_EQ(runs[0].count, 2u);
  EXPECT_EQ(runs[1].address, "b");
  EXPECT_EQ(runs[1].first, 2u);
  EXPECT_EQ(runs[2].address, "a");
  EXPECT_EQ(runs[2].first, 3u);
}

TEST(PlanFetchTest, StopsAtAHoleAndWhereTheTimeIsUp) {
  EXPECT_TRUE(PlanOf({}, absl::Seconds(1)).empty());
  EXPECT_EQ(PlanOf(Located({{"a"}, {}, {"a"}}), absl::Seconds(1))[0].count, 1u);
  // After 1 ms of latency, three blocks of 10 MB arrive at 1 GB/s within 35 ms.
  const auto runs =
      PlanOf(Located({{"a"}, {"a"}, {"a"}, {"a"}, {"a"}}), absl::Milliseconds(35), 10'000'000);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].count, 3u);
  EXPECT_TRUE(PlanOf(Located({{"a"}}), absl::ZeroDuration()).empty());
}

TEST(PlanFetchTest, WhatOneHolderCannotBringInTimeIsAskedOfTheNext) {
  const auto runs =
      PlanOf(LocateReply(8, Located({{"a", "b"}})[0]), absl::Milliseconds(35), 10'000'000);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, 3u);
  EXPECT_EQ(runs[1].address, "b");
  EXPECT_EQ(runs[1].count, 3u);
}

TEST(PlanFetchTest, ARunHoldsKMaxKeysPerFetchAndNotOneMore) {
  const LocateReply located(kMaxKeysPerFetch + 1, Located({{"a"}})[0]);
  const auto runs = PlanOf(located, absl::Seconds(10));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, kMaxKeysPerFetch);
  EXPECT_EQ(runs[1].count, 1u);
}

TEST(PlanFetchTest, APeerIsAskedForItsShareOfFetchesAndNotOneBlockMore) {
  const LocateReply located(kMaxKeysPerFetch * kMaxFetchesPerPeer + 1, Located({{"a"}})[0]);
  const auto runs = PlanOf(located, absl::Seconds(60));
  ASSERT_EQ(runs.size(), kMaxFetchesPerPeer);
  EXPECT_EQ(runs.back().count, kMaxKeysPerFetch);
}

TEST(PlanFetchTest, AHolderThatFailedOrWhoseShareIsFullComesAfterTheOthers) {
  EXPECT_EQ(PlanOf(Located({{"avoided", "a"}}), absl::Seconds(1))[0].address, "a");
  EXPECT_EQ(PlanOf(Located({{"full", "a"}}), absl::Seconds(1))[0].address, "a");
  EXPECT_EQ(PlanOf(Located({{"full", "avoided"}}), absl::Seconds(1))[0].address, "avoided");
  EXPECT_TRUE(PlanOf(Located({{"full"}}), absl::Seconds(1)).empty());
  // A run does not stay with an avoided holder where another one has the next block.
  EXPECT_EQ(PlanOf(Located({{"avoided"}, {"avoided", "a"}}), absl::Seconds(1))[1].address, "a");
}

TEST(PlanFetchTest, NoMoreFetchesArePlannedThanMayBeStarted) {
  const auto runs =
      PlanFetch(Located({{"a"}, {"b"}, {"c"}}),
                {.block_bytes = 4096, .budget = absl::Seconds(1), .free_fetches = 2}, Fast);
  EXPECT_EQ(runs.size(), 2u);
}

TEST(PlanFetchTest, AHolderHasHalfOfTheTimeWhereAnotherCouldBeAskedAndAllOfItElsewhere) {
  const auto time_of = [](const std::vector<std::string>& holders, absl::Duration budget) {
    return PlanOf(Located({holders}), budget)[0];
  };
  const PeerRun shared = time_of({"a", "b"}, absl::Seconds(1));
  EXPECT_EQ(shared.time, absl::Milliseconds(500));
  EXPECT_EQ(shared.silence, kMinPeerSilence);
  for (const std::vector<std::string>& alone :
       std::vector<std::vector<std::string>>{{"a"}, {"a", "avoided"}, {"a", "full"}}) {
    EXPECT_EQ(time_of(alone, absl::Seconds(1)).time, absl::Seconds(1));
    EXPECT_EQ(time_of(alone, absl::Seconds(1)).silence, absl::InfiniteDuration());
  }
  // Both have failed, so the first gets half of the time, as if neither had.
  EXPECT_EQ(time_of({"avoided", "avoided too"}, absl::Seconds(1)).time, absl::Milliseconds(500));
  // Half of the time is less than "a" needs, and the rest would be too little for "b".
  EXPECT_EQ(time_of({"a", "b"}, absl::Microseconds(1500)).time, absl::Microseconds(1500));
}

TEST(PlanFetchTest, TheSilenceOfAHolderIsMeasuredByWhatOneBlockOfItTakes) {
  // One block takes 1 ms of latency, and 100 ms for 100 MB at 1 GB/s.
  const auto runs = PlanOf(Located({{"a", "b"}}), absl::Seconds(10), 100'000'000);
  EXPECT_EQ(runs[0].silence, kPeerSilenceFactor * absl::Milliseconds(101));
}

}  // namespace
}  // namespace kvtier

// Tests a coordinator that hangs, dies and comes back: nothing but cross-node hits is lost, no call
// outlives its deadline, and the hits return by themselves (law 7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kLocal = {.first = 100, .count = 16};
constexpr Blocks kRemote = {.first = 900, .count = 16};
constexpr absl::Duration kDeadline = absl::Milliseconds(400);
// The default of agents, shorter than AgentProcess's: requests wait that long for a coordinator
// that hangs.
const Flags kShortGrace = {{"locate_grace", "50ms"}};

class CoordinatorLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(on_b_.Put(kLocal), kLocal.count);
    ASSERT_TRUE(b_.AwaitOffloaded());
    ASSERT_EQ(on_a_.Put(kRemote), kRemote.count);
    ASSERT_TRUE(coordinator_.AwaitHolders(on_a_.KeyOf(kRemote.first + kRemote.count - 1), 1));
  }

  // Expects that `call` ends by the deadline that it is given.
  template <typename Call>
  void ExpectInTime(const std::string& what, Call call) {
    const absl::Time start = absl::Now();
    call(Patience(kDeadline));
    EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack()) << what;
  }

  // Expects that all that needs no other node works, and that the rest is a miss in time.
  void ExpectLocalServiceOnly() {
    ExpectInTime("host hit", [&](absl::Duration timeout) {
      EXPECT_THAT(on_b_.Get(kLocal, {.timeout = timeout}),
                  AllOf(SizeIs(kLocal.count), Each(BlockSource::kHost)));
    });
    b_.Evict(Tier::kHost);
    ExpectInTime("disk hit", [&](absl::Duration timeout) {
      EXPECT_THAT(on_b_.Get(kLocal, {.timeout = timeout}),
                  AllOf(SizeIs(kLocal.count), Each(BlockSource::kDisk)));
    });
    ExpectInTime("remote onboard", [&](absl::Duration timeout) {
      EXPECT_THAT(on_b_.Get(kRemote, {.timeout = timeout}), IsEmpty());
    });
    ExpectInTime("match", [&](absl::Duration timeout) {
      const auto matched =
          on_b_.client().Match(on_b_.space(), on_b_.KeysOf(kRemote), {.timeout = timeout});
      ASSERT_TRUE(matched.ok());
      EXPECT_EQ(matched->blocks, 0);
    });
    ExpectInTime("prefetch", [&](absl::Duration timeout) {
      EXPECT_TRUE(
          on_b_.client().Prefetch(on_b_.space(), on_b_.KeysOf(kRemote), {.timeout = timeout}).ok());
    });
    ExpectInTime("put", [&](absl::Duration timeout) {
      EXPECT_EQ(on_b_.Put({next_new_, 4}, {.timeout = timeout}), 4);
      EXPECT_THAT(on_b_.Get({next_new_, 4}), SizeIs(4));
      next_new_ += 100;
    });
    EXPECT_EQ(on_b_.client().Stats().calls_failed, 0);
    EXPECT_EQ(on_b_.client().Stats().breaker_opened, 0);
  }

  uint64_t next_new_ = 10'000;
  ProcessCluster cluster_;
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& a_ = cluster_.StartAgent("node-a", kShortGrace);
  AgentProcess& b_ = cluster_.StartAgent("node-b", kShortGrace);
  TestWorker on_a_{{.socket_dir = a_.socket_dir()}};
  TestWorker on_b_{{.socket_dir = b_.socket_dir()}};
};

TEST_F(CoordinatorLossTest, HungThenKilledThenBackCostsOnlyCrossNodeHits) {
  coordinator_.Hang();
  ExpectLocalServiceOnly();
  EXPECT_TRUE(Await(absl::Seconds(4), [&] { return !b_.Status().coordinator_connected(); }));
  EXPECT_GT(b_.Status().coordinator_silence_seconds(), 0);
  ExpectLocalServiceOnly();

  coordinator_.Kill();
  ExpectLocalServiceOnly();

  ASSERT_EQ(coordinator_.Start(), absl::OkStatus());
  // The coordinator learns the blocks by resync alone, because no block is put again.
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    return on_b_.Get(kRemote) == std::vector<BlockSource>(kRemote.count, BlockSource::kPeer);
  }));
  // The node that asks may still be about to reconnect.
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    const absl::StatusOr<v1::CoordinatorStatusResponse> status = coordinator_.TryStatus();
    return status.ok() && status->nodes_size() == 2 && status->directory_keys() > 0;
  }));
}

TEST_F(CoordinatorLossTest, ACoordinatorThatHungForAMomentIsUsedAgain) {
  coordinator_.Hang();
  ExpectLocalServiceOnly();
  coordinator_.Continue();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return on_b_.Get(kRemote).size() == kRemote.count; }));
}

// Once, each request for blocks of another node waited 200 ms for the coordinator, even while the
// status showed it as not connected.
TEST_F(CoordinatorLossTest, AHungCoordinatorCostsOneRequestItsWaitAndTheOthersNothing) {
  const auto ten_gets_take = [&] {
    const absl::Time start = absl::Now();
    for (int i = 0; i < 10; ++i) {
      EXPECT_THAT(on_b_.Get(kRemote, {.timeout = absl::Seconds(10)}), IsEmpty());
    }
    return absl::Now() - start;
  };
  coordinator_.Hang();
  EXPECT_LE(ten_gets_take(), absl::Milliseconds(200) + 2 * Slack());
  EXPECT_TRUE(Await(absl::Seconds(4), [&] { return !b_.Status().coordinator_connected(); }));
  EXPECT_LE(ten_gets_take(), 2 * Slack());
}

TEST_F(CoordinatorLossTest, WhatChangedWhileItWasAwayIsKnownAfterwards) {
  constexpr Blocks kMeanwhile = {.first = 2000, .count = 8};
  coordinator_.Kill();
  ASSERT_EQ(on_a_.Put(kMeanwhile), kMeanwhile.count);
  ASSERT_TRUE(a_.AwaitOffloaded());
  ASSERT_EQ(coordinator_.Start(), absl::OkStatus());
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return on_b_.Get(kMeanwhile).size() == kMeanwhile.count; }));
}

TEST(CoordinatorAbsenceTest, AnAgentStartsAndServesBeforeItsCoordinatorDoes) {
  ProcessCluster cluster;
  const std::string nobody = cluster.NextAddress();
  AgentProcess& agent = cluster.StartAgent("node-a", {{"coordinator", nobody}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  EXPECT_EQ(worker.Put(kLocal), kLocal.count);
  EXPECT_THAT(worker.Get(kLocal), SizeIs(kLocal.count));
  const v1::AgentStatusResponse status = agent.Status();
  EXPECT_EQ(status.coordinator_address(), nobody);
  EXPECT_FALSE(status.coordinator_connected());
}

}  // namespace
}  // namespace kvtier::testing

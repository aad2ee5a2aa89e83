// Tests requests for blocks of other nodes when no fetch is free: they wait for their turn within
// their own time, the tenants take turns, and what does not come is told with its reason.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/miss_reason.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::KnowingCoordinator;
using testing::kPeer;
using testing::kSecond;
using testing::PeerBehaviour;
using testing::ScriptedPeers;

using Answer = std::shared_ptr<std::optional<absl::StatusOr<Onboarded>>>;

// The rig's other tenant is guaranteed a quarter of the fetches and of the places.
constexpr size_t kMostFetches = kMaxFetchesPerPeer * 3 / 4;
constexpr size_t kMostPlaces = kMaxFetchPlaces * 3 / 4;
constexpr absl::Duration kBudget = absl::Seconds(4);

class FetchLineTest : public ::testing::Test {
 protected:
  FetchLineTest()
      : rig_({.slots = 1024, .disk = false, .transport = &peers_, .coordinator = &coordinator_}) {
    peers_.rig = &rig_;
    peers_.blocks = 200;
    peer_.takes = absl::Milliseconds(20);
  }
  Answer Ask(uint64_t number, absl::Duration budget = kBudget, size_t count = 1) {
    return rig_.Spawn(rig_.Onboard(rig_.session, number, count, budget));
  }
  std::vector<Answer> AskForEach(uint64_t count, absl::Duration budget = kBudget) {
    std::vector<Answer> answers;
    for (uint64_t number = 1; number <= count; ++number) answers.push_back(Ask(number, budget));
    return answers;
  }
  static size_t Hits(const std::vector<Answer>& answers) {
    size_t hits = 0;
    for (const Answer& answer : answers) hits += Blocks(answer);
    return hits;
  }
  static size_t Blocks(const Answer& answer) {
    return answer->has_value() ? (**answer)->blocks.size() : 0;
  }
  static MissReason Missed(const Answer& answer) { return (**answer)->missed; }
  const FetchLine& line() const { return rig_.agent->flows().fetcher.line(); }
  const PeerStats& stats() const { return rig_.agent->stats().peers; }

  KnowingCoordinator coordinator_;
  ScriptedPeers peers_;
  PeerBehaviour& peer_ = peers_[kPeer];
  AgentRig rig_;
};

// Once, all but the first 12 were told at once that nobody has their blocks.
TEST_F(FetchLineTest, AHundredRequestsOfAHealthyPeersBlocksComeWithinTheirTime) {
  const std::vector<Answer> answers = AskForEach(100);
  EXPECT_EQ(peer_.running, static_cast<int>(kMostFetches));
  EXPECT_EQ(line().waiting(), 100 - kMostFetches);
  rig_.Pass(kBudget / 2);
  EXPECT_EQ(Hits(answers), 100u);
  EXPECT_EQ(stats().missed_blocks, 0u);
  EXPECT_EQ(line().waiting(), 0u);
}

TEST_F(FetchLineTest, ALongRunWaitsForItsTurnAndComesWhole) {
  const std::vector<Answer> others = AskForEach(kMostFetches);
  const Answer run = Ask(40, kBudget, 3 * kBlocksPerFetchPlace);
  EXPECT_EQ(line().waiting(), 1u);
  rig_.Pass(kBudget / 2);
  EXPECT_EQ(Blocks(run), 3 * kBlocksPerFetchPlace);
  EXPECT_EQ(Missed(run), MissReason::kNone);
}

TEST_F(FetchLineTest, ASetWaitsForItsTurnAndComesWhole) {
  const std::vector<Answer> others = AskForEach(kMostFetches);
  OnboardRequest request{.run = rig_.NameRun(rig_.session, 40, 40),
                         .deadline = rig_.executor.Now() + kBudget};
  request.run.is_set = true;
  const Answer set = rig_.Spawn(rig_.agent->flows().onboarder.Onboard(std::move(request)));
  rig_.Pass(kBudget / 2);
  EXPECT_EQ(Blocks(set), 40u);
}

TEST_F(FetchLineTest, WhatHasNoTurnInItsTimeIsLateAndCounted) {
  const absl::Time start = rig_.executor.Now();
  peer_.takes = absl::Milliseconds(60);
  const std::vector<Answer> answers = AskForEach(kMostFetches);
  const absl::Duration budget = absl::Milliseconds(40);
  const Answer late = Ask(50, budget);
  while (!late->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_LE(rig_.executor.Now() - start, budget);
  EXPECT_EQ(Missed(late), MissReason::kDeadline);
  EXPECT_EQ(stats().missed_blocks, 1u);
  EXPECT_EQ(line().waiting(), 0u) << "its place is free";
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(Hits(answers), kMostFetches);
}

TEST_F(FetchLineTest, NobodyWaitsForAPeerThatWouldComeTooLate) {
  peer_.takes = absl::Milliseconds(900);
  rig_.Pass(absl::Seconds(1));
  for (uint64_t number = 1; number <= 6; ++number) {
    rig_.Hits(rig_.session, number, 1, absl::Seconds(1));
  }
  const absl::Time start = rig_.executor.Now();
  const Answer answer = Ask(50, absl::Milliseconds(100));
  while (!answer->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(rig_.executor.Now(), start);
  EXPECT_EQ(Missed(answer), MissReason::kDeadline);
}

TEST_F(FetchLineTest, BeyondThePlacesARequestIsToldAtOnceThatTheNodeIsBusy) {
  peer_.hangs = true;
  const std::vector<Answer> answers = AskForEach(kMostFetches + kMostPlaces);
  EXPECT_EQ(line().waiting(), kMostPlaces);
  EXPECT_FALSE(answers.back()->has_value());
  const Answer one_more = Ask(900);
  ASSERT_TRUE(one_more->has_value());
  EXPECT_EQ(Missed(one_more), MissReason::kBusy);
  EXPECT_EQ(stats().missed_blocks, 1u);
  // The other tenant has places of its own, and is not behind the first one's.
  const SessionId other = rig_.Open(1);
  coordinator_.holders = {kPeer};
  for (uint64_t number = 1; number <= kMaxFetchesPerPeer / 4 + 1; ++number) {
    rig_.Spawn(rig_.Onboard(other, number, 1, kBudget));
  }
  EXPECT_EQ(peer_.running, static_cast<int>(kMaxFetchesPerPeer));
  EXPECT_EQ(line().waiting(), kMostPlaces + 1);
  rig_.Pass(kBudget);
  EXPECT_EQ(line().waiting(), 0u);
}

TEST_F(FetchLineTest, ATenantWithManyWaitingDoesNotKeepAnothersFromItsTurn) {
  const std::vector<Answer> answers = AskForEach(200);
  const SessionId other = rig_.Open(1);
  // All fetches that the second tenant is guaranteed run; one request more waits.
  for (uint64_t number = 1; number <= kMaxFetchesPerPeer / 4; ++number) {
    rig_.Spawn(rig_.Onboard(other, 300 + number, 1, kBudget));
  }
  const Answer theirs = rig_.Spawn(rig_.Onboard(other, 400, 1, kBudget));
  EXPECT_FALSE(theirs->has_value());
  rig_.Pass(2 * peer_.takes + absl::Milliseconds(1));
  EXPECT_TRUE(theirs->has_value()) << "it began with the first fetch that ended";
  EXPECT_LT(Hits(answers), 3 * kMostFetches);
}

TEST_F(FetchLineTest, OneThatWaitsForAHungPeerHoldsUpNoOther) {
  peer_.hangs = true;
  const std::vector<Answer> answers = AskForEach(kMostFetches + 10);
  coordinator_.holders = {kSecond};
  EXPECT_EQ(rig_.Hits(rig_.session, 100, 1), 1u);
  peers_[kSecond].takes = absl::Milliseconds(20);
  for (uint64_t number = 101; number <= 130; ++number) Ask(number);
  EXPECT_EQ(line().waiting(), 10u + 30u - kMostFetches);
  rig_.Pass(absl::Milliseconds(70));
  EXPECT_EQ(line().waiting(), 10u) << "those of the second peer had their turns";
  rig_.Pass(kBudget);
}

// Once, a peer that served others was taken for one that failed, and a block that it alone has was
// a miss at once.
TEST_F(FetchLineTest, APeerThatIsBusyIsAskedAgainInTimeAndHasNotFailed) {
  peer_.streams = 3;
  const std::vector<Answer> answers = AskForEach(40);
  rig_.Pass(absl::Seconds(2));
  EXPECT_EQ(Hits(answers), 40u);
  EXPECT_EQ(rig_.agent->flows().fetcher.standings().avoided(), 0u);
  EXPECT_LT(peer_.refused, 80) << "it is not asked in vain all the time";
}

TEST_F(FetchLineTest, APeerThatStaysBusyIsAMissAtTheDeadline) {
  peer_.streams = 0;
  const absl::Time start = rig_.executor.Now();
  const Answer answer = Ask(1, absl::Milliseconds(100));
  while (!answer->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(100));
  EXPECT_EQ(Missed(answer), MissReason::kDeadline);
  rig_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(stats().missed_blocks, 1u);
}

TEST_F(FetchLineTest, TheNextHolderIsPreferredToABusyOne) {
  peer_.streams = 0;
  coordinator_.holders = {kPeer, kSecond};
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(rig_.executor.Now() - start, peers_[kSecond].takes);
}

TEST_F(FetchLineTest, TheEndOfASessionFreesItsPlaces) {
  peer_.hangs = true;
  const std::vector<Answer> answers = AskForEach(kMostFetches);
  const SessionId leaving = rig_.Open(0);
  rig_.Spawn(rig_.Onboard(leaving, 60, 1, kBudget));
  EXPECT_EQ(line().waiting(), 1u);
  rig_.agent->sessions().Close(leaving);
  rig_.Pass(2 * kFetchLineInterval);
  EXPECT_EQ(line().waiting(), 0u);
  rig_.Pass(kBudget);
}

TEST_F(FetchLineTest, APrefetchDoesNotWait) {
  const std::vector<Answer> answers = AskForEach(kMostFetches);
  auto& onboarder = rig_.agent->flows().onboarder;
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Run(onboarder.Prefetch(rig_.NameRun(rig_.session, 60, 2), false)), 0u);
  EXPECT_EQ(rig_.executor.Now(), start);
  EXPECT_EQ(stats().missed_blocks, 2u);
  rig_.Pass(kBudget);
}

TEST_F(FetchLineTest, ABusyCoordinatorIsToldAsSuchAndAskedAgain) {
  coordinator_.is_busy = true;
  const Answer refused = Ask(1);
  while (!refused->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(Missed(refused), MissReason::kBusy);
  coordinator_.is_busy = false;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 1u);
}

TEST_F(FetchLineTest, AHolderThatHasNotTheBlockAfterAllMakesItAbsent) {
  const Answer answer = Ask(5000);
  while (!answer->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(Missed(answer), MissReason::kAbsent);
  EXPECT_EQ(stats().missed_blocks, 1u);
}

TEST_F(FetchLineTest, AWrongBlockIsDamaged) {
  peer_.tamper = [](BlockProof*, std::vector<std::byte>* bytes) { bytes->at(9) ^= std::byte{1}; };
  const Answer answer = Ask(1);
  while (!answer->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(Missed(answer), MissReason::kDamaged);
  EXPECT_EQ(stats().missed_blocks, 0u) << "counted as a wrong block";
}

}  // namespace
}  // namespace kvtier

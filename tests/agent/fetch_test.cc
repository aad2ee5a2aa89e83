// Tests Fetcher and CoordinatorReporter against peers and coordinators that answer as the test
// says.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/checksum.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::FillBlock;
using testing::KnowingCoordinator;
using testing::kPeer;
using testing::kRigBlockBytes;
using testing::kSecond;
using testing::PeerBehaviour;
using testing::ScriptedPeers;
using testing::TestEngineKey;
using testing::TestSpace;

class FetchTest : public ::testing::Test {
 protected:
  FetchTest() : rig_(Make()) { peers_.rig = &rig_; }
  AgentRig::Shape Make() {
    // The rig's constructor starts the reporter, which calls the coordinator before the rig has an
    // executor. So the coordinator falls silent later, by Silence().
    return {.transport = &peers_, .coordinator = &coordinator_};
  }
  void Silence() {
    coordinator_.executor = &rig_.executor;
    coordinator_.silent = true;
  }
  const AgentStats& stats() const { return rig_.agent->stats(); }
  // Adds a second holder of every block; kPeer is still ranked first.
  void AddSecond() { coordinator_.holders = {kPeer, kSecond}; }
  size_t avoided() const { return rig_.agent->flows().fetcher.standings().avoided(); }

  KnowingCoordinator coordinator_;
  ScriptedPeers peers_;
  PeerBehaviour& peer_ = peers_[kPeer];
  PeerBehaviour& second_ = peers_[kSecond];
  AgentRig rig_;
};

TEST_F(FetchTest, APeersBlocksAreVerifiedPublishedAndHit) {
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8), 8u);
  EXPECT_EQ(stats().peers.fetched_blocks, 8u);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8), 8u);
  EXPECT_EQ(peer_.fetches, 1) << "kept";
}

TEST_F(FetchTest, WhatThePeerDoesNotSendIsAMiss) {
  EXPECT_EQ(rig_.Hits(rig_.session, 6, 6), 3u);
  EXPECT_EQ(stats().peers.missed_blocks, 3u);
}

TEST_F(FetchTest, WhatIsFetchedWhileItsTenantIsErasedDoesNotArrive) {
  peer_.takes = absl::Milliseconds(20);
  const auto onboard = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, absl::Milliseconds(100)));
  rig_.Pass(absl::Milliseconds(1));
  (void)rig_.Run(
      rig_.agent->flows().tenant_eraser.Erase("default"));  // Fails: the disk has no keys.
  while (!onboard->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ((*onboard)->value().blocks.size(), 0u);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), 0u);
}

TEST_F(FetchTest, APeerThatHangsIsAMissAtTheDeadline) {
  peer_.hangs = true;
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2u);
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4, absl::Milliseconds(70)), 2u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(70));
  EXPECT_EQ(stats().peers.timeouts, 1u);
  EXPECT_EQ(rig_.agent->index().pinned_bytes(), 0u);
}

TEST_F(FetchTest, AFlippedBitAnywhereIsAMissAndACounter) {
  const std::vector<std::function<void(BlockProof*, std::vector<std::byte>*)>> flips = {
      [](BlockProof*, std::vector<std::byte>* bytes) { bytes->at(100) ^= std::byte{1}; },
      [](BlockProof* proof, std::vector<std::byte>*) { proof->sum.hi ^= 1; },
      [](BlockProof* proof, std::vector<std::byte>*) { proof->mac[0] ^= 1; }};
  uint64_t failures = 0;
  for (const auto& flip : flips) {
    peer_.tamper = flip;
    EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 0u);
    EXPECT_EQ(stats().peers.verify_failures, ++failures);
  }
  rig_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(rig_.agent->host().used_bytes(), 0u);
}

TEST_F(FetchTest, ABlockOfAnotherSpaceOrLengthIsLetGoBy) {
  peer_.tamper = [](BlockProof* proof, std::vector<std::byte>*) { proof->space.bytes[0] ^= 1; };
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 0u);
  peer_.tamper = [](BlockProof* proof, std::vector<std::byte>*) { proof->length = 1 << 30; };
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 0u);
  EXPECT_EQ(stats().peers.missed_blocks, 2u);
}

TEST_F(FetchTest, ABlockOfALengthThatTheSpaceHasNotIsLetGoBy) {
  peers_.block_bytes = kRigBlockBytes - 1;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 0u);
  EXPECT_EQ(stats().peers.missed_blocks, 1u);
}

TEST_F(FetchTest, ABlockOfAnyLengthComesAsLongAsThePeerHasIt) {
  peers_.space_id =
      *rig_.agent->sessions().table().AddSpace(rig_.session, testing::AnyLengthSpace(12000));
  for (const uint64_t length : {uint64_t{1}, uint64_t{9000}, uint64_t{12000}, uint64_t{12001}}) {
    peers_.block_bytes = length;
    rig_.EvictHost();
    OnboardRequest request{.run = peers_.NameRun(1, 2),
                           .deadline = rig_.executor.Now() + absl::Milliseconds(100)};
    const auto onboarded = rig_.Run(rig_.agent->flows().onboarder.Onboard(std::move(request)));
    ASSERT_EQ(onboarded->blocks.size(), length <= 12000 ? 2u : 0u) << length;
    for (const LeasedBlock& block : onboarded->blocks) {
      EXPECT_EQ(block.length, length);
      rig_.agent->sessions().leases().Release(rig_.session, std::span(&block.lease, 1));
    }
  }
}

// Regression: bytes of the slot's previous block lay behind the peer's block, and went to disk as
// the padding of its record.
TEST_F(FetchTest, NothingOfAnOlderBlockLiesBehindAPeersBlock) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 100, 16), 16u);  // Every slot was written.
  rig_.EvictHost();
  peers_.block_bytes = 3000;
  peers_.space_id = *rig_.agent->sessions().table().AddSpace(rig_.session, TestSpace(3000));
  const BlockRun run = peers_.NameRun(1, 8);
  OnboardRequest request{.run = run, .deadline = rig_.executor.Now() + absl::Milliseconds(100)};
  const auto onboarded = rig_.Run(rig_.agent->flows().onboarder.Onboard(std::move(request)));
  ASSERT_EQ(onboarded->blocks.size(), 8u);
  for (const BlockKey& key : run.keys) {
    const std::span<const std::byte> slot = rig_.agent->index().Find(key)->slot.bytes();
    EXPECT_TRUE(std::ranges::all_of(slot.subspan(3000),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_F(FetchTest, TwoAskersShareOneFetch) {
  const auto first = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, absl::Milliseconds(50)));
  const auto second = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, absl::Milliseconds(50)));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_EQ((*first)->value().blocks.size(), 4u);
  EXPECT_EQ((*second)->value().blocks.size(), 4u);
  EXPECT_EQ(peer_.fetches, 1);
}

// Regression: a frozen peer that was ranked first was asked for ever. Every request waited until
// its deadline, and missed the blocks that a healthy peer held.
TEST_F(FetchTest, WhatAFrozenPeerDoesNotSendIsAskedOfTheNextHolderInTime) {
  AddSecond();
  peer_.hangs = true;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(stats().peers.passed_blocks, 4u);
  EXPECT_EQ(stats().peers.missed_blocks, 0u);
  EXPECT_EQ(stats().peers.timeouts, 0u);
}

TEST_F(FetchTest, AFrozenPeerIsLeftAfterASilenceAndNotAfterHalfOfALongDeadline) {
  AddSecond();
  peer_.hangs = true;
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4, absl::Seconds(20)), 4u);
  EXPECT_EQ(rig_.executor.Now() - start, kMinPeerSilence + second_.takes);
}

TEST_F(FetchTest, ARefusalIsAskedOfTheNextHolderAtOnce) {
  AddSecond();
  peer_.refuses = true;
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(rig_.executor.Now() - start, second_.takes);
}

TEST_F(FetchTest, APeerWhoseFreeStreamsAreKeptForOtherTenantsHasNotFailed) {
  AddSecond();
  peer_.has_tenants_share = true;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(second_.fetches, 1);
  EXPECT_EQ(avoided(), 0u) << "the other tenants would ask it last";
}

TEST_F(FetchTest, WhatArrivedStaysAndOnlyTheRestIsAskedOfTheNextHolder) {
  AddSecond();
  peer_.sends = 3;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8), 8u);
  EXPECT_EQ(stats().peers.fetched_blocks, 8u);
  EXPECT_EQ(stats().peers.passed_blocks, 5u);
}

TEST_F(FetchTest, WrongBytesAreAskedOfTheNextHolder) {
  AddSecond();
  peer_.tamper = [](BlockProof*, std::vector<std::byte>* bytes) { bytes->at(9) ^= std::byte{1}; };
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(stats().peers.verify_failures, 4u);
  EXPECT_EQ(stats().peers.missed_blocks, 0u);
  EXPECT_EQ(avoided(), 1u);
}

TEST_F(FetchTest, AStaleHintIsAskedOfTheNextHolderAndIsNoFailure) {
  AddSecond();
  peer_.tamper = [](BlockProof* proof, std::vector<std::byte>*) { proof->length = 1 << 30; };
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  EXPECT_EQ(avoided(), 0u);
}

TEST_F(FetchTest, APeerThatFailedIsAskedAfterTheOthersForAWhileAndThenAgain) {
  AddSecond();
  peer_.hangs = true;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 1u);
  EXPECT_EQ(avoided(), 1u);
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 2, 1), 1u);
  EXPECT_EQ(rig_.executor.Now() - start, second_.takes);
  EXPECT_EQ(peer_.fetches, 1);
  peer_.hangs = false;
  rig_.Pass(kPeerAvoidance);
  EXPECT_EQ(avoided(), 0u);
  EXPECT_EQ(rig_.Hits(rig_.session, 3, 1), 1u);
  EXPECT_EQ(peer_.fetches, 2) << "ranked first";
}

TEST_F(FetchTest, APeerThatFailedAndIsTheOnlyHolderIsAskedByOneFetchAtATime) {
  peer_.hangs = true;
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 0u);
  peer_.most_running = 0;
  const auto probe = rig_.Spawn(rig_.Onboard(rig_.session, 2, 1, absl::Milliseconds(100)));
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 3, 1), 0u);
  EXPECT_EQ(rig_.executor.Now(), start) << "a miss at once";
  EXPECT_EQ(peer_.most_running, 1);
  rig_.Pass(absl::Milliseconds(100));
  peer_.hangs = false;
  EXPECT_EQ(rig_.Hits(rig_.session, 4, 1), 1u);
  EXPECT_EQ(avoided(), 0u) << "it served";
}

// The rig's other tenant is guaranteed a quarter (PeerStreamsTest).
constexpr size_t kMostOfOneTenant = kMaxFetchesRunning * 3 / 4;
constexpr size_t kMostOfOneTenantPerPeer = kMaxFetchesPerPeer * 3 / 4;

// Once, requests that waited for one frozen peer used up every fetch of the node.
TEST_F(FetchTest, AFrozenPeerHoldsNoMoreThanItsShareOfTheFetches) {
  peer_.hangs = true;
  std::vector<std::shared_ptr<std::optional<absl::StatusOr<Onboarded>>>> waiting;
  for (uint64_t number = 100; number < 100 + kMaxFetchesRunning; ++number) {
    waiting.push_back(rig_.Spawn(rig_.Onboard(rig_.session, number, 1, absl::Seconds(10))));
  }
  EXPECT_EQ(peer_.running, static_cast<int>(kMostOfOneTenantPerPeer));
  coordinator_.holders = {kSecond};
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u);
  coordinator_.holders = {kPeer, kSecond};
  EXPECT_EQ(rig_.Hits(rig_.session, 5, 4), 4u) << "a full share goes to the next holder";
  rig_.Pass(absl::Seconds(10));
  EXPECT_EQ(peer_.running, 0);
}

TEST_F(FetchTest, AsManyFetchesRunAsTheLimitSaysAndTheNextOnesWait) {
  for (const char* address : {"a:1", "b:1", "c:1"}) peers_[address].hangs = true;
  uint64_t number = 100;
  for (const char* address : {"a:1", "b:1", "c:1"}) {
    coordinator_.holders = {address};
    for (size_t i = 0; i < kMaxFetchesPerPeer; ++i) {
      rig_.Spawn(rig_.Onboard(rig_.session, number++, 1, absl::Seconds(1)));
    }
  }
  EXPECT_EQ(peers_["a:1"].running + peers_["b:1"].running, static_cast<int>(kMostOfOneTenant));
  EXPECT_EQ(peers_["c:1"].fetches, 0);
  EXPECT_EQ(rig_.agent->flows().fetcher.line().waiting(),
            3 * kMaxFetchesPerPeer - kMostOfOneTenant);
  rig_.Pass(absl::Seconds(1));
}

TEST_F(FetchTest, AWaiterThatSharesAFetchWhichIsPassedOnEndsByItsOwnDeadline) {
  AddSecond();
  peer_.hangs = true;
  second_.hangs = true;
  const auto first = rig_.Spawn(rig_.Onboard(rig_.session, 1, 2, absl::Seconds(2)));
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 2, absl::Milliseconds(70)), 0u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(70));
  rig_.Pass(absl::Seconds(2));
  EXPECT_TRUE(first->has_value());
  EXPECT_EQ(stats().peers.missed_blocks, 2u) << "once, at the end";
}

// Regression: a peer that was slow for a while was never asked again, because only a fetch could
// correct the estimate of its speed.
TEST_F(FetchTest, APeerThatWasSlowIsAskedAgainAfterAWhile) {
  peer_.takes = absl::Milliseconds(900);
  for (uint64_t number = 1; number <= 6; ++number) {
    rig_.Hits(rig_.session, number, 1, absl::Seconds(1));
  }
  peer_.takes = absl::Milliseconds(1);
  const int before = peer_.fetches;
  EXPECT_EQ(rig_.Hits(rig_.session, 7, 1, absl::Milliseconds(100)), 0u) << "not worth asking";
  EXPECT_EQ(peer_.fetches, before);
  rig_.Pass(kPeerEstimateLifetime + absl::Milliseconds(1));
  EXPECT_EQ(rig_.Hits(rig_.session, 7, 1, absl::Milliseconds(100)), 1u);
}

TEST_F(FetchTest, ASilentCoordinatorCostsNoLocalHitAndNoDeadline) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3u);
  Silence();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 3), 3u);
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8, absl::Milliseconds(50)), 3u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(50));
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8, absl::Seconds(30)), 3u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(50) + kLocateTimeout);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 8, absl::Seconds(30)), 3u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(50) + kLocateTimeout) << "once";
  rig_.Pass(absl::Seconds(5));
  EXPECT_FALSE(rig_.agent->reporter()->connected());
  coordinator_.silent = false;
  rig_.Pass(absl::Seconds(3));
  EXPECT_TRUE(rig_.agent->reporter()->connected());
}

TEST_F(FetchTest, AHeartbeatIsSentWhenThereIsNoNews) {
  rig_.Pass(absl::Seconds(2));
  const int before = coordinator_.reports;
  rig_.Pass(10 * kHeartbeatInterval);
  EXPECT_GE(coordinator_.reports - before, 9);
  EXPECT_LE(coordinator_.reports - before, 11);
}

TEST_F(FetchTest, AReportNamesTheSettingsThatTheNodeFollowsAndBringsNone) {
  rig_.Pass(2 * kHeartbeatInterval);
  EXPECT_EQ(coordinator_.followed, SettingsStamp());
  const ClusterTenants told = {.store = 5, .version = 7, .settings = {{"beta", {.name = "beta"}}}};
  coordinator_.tenants = told;
  rig_.Pass(2 * kHeartbeatInterval);
  EXPECT_EQ(coordinator_.followed, told.Stamp());
  EXPECT_FALSE(rig_.agent->reporter()->tenants_differ());
  // Another coordinator took its place, whose settings another operator began.
  coordinator_.tenants = ClusterTenants{.store = 6, .version = 40};
  coordinator_.tenants_differ = true;
  rig_.Pass(2 * kHeartbeatInterval);
  EXPECT_EQ(coordinator_.followed, told.Stamp());
  EXPECT_EQ(rig_.agent->tenants().cluster(), told);
  EXPECT_TRUE(rig_.agent->reporter()->tenants_differ());
}

// Once, a stop during a report waited for one more heartbeat.
TEST_F(FetchTest, StopEndsTheLoopsSoon) {
  rig_.Pass(absl::Seconds(2));
  TaskScope stopping(&rig_.executor);
  bool stopped = false;
  const auto stop = [](Agent* agent, absl::Time deadline, bool* stopped) -> Task<void> {
    *stopped = co_await agent->Stop(deadline);
  };
  stopping.Spawn(stop(rig_.agent.get(), rig_.executor.Now() + absl::Milliseconds(300), &stopped));
  rig_.Pass(absl::Seconds(1));
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace kvtier

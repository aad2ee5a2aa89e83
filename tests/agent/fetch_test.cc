// Fetcher, PlanFetch and CoordinatorReporter against peers and coordinators that
// answer as the test says.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "agent/plan_fetch.h"
#include "core/checksum.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::FillBlock;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

const char kPeer[] = "peer:7400";

// Says that the peer holds whatever is asked for, at once; or says nothing.
class KnowingCoordinator final : public CoordinatorLink {
 public:
  Executor* executor = nullptr;
  bool silent = false;
  int reports = 0;

  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override {
    ++reports;
    if (silent) {
      co_await SleepUntil(executor, deadline);
      co_return absl::DeadlineExceededError("silent");
    }
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size()};
  }
  Task<absl::StatusOr<LocateReply>> Locate(NodeId, std::vector<BlockKey> keys,
                                           absl::Time deadline) override {
    if (silent) {
      co_await SleepUntil(executor, deadline);
      co_return absl::DeadlineExceededError("silent");
    }
    const Holder holder{.node = *NodeId::FromString("peer"), .address = kPeer};
    co_return LocateReply(keys.size(), {holder});
  }
};

// A peer that has blocks 1, 2, ... of the rig's open tenant.
class ScriptedPeer final : public PeerTransport {
 public:
  AgentRig* rig = nullptr;
  bool hangs = false;
  absl::Duration takes = absl::Milliseconds(1);
  std::function<void(BlockProof*, std::vector<std::byte>*)> tamper;
  int fetches = 0;

  Task<absl::Status> Fetch(std::string, std::vector<BlockKey> keys, absl::Time deadline,
                           FetchSink* sink) override {
    ++fetches;
    Executor* const executor = &rig->executor;
    if (hangs) {
      co_await SleepUntil(executor, deadline);
      co_return absl::DeadlineExceededError("hangs");
    }
    co_await SleepUntil(executor, std::min(deadline, executor->Now() + takes));
    for (size_t i = 0; i < keys.size(); ++i) {
      std::vector<std::byte> bytes = BytesOf(keys[i]);
      if (bytes.empty()) continue;
      const BlockRun run = rig->NameRun(rig->session, 1, 1);
      BlockProof proof = ProofOf(
          {.key = keys[i], .space = run.space, .length = bytes.size(), .sum = SumPayload(bytes)});
      if (tamper) tamper(&proof, &bytes);
      const std::span<std::byte> room = sink->Begin(i, proof);
      if (room.empty()) continue;
      std::copy_n(bytes.begin(), room.size(), room.begin());
      sink->Arrived(i);
    }
    co_return absl::OkStatus();
  }

 private:
  std::vector<std::byte> BytesOf(const BlockKey& key) {
    for (uint64_t number = 1; number <= 8; ++number) {
      if (rig->NameRun(rig->session, number, 1).keys[0] != key) continue;
      std::vector<std::byte> bytes(kRigBlockBytes);
      FillBlock(AgentRig::Seed(DomainId{0}), TestEngineKey(number), bytes);
      return bytes;
    }
    return {};
  }
};

class FetchTest : public ::testing::Test {
 protected:
  FetchTest() : rig_(Make()) { peer_.rig = &rig_; }
  AgentRig::Shape Make() {
    // The reporter runs from the rig's constructor on, before it can be told of an
    // executor: silence comes later.
    return {.transport = &peer_, .coordinator = &coordinator_};
  }
  void Silence() {
    coordinator_.executor = &rig_.executor;
    coordinator_.silent = true;
  }
  const AgentStats& stats() const { return rig_.agent->stats(); }

  KnowingCoordinator coordinator_;
  ScriptedPeer peer_;
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

TEST_F(FetchTest, APeerThatHangsIsAMissAtTheDeadline) {
  peer_.hangs = true;
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2u);
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4, absl::Milliseconds(70)), 2u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(70));
  EXPECT_EQ(stats().peers.timeouts, 1u);
  EXPECT_EQ(rig_.agent->index().pinned_bytes(Tier::kHost), 0u);
}

TEST_F(FetchTest, AFlippedBitAnywhereIsAMissAndACounter) {
  const std::vector<std::function<void(BlockProof*, std::vector<std::byte>*)>> flips = {
      [](BlockProof*, std::vector<std::byte>* bytes) { bytes->at(100) ^= std::byte{1}; },
      [](BlockProof* proof, std::vector<std::byte>*) { proof->sum.hi ^= 1; },
      [](BlockProof* proof, std::vector<std::byte>*) { proof->seal ^= 1; }};
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

TEST_F(FetchTest, TwoAskersShareOneFetch) {
  const auto first = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, absl::Milliseconds(50)));
  const auto second = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, absl::Milliseconds(50)));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_EQ((*first)->value().blocks.size(), 4u);
  EXPECT_EQ((*second)->value().blocks.size(), 4u);
  EXPECT_EQ(peer_.fetches, 1);
}

// A peer that was slow for a while was never asked again: nothing else could better
// what was believed of it.
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

// Stopping during a report waited for a whole heartbeat more.
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

TransferEstimate Fast(const std::string&) { return {absl::Milliseconds(1), 1e9}; }

TEST(PlanFetchTest, StaysWithAPeerWhileItHasTheNextBlock) {
  const auto runs =
      PlanFetch(Located({{"a", "b"}, {"b", "a"}, {"b"}, {"a"}}), 4096, absl::Seconds(1), Fast);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].address, "a");
  EXPECT_EQ(runs[0].count, 2u);
  EXPECT_EQ(runs[1].address, "b");
  EXPECT_EQ(runs[1].first, 2u);
  EXPECT_EQ(runs[2].address, "a");
  EXPECT_EQ(runs[2].first, 3u);
}

TEST(PlanFetchTest, StopsAtAHoleAndWhereTheTimeIsUp) {
  EXPECT_TRUE(PlanFetch({}, 4096, absl::Seconds(1), Fast).empty());
  EXPECT_EQ(PlanFetch(Located({{"a"}, {}, {"a"}}), 4096, absl::Seconds(1), Fast)[0].count, 1u);
  // 1 ms and 10 MB at 1 GB/s, in 35 ms: three of them.
  const auto runs = PlanFetch(Located({{"a"}, {"a"}, {"a"}, {"a"}, {"a"}}), 10'000'000,
                              absl::Milliseconds(35), Fast);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].count, 3u);
  EXPECT_TRUE(PlanFetch(Located({{"a"}}), 4096, absl::ZeroDuration(), Fast).empty());
}

TEST(PlanFetchTest, ARunHoldsKMaxKeysPerFetchAndNotOneMore) {
  const LocateReply located(kMaxKeysPerFetch + 1, Located({{"a"}})[0]);
  const auto runs = PlanFetch(located, 4096, absl::Seconds(10), Fast);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, kMaxKeysPerFetch);
  EXPECT_EQ(runs[1].count, 1u);
}

}  // namespace
}  // namespace kvtier

// Tests a peer that is ranked first and does not serve, while its registration lives, beside a
// healthy one: blocks that both hold are hits in time, and requests for blocks that only the bad
// peer holds do not keep the node from fetching elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "tests/testing/fake_peer.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Deadline of a request: many times as long as a fetch takes, because an agent asks no peer that it
// expects to be too slow.
constexpr absl::Duration kDeadline = absl::Seconds(1);
constexpr size_t kRun = 4;  // Blocks that both peers hold.
// Copies of the limits of agent/limits.h.
constexpr size_t kMaxFetchesRunning = 32;
constexpr size_t kMaxFetchesPerPeer = 16;

class NextHolderTest : public ::testing::TestWithParam<Damage> {
 protected:
  // Makes the peer hold the run, and waits until the coordinator knows.
  void HoldAtPeer(Blocks blocks) { HoldAt(&peer_, blocks, 1); }
  // Makes a peer hold the run, and waits until the coordinator knows so many holders.
  void HoldAt(FakePeer* peer, Blocks blocks, int holders) {
    for (uint64_t number = blocks.first; number < blocks.first + blocks.count; ++number) {
      std::vector<std::byte> payload(worker_.spec().block_bytes);
      worker_.Fill(number, payload);
      BlockMeta meta{.key = worker_.KeyOf(number),
                     .space = worker_.spec().Digest(),
                     .length = payload.size(),
                     .sum = SumPayload(payload)};
      if (number > blocks.first) meta.parent = worker_.KeyOf(number - 1);
      peer->Hold(meta, std::move(payload));
    }
    ASSERT_EQ(peer->Report(coordinator_.channel()), absl::OkStatus());
    ASSERT_TRUE(coordinator_.AwaitHolders(worker_.KeyOf(blocks.first + blocks.count - 1), holders));
  }
  // Makes both hold a new run, and the peer one block more, so that the peer is ranked first.
  Blocks HoldAtBoth() {
    next_ += 100;
    EXPECT_EQ(healthy_worker_.Put({next_, kRun}), kRun);
    EXPECT_TRUE(coordinator_.AwaitHolders(worker_.KeyOf(next_ + kRun - 1), 1));
    HoldAtPeer({next_, kRun + 1});
    EXPECT_TRUE(coordinator_.AwaitHolders(worker_.KeyOf(next_ + kRun - 1), 2));
    return {next_, kRun + 1};
  }
  std::vector<BlockSource> GetInTime(Blocks blocks) {
    const absl::Time start = absl::Now();
    std::vector<BlockSource> sources = worker_.Get(blocks, {.timeout = Patience(kDeadline)});
    EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack());
    return sources;
  }
  // Gets a run that both hold, and new ones until one comes in time. While the peer is silent, each
  // get waits until its deadline for the last block. On a loaded machine the agent may get a
  // request so late that the client has given up when it answers.
  std::vector<BlockSource> GetFromEither() {
    std::vector<BlockSource> sources;
    for (int get = 0; get < 4 && sources.empty(); ++get) sources = GetInTime(HoldAtBoth());
    return sources;
  }

  ProcessCluster cluster_;
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& agent_ = cluster_.StartAgent("node-b");
  AgentProcess& healthy_ = cluster_.StartAgent("node-c");
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  TestWorker healthy_worker_{{.socket_dir = healthy_.socket_dir()}};
  FakePeer peer_{cluster_.NextAddress()};
  uint64_t next_ = 1000;
};

// Once, four gets of four missed, each at its full deadline: only the first holder was ever asked.
TEST_P(NextHolderTest, RankedFirstBesideAHealthyHolderCostsNoMiss) {
  peer_.Send(GetParam());
  int late = 0;  // Gets that came too late, as GetFromEither() explains.
  for (int get = 0; get < 4; ++get) {
    const std::vector<BlockSource> sources = GetInTime(HoldAtBoth());
    late += sources.empty() ? 1 : 0;
    EXPECT_THAT(sources, AnyOf(IsEmpty(), AllOf(SizeIs(kRun), Each(BlockSource::kPeer)))) << get;
  }
  EXPECT_LE(late, 2);
  EXPECT_GE(peer_.fetches(), 1) << "it was ranked first";
}

TEST_P(NextHolderTest, IsUsedAgainWhenItServesAgain) {
  peer_.Send(GetParam());
  EXPECT_THAT(GetFromEither(), SizeIs(kRun));
  EXPECT_EQ(agent_.Status().peers().avoided_peers(), 1);
  peer_.Send(Damage::kNone);
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return agent_.Status().peers().avoided_peers() == 0; }));
  // The block that only the peer holds comes as well, unless a loaded machine makes the peer too
  // slow.
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return GetInTime(HoldAtBoth()).size() == kRun + 1; }));
}

INSTANTIATE_TEST_SUITE_P(APeerThat, NextHolderTest,
                         ::testing::Values(Damage::kSilence, Damage::kStall, Damage::kError,
                                           Damage::kFlippedBit),
                         [](const auto& info) { return std::string(DamageName(info.param)); });

// Once, none of 20 blocks came, each request at its full deadline: the coordinator named four of
// the ten each time.
TEST_F(NextHolderTest, TenThatHangHideNotTheOneThatIsWell) {
  constexpr Blocks kBlocks = {.first = 5000, .count = 20};
  ASSERT_EQ(healthy_worker_.Put(kBlocks), kBlocks.count);
  std::vector<std::unique_ptr<FakePeer>> hung;
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("hung-", i);
    hung.push_back(std::make_unique<FakePeer>(cluster_.NextAddress(), name));
    hung.back()->Send(Damage::kSilence);
    HoldAt(hung.back().get(), kBlocks, i + 2);
  }
  ASSERT_TRUE(coordinator_.AwaitHolders(worker_.KeyOf(kBlocks.first), 11));
  size_t hits = 0;
  for (uint64_t number = kBlocks.first; number < kBlocks.first + kBlocks.count; ++number) {
    for (const auto& peer : hung) ASSERT_TRUE(peer->Report(coordinator_.channel()).ok());
    hits += GetInTime({number, 1}).size();
  }
  // The first request or two may learn who hangs; on a loaded machine some more come too late.
  EXPECT_GE(hits, kBlocks.count - 4);
}

// Once, requests that waited for a frozen peer took all fetches, and no other peer was asked.
TEST_F(NextHolderTest, RequestsThatWaitForAFrozenPeerLeaveFetchesForTheOthers) {
  peer_.Send(Damage::kSilence);
  HoldAtPeer({.first = 1, .count = kMaxFetchesRunning});
  for (uint64_t number = 1; number <= kMaxFetchesRunning; ++number) {
    ASSERT_TRUE(worker_.client().Prefetch(worker_.space(), worker_.KeysOf({number, 1})).ok());
  }
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return peer_.fetches() == kMaxFetchesPerPeer; }));
  EXPECT_THAT(GetFromEither(), AllOf(SizeIs(kRun), Each(BlockSource::kPeer)));
}

}  // namespace
}  // namespace kvtier::testing

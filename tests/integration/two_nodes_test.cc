// Tests two real agents and a real coordinator: what one node computed, the other fetches; a peer
// that hangs or dies costs misses, no more than the deadline, and no wrong bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 500, .count = 16};
constexpr uint64_t kPrefixBytes = kPrefix.count * (uint64_t{64} << 10);
constexpr absl::Duration kDeadline = absl::Milliseconds(300);

class TwoNodesTest : public ::testing::Test {
 protected:
  // Puts blocks on A, and waits until the coordinator knows of them.
  void PutOnA(Blocks blocks) {
    ASSERT_EQ(on_a_.Put(blocks), blocks.count);
    ASSERT_TRUE(a_.AwaitOffloaded());
    ASSERT_TRUE(coordinator_.AwaitHolders(on_a_.KeyOf(blocks.first + blocks.count - 1), 1));
  }

  ProcessCluster cluster_;
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& a_ = cluster_.StartAgent("node-a");
  AgentProcess& b_ = cluster_.StartAgent("node-b");
  TestWorker on_a_{{.socket_dir = a_.socket_dir()}};
  TestWorker on_b_{{.socket_dir = b_.socket_dir()}};
};

// BehindAWebProxyTest has programs whose environment names a proxy, which does not answer.
class BehindAWebProxyTest : public TwoNodesTest {
 protected:
  static constexpr const char* kVariables[] = {"http_proxy", "https_proxy", "grpc_proxy"};
  static void SetUpTestSuite() {
    for (const char* variable : kVariables) setenv(variable, "http://127.0.0.1:9", 1);
  }
  static void TearDownTestSuite() {
    for (const char* variable : kVariables) unsetenv(variable);
  }
};

TEST_F(BehindAWebProxyTest, NodesReachTheirCoordinatorAndEachOther) {
  PutOnA(kPrefix);
  EXPECT_THAT(on_b_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kPeer)));
}

TEST_F(TwoNodesTest, ABlockPutOnOneNodeIsFetchedByTheOtherAndCounted) {
  PutOnA(kPrefix);
  EXPECT_THAT(on_b_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kPeer)));

  const v1::PeerReport at_b = b_.Status().peers();
  EXPECT_EQ(at_b.fetched_blocks(), kPrefix.count);
  EXPECT_EQ(at_b.fetched_bytes(), kPrefixBytes);
  EXPECT_EQ(at_b.missed_blocks(), 0);
  EXPECT_EQ(at_b.verify_failures(), 0);
  const v1::PeerReport at_a = a_.Status().peers();
  EXPECT_EQ(at_a.served_blocks(), kPrefix.count);
  EXPECT_EQ(at_a.served_bytes(), kPrefixBytes);

  EXPECT_THAT(on_b_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_TRUE(coordinator_.AwaitHolders(on_a_.KeyOf(kPrefix.first), 2));
}

TEST_F(TwoNodesTest, BlocksOfAnyLengthComeFromTheOthersMemoryAndDiskAsLongAsTheyAre) {
  TestWorker here{{.socket_dir = a_.socket_dir(), .any_length = true}};
  TestWorker there{{.socket_dir = b_.socket_dir(), .any_length = true}};
  ASSERT_EQ(here.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(a_.AwaitOffloaded());
  ASSERT_TRUE(coordinator_.AwaitHolders(here.KeyOf(kPrefix.first + kPrefix.count - 1), 1));
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    if (tier == Tier::kDisk) a_.Evict(Tier::kHost);
    EXPECT_THAT(there.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kPeer)));
    std::vector<EngineKey> keys = there.KeysOf(kPrefix);
    const KeySequence set{.space = there.space(), .keys = keys, .is_set = true};
    EXPECT_TRUE(Await(absl::Seconds(10), [&] {
      (void)there.client().Delete({&set, 1});  // Leased blocks are deleted later.
      return there.client().Match({&set, 1}, {.local_only = true})->at(0).blocks == 0;
    }));
  }
}

TEST_F(TwoNodesTest, TheHolderServesFromItsDiskWithoutKeepingACopyInHostMemory) {
  PutOnA(kPrefix);
  a_.Evict(Tier::kHost);
  EXPECT_THAT(on_b_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kPeer)));
  EXPECT_EQ(a_.TierStatus(Tier::kHost).blocks(), 0);
  EXPECT_EQ(a_.TierStatus(Tier::kDisk).verified(), kPrefix.count);
}

TEST_F(TwoNodesTest, AMatchCountsTheOtherNodesBlocksUnlessToldNotTo) {
  PutOnA(kPrefix);
  const std::vector<EngineKey> keys = on_b_.KeysOf(kPrefix);
  const auto matched = on_b_.client().Match(on_b_.space(), keys);
  ASSERT_TRUE(matched.ok());
  EXPECT_EQ(matched->local_blocks, 0);
  EXPECT_EQ(matched->blocks, kPrefix.count);
  const auto local = on_b_.client().Match(on_b_.space(), keys, {.local_only = true});
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(local->blocks, 0);
  EXPECT_THAT(on_b_.Get(kPrefix, {.local_only = true}), IsEmpty());
}

TEST_F(TwoNodesTest, APrefixSplitOverDiskHostAndPeerComesAsOneRun) {
  ASSERT_EQ(on_b_.Put({kPrefix.first, 8}), 8);
  ASSERT_TRUE(b_.AwaitOffloaded());
  b_.Evict(Tier::kHost);
  ASSERT_THAT(on_b_.Get({kPrefix.first, 4}), SizeIs(4));
  PutOnA(kPrefix);
  const std::vector<BlockSource> sources = on_b_.Get(kPrefix);
  ASSERT_EQ(sources.size(), kPrefix.count);
  EXPECT_EQ(sources[3], BlockSource::kHost);
  EXPECT_EQ(sources[4], BlockSource::kDisk);
  EXPECT_EQ(sources[8], BlockSource::kPeer);
}

TEST_F(TwoNodesTest, APrefetchBringsTheOtherNodesBlocksToHostMemory) {
  PutOnA(kPrefix);
  const auto accepted = on_b_.client().Prefetch(on_b_.space(), on_b_.KeysOf(kPrefix));
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(*accepted, kPrefix.count);
  EXPECT_TRUE(Await(absl::Seconds(5),
                    [&] { return b_.TierStatus(Tier::kHost).blocks() == kPrefix.count; }));
  EXPECT_THAT(on_b_.Get(kPrefix), Each(BlockSource::kHost));
}

TEST_F(TwoNodesTest, AHangingPeerIsAMissAtTheDeadlineAndLocalBlocksAreServed) {
  PutOnA(kPrefix);
  ASSERT_EQ(on_b_.Put({kPrefix.first, 4}), 4);
  ASSERT_THAT(on_b_.Get({kPrefix.first, 5}), SizeIs(5));  // Opens B's channel to A.
  a_.Hang();

  // On a loaded machine the agent's answer, which it gives at the deadline, may come too late.
  std::vector<BlockSource> sources;
  for (int get = 0; get < 4 && sources.empty(); ++get) {
    const absl::Time start = absl::Now();
    sources = on_b_.Get(kPrefix, {.timeout = Patience(kDeadline)});
    EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack());
  }
  EXPECT_THAT(sources, AllOf(SizeIs(5), Each(BlockSource::kHost)));
  EXPECT_TRUE(Await(absl::Seconds(1), [&] { return b_.Status().peers().timeouts() >= 1; }));
  const v1::AgentStatusResponse status = b_.Status();
  EXPECT_GE(status.peers().missed_blocks(), kPrefix.count - 5);
  EXPECT_EQ(status.deadline_misses(), status.peers().missed_blocks());
  EXPECT_EQ(status.peers().verify_failures(), 0);

  a_.Continue();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return on_b_.Get(kPrefix).size() == kPrefix.count; }));
}

TEST_F(TwoNodesTest, APeerThatNeverAnsweredYetIsAMissAtTheDeadline) {
  PutOnA(kPrefix);
  a_.Hang();  // B has not connected to A yet.
  const absl::Time start = absl::Now();
  EXPECT_THAT(on_b_.Get(kPrefix, {.timeout = Patience(kDeadline)}), IsEmpty());
  EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack());
  a_.Continue();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return on_b_.Get(kPrefix).size() == kPrefix.count; }));
}

TEST_F(TwoNodesTest, AKilledPeerIsAMissAndServesAgainWhenItIsBack) {
  PutOnA(kPrefix);
  a_.Kill();
  const absl::Time start = absl::Now();
  EXPECT_THAT(on_b_.Get(kPrefix, {.timeout = Patience(kDeadline)}), IsEmpty());
  EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack());
  EXPECT_EQ(b_.Status().peers().missed_blocks(), kPrefix.count);

  ASSERT_EQ(a_.Start().status(), absl::OkStatus());
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return on_b_.Get(kPrefix).size() == kPrefix.count; }));
  EXPECT_EQ(b_.Status().peers().fetched_blocks(), kPrefix.count);
}

TEST_F(TwoNodesTest, AStrayWriteAfterCommitNeverReachesTheOtherNode) {
  absl::StatusOr<ReservedBlocks> reserved =
      on_a_.client().Reserve(on_a_.space(), on_a_.KeysOf({kPrefix.first, 1}));
  ASSERT_TRUE(reserved.ok());
  const std::span<std::byte> slot = reserved->slot(0);
  ASSERT_FALSE(slot.empty());
  on_a_.Fill(kPrefix.first, slot);
  const auto mapped = reserved->keep_mapped();
  ASSERT_EQ(reserved->Commit(), 1);
  slot[12345] ^= std::byte{1};  // A worker's bug: it writes after its commit.

  ASSERT_TRUE(coordinator_.AwaitHolders(on_a_.KeyOf(kPrefix.first), 1));
  on_b_.Get({kPrefix.first, 1});  // Get() fails the test on wrong bytes.
  EXPECT_EQ(a_.Status().altered_blocks(), 1);
  EXPECT_EQ(b_.Status().peers().verify_failures(), 0);
}

}  // namespace
}  // namespace kvtier::testing

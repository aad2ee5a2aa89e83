// Tests a peer whose answers are damaged in every way that a stream can be: the agent that asked
// answers its worker a miss within the deadline, counts it, and never hands on wrong bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/checksum.h"
#include "tests/testing/fake_peer.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Many times what a fetch takes: an agent asks no peer that it expects to be too slow.
constexpr absl::Duration kDeadline = absl::Seconds(2);
constexpr size_t kRun = 4;  // Blocks of each case.

// Counter of the asking agent that rises, besides that of misses.
enum class Counts { kNothing, kVerifyFailures, kTimeouts };
struct Case {
  Damage damage;
  Counts counts;
};

// One cluster for all cases: a real coordinator and agent, and the peer beside them.
class DamagedPeerTest : public ::testing::TestWithParam<Case> {
 protected:
  struct World {
    ProcessCluster cluster;
    CoordinatorProcess& coordinator = cluster.StartCoordinator();
    AgentProcess& agent = cluster.StartAgent("node-b");
    TestWorker worker{{.socket_dir = agent.socket_dir()}};
    FakePeer peer{cluster.NextAddress()};
  };
  static void SetUpTestSuite() { world_ = new World; }
  static void TearDownTestSuite() {
    delete world_;
    world_ = nullptr;
  }

  // Makes the peer hold a new run, and waits until the coordinator knows.
  Blocks HoldRun() {
    next_ += 100;
    for (uint64_t number = next_; number < next_ + kRun; ++number) {
      std::vector<std::byte> payload(world_->worker.spec().block_bytes);
      world_->worker.Fill(number, payload);
      BlockMeta meta{.key = world_->worker.KeyOf(number),
                     .space = world_->worker.spec().Digest(),
                     .length = payload.size(),
                     .sum = SumPayload(payload)};
      if (number > next_) meta.parent = world_->worker.KeyOf(number - 1);
      world_->peer.Hold(meta, std::move(payload));
    }
    EXPECT_EQ(world_->peer.Report(world_->coordinator.channel()), absl::OkStatus());
    EXPECT_TRUE(world_->coordinator.AwaitHolders(world_->worker.KeyOf(next_), 1));
    return {next_, kRun};
  }
  std::vector<BlockSource> GetInTime(Blocks blocks) {
    const absl::Time start = absl::Now();
    std::vector<BlockSource> sources = world_->worker.Get(blocks, {.timeout = Patience(kDeadline)});
    EXPECT_LE(absl::Now() - start, Patience(kDeadline) + Slack());
    return sources;
  }

  static World* world_;
  static uint64_t next_;
};
DamagedPeerTest::World* DamagedPeerTest::world_ = nullptr;
uint64_t DamagedPeerTest::next_ = 1000;

TEST_F(DamagedPeerTest, AnHonestPeersBlocksAreHits) {
  world_->peer.Send(Damage::kNone);
  EXPECT_THAT(GetInTime(HoldRun()), AllOf(SizeIs(kRun), Each(BlockSource::kPeer)));
}

TEST_P(DamagedPeerTest, IsAMissInsideTheDeadlineAndCounted) {
  const Blocks run = HoldRun();
  const v1::PeerReport before = world_->agent.Status().peers();
  const uint64_t fetches = world_->peer.fetches();
  world_->peer.Send(GetParam().damage);
  // The agent sends an avoided peer one fetch at a time. On a loaded machine a get may come before
  // the previous get's fetch has ended; it is a miss without a fetch.
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    EXPECT_THAT(GetInTime(run), IsEmpty());
    return world_->peer.fetches() > fetches;
  }));
  EXPECT_EQ(world_->peer.fetches(), fetches + 1);

  // The fetch may end a little after the get's deadline.
  v1::PeerReport after;
  EXPECT_TRUE(Await(absl::Seconds(2), [&] {
    after = world_->agent.Status().peers();
    return after.missed_blocks() + after.verify_failures() ==
           before.missed_blocks() + before.verify_failures() + kRun;
  }));
  EXPECT_EQ(after.fetched_blocks(), before.fetched_blocks());
  EXPECT_EQ(after.verify_failures() > before.verify_failures(),
            GetParam().counts == Counts::kVerifyFailures);
  EXPECT_EQ(after.timeouts() > before.timeouts(), GetParam().counts == Counts::kTimeouts);

  // The agent kept no block of the damaged run, and hits it once the peer is honest.
  for (size_t i = 0; i < kRun; ++i) {
    EXPECT_EQ(world_->agent.Lookup(world_->worker.KeyOf(run.first + i)).copies_size(), 0);
  }
  world_->peer.Send(Damage::kNone);
  EXPECT_EQ(world_->peer.Report(world_->coordinator.channel()), absl::OkStatus());
  std::vector<BlockSource> honest;
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return !(honest = GetInTime(run)).empty(); }));
  EXPECT_THAT(honest, AllOf(SizeIs(kRun), Each(BlockSource::kPeer)));
}

INSTANTIATE_TEST_SUITE_P(
    Damage, DamagedPeerTest,
    ::testing::Values(
        Case{Damage::kFlippedBit, Counts::kVerifyFailures},
        Case{Damage::kWrongSum, Counts::kVerifyFailures},
        Case{Damage::kWrongMac, Counts::kVerifyFailures},
        Case{Damage::kMembersProof, Counts::kVerifyFailures},
        Case{Damage::kOtherBlock, Counts::kVerifyFailures},
        Case{Damage::kOtherSpace, Counts::kNothing}, Case{Damage::kWrongLength, Counts::kNothing},
        Case{Damage::kNoProof, Counts::kNothing}, Case{Damage::kShort, Counts::kNothing},
        Case{Damage::kGap, Counts::kNothing}, Case{Damage::kIndexOutOfRange, Counts::kNothing},
        Case{Damage::kStall, Counts::kTimeouts}, Case{Damage::kSilence, Counts::kTimeouts},
        Case{Damage::kNothing, Counts::kNothing}, Case{Damage::kError, Counts::kNothing},
        Case{Damage::kOversizedMessage, Counts::kNothing}, Case{Damage::kLong, Counts::kNothing}),
    [](const auto& info) { return std::string(DamageName(info.param.damage)); });

TEST_F(DamagedPeerTest, ARepeatedChunkEndsTheStreamAndWhatWasWholeIsKept) {
  // The first block was whole before the repetition: it proves itself, and is a hit.
  world_->peer.Send(Damage::kRepeatedChunk);
  EXPECT_THAT(GetInTime(HoldRun()), SizeIs(::testing::Le(1)));
}

}  // namespace
}  // namespace kvtier::testing

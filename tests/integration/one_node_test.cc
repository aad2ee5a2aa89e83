// Tests one real agent: a put block is a hit from host memory, from disk, and from disk after kill
// -9, and the agent counts what it did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 16};
constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr uint64_t kPrefixBytes = kPrefix.count * kBlockBytes;
constexpr uint64_t kRecordsBytes = kPrefix.count * (kBlockBytes + 4096);

MATCHER_P2(AllFrom, source, count, "") {
  return ExplainMatchResult(::testing::AllOf(SizeIs(count), Each(source)), arg, result_listener);
}

class OneNodeTest : public ::testing::Test {
 protected:
  void PutAndDrain() {
    ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(OneNodeTest, APutBlockIsAHostHitAndCounted) {
  ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kHost, kPrefix.count));

  const v1::TierReport host = agent_.TierStatus(Tier::kHost);
  EXPECT_EQ(host.capacity_bytes(), uint64_t{16} << 20);
  EXPECT_EQ(host.used_bytes(), kPrefixBytes);
  EXPECT_EQ(host.blocks(), kPrefix.count);
  EXPECT_EQ(host.inserts(), kPrefix.count);
  EXPECT_EQ(host.hits(), kPrefix.count);
  EXPECT_EQ(host.misses(), 0);
  EXPECT_EQ(host.bytes_in(), kPrefixBytes);
  EXPECT_EQ(host.bytes_out(), kPrefixBytes);
  EXPECT_GT(host.write_p50_seconds(), 0);
  EXPECT_GE(host.write_p99_seconds(), host.write_p50_seconds());
}

TEST_F(OneNodeTest, APutBlockIsWrittenToDiskAndCounted) {
  PutAndDrain();
  const v1::TierReport disk = agent_.TierStatus(Tier::kDisk);
  EXPECT_EQ(disk.blocks(), kPrefix.count);
  EXPECT_EQ(disk.inserts(), kPrefix.count);
  EXPECT_EQ(disk.used_bytes(), kRecordsBytes);
  EXPECT_GE(disk.bytes_in(), kPrefixBytes);
  EXPECT_GT(disk.capacity_bytes(), 0);
  EXPECT_GT(disk.write_p50_seconds(), 0);
  EXPECT_EQ(disk.declined(), 0);
  EXPECT_EQ(disk.io_errors(), 0);
  EXPECT_EQ(disk.eviction().policy(), "learnt");
  EXPECT_EQ(disk.eviction().orders(), 1);
  for (size_t i = 0; i < kPrefix.count; ++i) {
    EXPECT_TRUE(agent_.Holds(Tier::kHost, worker_.KeyOf(kPrefix.first + i)));
    EXPECT_TRUE(agent_.Holds(Tier::kDisk, worker_.KeyOf(kPrefix.first + i)));
  }
}

TEST_F(OneNodeTest, TheStatusSaysWhatTheNodeIs) {
  const v1::AgentStatusResponse status = agent_.Status();
  EXPECT_EQ(status.node_id(), "node-a");
  EXPECT_NE(status.node_epoch(), 0);
  EXPECT_EQ(status.version().version(), 1);
  EXPECT_THAT(status.version().build(), ::testing::StartsWith("kvtier-agent"));
  EXPECT_GT(status.uptime_seconds(), 0);
  EXPECT_EQ(status.sessions(), 1);
  EXPECT_THAT(status.disk_io(), ::testing::AnyOf("io_uring", "pread"));
  EXPECT_EQ(status.device(), "none");
  // No coordinator is configured.
  EXPECT_EQ(status.coordinator_address(), "");
  EXPECT_FALSE(status.coordinator_connected());
}

TEST_F(OneNodeTest, AHeldLeaseIsCountedPinnedAndNotEvicted) {
  ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  OnboardedBlocks held = worker_.Hold({kPrefix.first, 4});
  ASSERT_EQ(held.size(), 4);
  EXPECT_EQ(agent_.Status().leases(), 4);
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).pinned_bytes(), 4 * kBlockBytes);

  const v1::EvictTierResponse evicted = agent_.EvictUnheld(Tier::kHost);
  EXPECT_EQ(evicted.evicted_blocks(), kPrefix.count - 4);
  EXPECT_EQ(evicted.held_blocks(), 4);
  EXPECT_TRUE(held.valid());
  EXPECT_TRUE(worker_.Proves(held, kPrefix.first));

  held.Release();
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return agent_.Status().leases() == 0; }));
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).pinned_bytes(), 0);
}

TEST_F(OneNodeTest, AnEvictedBlockIsADiskHitVerifiedAndThenAHostHit) {
  PutAndDrain();
  EXPECT_EQ(agent_.Evict(Tier::kHost).evicted_blocks(), kPrefix.count);
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).evictions(), kPrefix.count);
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).used_bytes(), 0);

  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kDisk, kPrefix.count));
  const v1::TierReport disk = agent_.TierStatus(Tier::kDisk);
  EXPECT_EQ(disk.hits(), kPrefix.count);
  EXPECT_EQ(disk.verified(), kPrefix.count);
  EXPECT_EQ(disk.verify_failures(), 0);
  EXPECT_GE(disk.bytes_out(), kPrefixBytes);
  EXPECT_GT(disk.read_p50_seconds(), 0);
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).misses(), kPrefix.count);

  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kHost, kPrefix.count));
}

TEST_F(OneNodeTest, AHitIsTheLeadingRunAndTheRestAMiss) {
  ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(worker_.Get({kPrefix.first, kPrefix.count + 5}),
              AllFrom(BlockSource::kHost, kPrefix.count));
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).misses(), 5);
  EXPECT_THAT(worker_.Get({kPrefix.first - 1, kPrefix.count}), IsEmpty());
}

TEST_F(OneNodeTest, AMatchNamesTheBestTierOfEachBlock) {
  PutAndDrain();
  agent_.Evict(Tier::kHost);
  ASSERT_THAT(worker_.Get({kPrefix.first, 3}), SizeIs(3));
  const absl::StatusOr<MatchedPrefix> matched =
      worker_.client().Match(worker_.space(), worker_.KeysOf({kPrefix.first, 20}));
  ASSERT_TRUE(matched.ok());
  EXPECT_EQ(matched->local_blocks, kPrefix.count);
  EXPECT_EQ(matched->blocks, kPrefix.count);
  ASSERT_EQ(matched->tiers.size(), kPrefix.count);
  EXPECT_EQ(matched->tiers[2], Tier::kHost);
  EXPECT_EQ(matched->tiers[3], Tier::kDisk);
}

TEST_F(OneNodeTest, APrefetchBringsDiskBlocksToHostMemory) {
  PutAndDrain();
  agent_.Evict(Tier::kHost);
  const absl::StatusOr<size_t> accepted =
      worker_.client().Prefetch(worker_.space(), worker_.KeysOf(kPrefix));
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(*accepted, kPrefix.count);
  EXPECT_TRUE(Await(absl::Seconds(5),
                    [&] { return agent_.TierStatus(Tier::kHost).blocks() == kPrefix.count; }));
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kHost, kPrefix.count));
}

TEST_F(OneNodeTest, APresentBlockIsNotPutAgain) {
  ASSERT_EQ(worker_.Put({kPrefix.first, 4}), 4);
  EXPECT_EQ(worker_.Put(kPrefix), kPrefix.count - 4);
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kHost, kPrefix.count));
}

TEST_F(OneNodeTest, ABlockThatAnotherWorkerIsPuttingIsPendingUntilItIsThereOrGivenUp) {
  TestWorker other({.socket_dir = agent_.socket_dir()});
  const std::vector<EngineKey> keys = worker_.KeysOf({kPrefix.first, 2});
  const auto state = [&] { return worker_.client().Reserve(worker_.space(), keys)->state(0); };
  ReservedBlocks theirs = *other.client().Reserve(other.space(), keys);
  EXPECT_EQ(state(), ReservedBlocks::State::kPending);
  theirs.Release();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return state() == ReservedBlocks::State::kReserved; }));
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return other.Put({kPrefix.first, 2}) == 2; }));
  EXPECT_EQ(state(), ReservedBlocks::State::kPresent);
}

// Once, slots that the worker had not written were published, with the bytes of the blocks that had
// been there before.
TEST_F(OneNodeTest, SlotsThatNobodyTookAreNotPublishedAndAreCounted) {
  for (const uint64_t half : {1000, 2000}) {
    ASSERT_EQ(worker_.Put({.first = half, .count = 128}), 128) << "of 256 slots";
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  ReservedBlocks reserved = *worker_.client().Reserve(worker_.space(), worker_.KeysOf(kPrefix));
  ASSERT_EQ(reserved.reserved(), kPrefix.count);
  for (size_t i = 0; i < 5; ++i) worker_.Fill(kPrefix.first + i, reserved.slot(i));
  EXPECT_EQ(reserved.Commit(), 5);
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kHost, 5));
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).unwritten_blocks(), kPrefix.count - 5);
  EXPECT_EQ(agent_.Status().reservations(), 0);
}

TEST_F(OneNodeTest, WhatIsCommittedWithItsSumsIsThereForWhoeverAsksNext) {
  constexpr size_t kAtOnce = 8;
  TestWorker other({.socket_dir = agent_.socket_dir()});
  std::vector<std::byte> bytes(kBlockBytes);
  const ConstPiece piece(bytes);
  for (uint64_t first = 0; first < 25 * kAtOnce; first += kAtOnce) {
    const std::vector<EngineKey> keys = worker_.KeysOf({first, kAtOnce});
    ReservedBlocks reserved = *worker_.client().Reserve(worker_.space(), keys);
    for (size_t i = 0; i < reserved.size(); ++i) {
      worker_.Fill(first + i, bytes);
      ASSERT_EQ(reserved.CopyIn(i, {&piece, 1}), absl::OkStatus());
    }
    ASSERT_EQ(reserved.Commit(), kAtOnce);
    EXPECT_EQ(*worker_.client().ResidentRun(worker_.space(), keys), kAtOnce);
    EXPECT_THAT(other.Get({first, kAtOnce}), AllFrom(BlockSource::kHost, kAtOnce));
  }
}

TEST_F(OneNodeTest, APutIntoAFullHostTierEvictsTheColdest) {
  constexpr Blocks kTooMany = {.first = 1000, .count = 300};  // 256 fit.
  ReserveOptions part;
  for (uint64_t done = 0; done < kTooMany.count; done += 100) {
    if (done > 0) part.parent = worker_.KeysOf({kTooMany.first + done - 1, 1}).front();
    EXPECT_EQ(worker_.Put({kTooMany.first + done, 100}, part), 100);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  EXPECT_GE(agent_.TierStatus(Tier::kHost).evictions(), 44);
  EXPECT_THAT(worker_.Get({kTooMany.first, 250}), SizeIs(250));
}

TEST_F(OneNodeTest, Kill9AndRestartGiveDiskHitsToTheSameClient) {
  PutAndDrain();
  const uint64_t first_epoch = agent_.Status().node_epoch();
  OnboardedBlocks held = worker_.Hold(kPrefix);
  ASSERT_TRUE(held.valid());

  agent_.Kill();
  EXPECT_FALSE(held.valid());
  const absl::Time start = absl::Now();
  EXPECT_THAT(worker_.Get(kPrefix, {.timeout = absl::Milliseconds(200)}), IsEmpty());
  EXPECT_LE(absl::Now() - start, absl::Milliseconds(200) + Slack());

  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_FALSE(held.valid());
  EXPECT_NE(agent_.Status().node_epoch(), first_epoch);
  EXPECT_EQ(agent_.Status().leases(), 0);
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kDisk, kPrefix.count));
  EXPECT_EQ(worker_.client().Stats().sessions, 2);
}

TEST_F(OneNodeTest, Kill9LeavesEachBlockOnDiskAsLongAsItWas) {
  TestWorker worker{{.socket_dir = agent_.socket_dir(), .any_length = true}};
  ASSERT_EQ(worker.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker.AwaitConnected());
  EXPECT_THAT(worker.Get(kPrefix), AllFrom(BlockSource::kDisk, kPrefix.count));
}

TEST_F(OneNodeTest, AStoppedAgentIsWarmWhenItComesBack) {
  PutAndDrain();
  EXPECT_EQ(agent_.Stop(absl::Seconds(20)), 0);
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_THAT(worker_.Get(kPrefix), AllFrom(BlockSource::kDisk, kPrefix.count));
}

TEST(NodeWithoutDiskTest, ABlockThatIsEvictedIsAMiss) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent("node-a", {{"disk_dir", ""}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(worker.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(worker.Get(kPrefix), AllFrom(BlockSource::kHost, kPrefix.count));
  agent.Evict(Tier::kHost);
  EXPECT_THAT(worker.Get(kPrefix), IsEmpty());
  EXPECT_EQ(agent.Status().disk_io(), "none");
}

// Leases that a worker released end with its next put at the latest, so the put finds the room.
TEST(NodeWithoutDiskTest, APutRightBehindARelease) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(
      "node-a", {{"disk_dir", ""}, {"host_bytes", "1MiB"}, {"slab_bytes", "1MiB"}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  constexpr size_t kRoom = 16;
  constexpr uint64_t kRounds = 50;
  uint64_t found_room = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Blocks blocks = {.first = round * kRoom, .count = kRoom};
    // On a busy machine a call of the worker's own may carry the releases, and the put may reach
    // the agent before that call.
    if (worker.Put(blocks) == kRoom) {
      ++found_room;
    } else {
      ASSERT_TRUE(agent.AwaitLeases(0));
      worker.Put(blocks);
    }
    const OnboardedBlocks held = worker.Hold(blocks);
    ASSERT_EQ(held.size(), kRoom);
    ASSERT_EQ(worker.Put({.first = kRounds * kRoom, .count = 1}), 0) << "all of it is leased";
  }
  EXPECT_GT(found_room, kRounds / 2);
  // Without another call, the leases are given back as well.
  EXPECT_TRUE(agent.AwaitLeases(0));
}

}  // namespace
}  // namespace kvtier::testing

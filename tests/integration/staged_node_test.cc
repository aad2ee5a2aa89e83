// Tests a node with --worker_memory=staged: workers put and get as on any other node, and whatever
// one of them writes, no worker gets bytes that the agent did not copy and prove.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/put_all.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::SizeIs;

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr uint64_t kStagingSlots = 16;
constexpr Blocks kRun = {.first = 1, .count = 3 * kStagingSlots};

class StagedNodeTest : public ::testing::Test {
 protected:
  // Puts by CopyIn(), which takes the sums; returns how many blocks were stored.
  static size_t PutAllOf(TestWorker* worker, Blocks blocks) {
    const std::vector<EngineKey> keys = worker->KeysOf(blocks);
    std::vector<std::byte> bytes(kBlockBytes);
    const ConstPiece piece(bytes);
    return PutAll(&worker->client(), worker->space(), keys,
                  [&](size_t i) {
                    worker->Fill(blocks.first + i, bytes);
                    return std::span(&piece, 1);
                  })
        ->stored;
  }
  // Maps the region that the agent gives the session to write. REQUIRES: the session has one.
  static std::span<std::byte> MapRegion(RawSession* session) {
    int fd = -1;
    const auto reply = session->Ask({.kind = wire::DescriptorKind::kStaging}, &fd);
    EXPECT_TRUE(reply.has_value() && fd >= 0);
    void* const bytes = mmap(nullptr, reply->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(bytes, MAP_FAILED);
    close(fd);
    return {static_cast<std::byte*>(bytes), reply->bytes};
  }
  bool SayHello(RawSession* session) {
    const auto welcome = session->Say(session->GoodHello());
    return welcome && welcome->code == wire::WelcomeCode::kOk;
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node", {{"worker_memory", "staged"},
                                                      {"staging_bytes", "1MiB"},
                                                      {"host_bytes", "8MiB"},
                                                      {"slab_bytes", "1MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
};

TEST_F(StagedNodeTest, WhatIsPutIsServedFromMemoryFromDiskAndAfterAKill) {
  const SpaceLimits limits = *worker_.client().Limits(worker_.space());
  EXPECT_EQ(limits.staging_slots, kStagingSlots);
  // The run is far larger than the region. CopyIn() takes sums; puts in place have none.
  EXPECT_EQ(PutAllOf(&worker_, kRun), kRun.count);
  constexpr Blocks kInPlace = {.first = 1000, .count = kStagingSlots};
  EXPECT_EQ(worker_.Put(kInPlace), kInPlace.count);
  EXPECT_THAT(worker_.Get(kRun), AllOf(SizeIs(kRun.count), Each(BlockSource::kHost)));
  EXPECT_THAT(worker_.Get(kInPlace), SizeIs(kInPlace.count));
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(agent_.Status().staging().session_bytes(), uint64_t{1} << 20);
  EXPECT_EQ(agent_.Status().staging().regions(), 1);
  EXPECT_EQ(agent_.Status().staging().reserved_bytes(), 0);
  EXPECT_EQ(agent_.Status().staging().refused_sums(), 0);

  agent_.Kill();
  ASSERT_TRUE(agent_.Start().ok());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_THAT(worker_.Get(kRun), AllOf(SizeIs(kRun.count), Each(BlockSource::kDisk)));
  constexpr Blocks kLater = {.first = 2000, .count = 2 * kStagingSlots};
  EXPECT_EQ(PutAllOf(&worker_, kLater), kLater.count);
  EXPECT_THAT(worker_.Get(kLater), SizeIs(kLater.count));
}

TEST_F(StagedNodeTest, NobodyMapsTheArenaForWriting) {
  RawSession session(agent_.socket_dir());
  ASSERT_TRUE(SayHello(&session));
  int fd = -1;
  const auto refused = session.Ask({.kind = wire::DescriptorKind::kArenaWrite}, &fd);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, wire::DescriptorCode::kNotAvailable);
  EXPECT_EQ(fd, -1);
  ASSERT_TRUE(session.Ask({.kind = wire::DescriptorKind::kArenaRead}, &fd).has_value());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  close(fd);
}

TEST_F(StagedNodeTest, ARegionIsItsSessionsOwnAndKeepsItsSize) {
  RawSession session(agent_.socket_dir());
  ASSERT_TRUE(SayHello(&session));
  int fd = -1;
  const auto reply = session.Ask({.kind = wire::DescriptorKind::kStaging}, &fd);
  ASSERT_TRUE(reply.has_value() && fd >= 0);
  EXPECT_EQ(reply->bytes, uint64_t{1} << 20);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, static_cast<off_t>(reply->bytes * 2)), 0);
  close(fd);
  const std::span<std::byte> ours = MapRegion(&session);
  std::ranges::fill(ours, std::byte{0xa5});
  RawSession other(agent_.socket_dir());
  ASSERT_TRUE(SayHello(&other));
  const std::span<std::byte> theirs = MapRegion(&other);
  EXPECT_TRUE(std::ranges::all_of(theirs, [](std::byte byte) { return byte == std::byte{}; }));
  munmap(theirs.data(), theirs.size());
  munmap(ours.data(), ours.size());
}

TEST_F(StagedNodeTest, AWorkerThatWritesAllTheTimeSpoilsItsOwnPutsAlone) {
  TestWorker careful({.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes});
  ASSERT_EQ(PutAllOf(&careful, kRun), kRun.count);
  // The worker's own client writes into its staging region while it puts.
  const auto region = worker_.client().host_memory();
  ASSERT_TRUE(region.is_staged);
  const std::span<std::byte> bytes = *region.write->Write(0, region.write->size());
  std::atomic<bool> stop = false;
  std::thread spoiler([&, seed = TestSeed()] {
    std::mt19937_64 random(seed);
    while (!stop) {
      std::byte& byte = bytes[random() % bytes.size()];
      std::atomic_ref(byte).store(static_cast<std::byte>(random()), std::memory_order_relaxed);
    }
  });
  std::vector<std::byte> copy(kBlockBytes);
  const Piece piece(copy);
  size_t refused = 0;
  for (uint64_t first = 5000; refused == 0 || first < 5000 + 20 * kStagingSlots;
       first += kStagingSlots) {
    PutAllOf(&worker_, {.first = first, .count = kStagingSlots});
    // A published block has the bytes of its sum, and they do not change.
    const OnboardedBlocks leased =
        *careful.client().Onboard(careful.space(), careful.KeysOf({first, kStagingSlots}));
    for (size_t i = 0; i < leased.size(); ++i) {
      EXPECT_EQ(leased.CopyOut(i, std::span(&piece, 1)), absl::OkStatus()) << first + i;
    }
    refused = agent_.Status().staging().refused_sums();
    ASSERT_LT(first, 1'000'000) << "none of its puts was caught";
  }
  stop = true;
  spoiler.join();
  EXPECT_EQ(agent_.Status().altered_blocks(), 0);
  EXPECT_THAT(careful.Get(kRun), SizeIs(kRun.count));
}

TEST_F(StagedNodeTest, SessionsBeyondTheTenantsPartAreToldAndOnlyRead) {
  ASSERT_EQ(worker_.Put({.first = 1, .count = 4}), 4);
  // Eight regions are as large as the arena; this worker has one.
  std::vector<std::unique_ptr<RawSession>> sessions;
  for (int i = 0; i < 7; ++i) {
    sessions.push_back(std::make_unique<RawSession>(agent_.socket_dir()));
    ASSERT_TRUE(SayHello(sessions.back().get()));
    const std::span<std::byte> region = MapRegion(sessions.back().get());
    munmap(region.data(), region.size());
  }
  TestWorker reader({.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes});
  EXPECT_THAT(reader.Get({.first = 1, .count = 4}), SizeIs(4));
  EXPECT_EQ(reader.Put({.first = 100, .count = 1}), 0);
  EXPECT_EQ(agent_.Status().staging().refused_regions(), 1);
  EXPECT_EQ(agent_.Status().staging().regions(), 8);
  sessions.clear();
  EXPECT_TRUE(Await(absl::Seconds(20), [&] { return agent_.Status().staging().regions() == 1; }));
}

}  // namespace
}  // namespace kvtier::testing

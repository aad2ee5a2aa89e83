// Tests that a run of more blocks than the tenant's memory has slots is put without trial, and
// limits say why a space is not usable.
#include "client/put_all.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/match.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr uint64_t kSlots = 64;

class PutAllTest : public ::testing::Test {
 protected:
  absl::StatusOr<PutCounts> Put(Blocks blocks, const PutAllOptions& options = {}) {
    const std::vector<EngineKey> keys = worker_.KeysOf(blocks);
    std::vector<std::byte> bytes(kBlockBytes);
    // Pieces of odd sizes: an engine's block has many pieces.
    const std::vector<ConstPiece> pieces = {std::span(bytes).first(1000),
                                            std::span(bytes).subspan(1000)};
    return PutAll(
        &worker_.client(), worker_.space(), keys,
        [&](size_t i) {
          worker_.Fill(blocks.first + i, bytes);
          return std::span(pieces);
        },
        options);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ =
      cluster_.StartAgent("node", {{"host_bytes", "4MiB"}, {"slab_bytes", "1MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
};

TEST_F(PutAllTest, StoresSeveralTimesWhatMemoryHolds) {
  const SpaceLimits limits = *worker_.client().Limits(worker_.space());
  EXPECT_TRUE(limits.usable);
  EXPECT_EQ(limits.slab_bytes, uint64_t{1} << 20);
  EXPECT_EQ(limits.slot_bytes, kBlockBytes);
  EXPECT_EQ(limits.host_slots, kSlots);
  constexpr Blocks kRun = {.first = 1, .count = 5 * kSlots};
  const PutCounts first = *Put(kRun);
  EXPECT_EQ(first.stored, kRun.count);
  EXPECT_EQ(first.present + first.missed, 0);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  // Every block of the run is there and right. A get may fail until leases of the gets before it
  // have ended.
  for (uint64_t at = 1; at < kRun.count; at += kSlots / 2) {
    const Blocks some = {at, kSlots / 2};
    EXPECT_TRUE(Await(absl::Seconds(10), [&] { return worker_.Get(some).size() == some.count; }))
        << "from block " << at;
  }
  // Blocks that only the disk has go through memory once more, and are not written again.
  const uint64_t written = agent_.TierStatus(Tier::kDisk).inserts();
  const PutCounts again = *Put(kRun);
  EXPECT_EQ(again.stored + again.present, kRun.count);
  EXPECT_GT(again.present, 0);
  EXPECT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).inserts(), written);
}

TEST_F(PutAllTest, BlocksOfAnyLengthAreStoredAsLongAsTheirPieces) {
  SpaceSpec spec = worker_.spec();
  spec.any_length = true;
  Client& client = worker_.client();
  const SpaceHandle space = *client.RegisterSpace(spec);
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return client.Limits(space)->usable; }));
  // Three quarters of memory on average, so each is there to be read.
  constexpr Blocks kRun = {.first = 1, .count = 64};
  const auto length_of = [](size_t i) { return 1 + i * 12347 % kBlockBytes; };
  const std::vector<EngineKey> keys = worker_.KeysOf(kRun);
  std::vector<std::byte> bytes(kBlockBytes);
  std::vector<ConstPiece> pieces(1);
  const auto pieces_of = [&](size_t i) {
    worker_.Fill(kRun.first + i, std::span(bytes).first(length_of(i)));
    pieces[0] = std::span(bytes).first(length_of(i));
    return std::span<const ConstPiece>(pieces);
  };
  const PutCounts counts = *PutAll(&client, space, keys, pieces_of);
  EXPECT_EQ(counts.stored, kRun.count);
  const OnboardedBlocks hit = *client.Onboard(space, keys, {.timeout = absl::Seconds(10)});
  ASSERT_EQ(hit.size(), kRun.count);
  for (size_t i = 0; i < hit.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(hit.bytes(i), pieces_of(i)[0])) << i;
  }
}

TEST_F(PutAllTest, WithoutAnAgentNothingIsStoredAndLimitsSayWhy) {
  agent_.Kill();
  while (worker_.client().connected()) absl::SleepFor(absl::Milliseconds(1));
  const PutCounts counts = *Put({.first = 1, .count = 3});
  EXPECT_EQ(counts.missed, 3);
  const SpaceLimits limits = *worker_.client().Limits(worker_.space());
  EXPECT_FALSE(limits.usable);
  EXPECT_THAT(limits.why_not, HasSubstr("no agent"));
}

TEST_F(PutAllTest, ASpaceThatIsUnregisteredMakesRoomForAnother) {
  constexpr Blocks kRun = {.first = 1, .count = 4};
  ASSERT_EQ(worker_.Put(kRun), kRun.count);
  const OnboardedBlocks hit = worker_.Hold(kRun);
  Client& client = worker_.client();
  // Registers many times as many spaces as the session has room for, one after the other.
  SpaceSpec spec = worker_.spec();
  for (int i = 0; i < 100; ++i) {
    spec.lora = absl::StrCat("adapter ", i);
    const auto space = client.RegisterSpace(spec);
    ASSERT_TRUE(space.ok()) << space.status();
    ASSERT_TRUE(Await(absl::Seconds(10), [&] { return client.Limits(*space)->usable; })) << i;
    ASSERT_EQ(client.UnregisterSpace(*space), absl::OkStatus());
    EXPECT_EQ(client.UnregisterSpace(*space).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(client.Match(*space, worker_.KeysOf(kRun)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  ASSERT_EQ(client.UnregisterSpace(worker_.space()), absl::OkStatus());
  EXPECT_TRUE(hit.valid()) << "what is leased stays";
  EXPECT_TRUE(worker_.Proves(hit, kRun.first));
  // The space registered again has its blocks, even before the agent learned that the first
  // registration ended.
  const SpaceHandle again = *client.RegisterSpace(worker_.spec());
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    return client.Onboard(again, worker_.KeysOf(kRun))->size() == kRun.count;
  }));
}

TEST_F(PutAllTest, ASpaceThatTheAgentRefusesSaysWhy) {
  TestWorker large({.socket_dir = agent_.socket_dir(), .block_bytes = uint64_t{2} << 20});
  const auto why_not = [&] { return large.client().Limits(large.space())->why_not; };
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return absl::StrContains(why_not(), "slab"); }))
      << why_not();
  const OnboardedBlocks none = large.Hold({.first = 1, .count = 1});
  EXPECT_EQ(none.missed(), MissReason::kSpaceRefused);
}

TEST_F(PutAllTest, PiecesThatDoNotMakeABlockAreRefusedAndWhatWasStoredStays) {
  const std::vector<EngineKey> keys = worker_.KeysOf({.first = 1, .count = 2});
  const std::vector<std::byte> bytes(10);
  const ConstPiece piece(bytes);
  const absl::Status refused = PutAll(&worker_.client(), worker_.space(), keys, [&](size_t) {
                                 return std::span(&piece, 1);
                               }).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(worker_.Get({.first = 1, .count = 1}).empty());
}

}  // namespace
}  // namespace kvtier::testing

// Tests blocks of a space with any_length: each has the length that its reserve said, in every
// tier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::AnyLengthSpace;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FillBlock;
using testing::HoldsBlock;
using testing::TestEngineKey;
using State = ReservedBlock::State;

constexpr uint64_t kLongest = 12000;
// Slots of 4 KiB for each tenant: 64 slabs of 16 KiB, so that slots may have many sizes.
constexpr uint64_t kSlots = 256;

class BlockLengthsTest : public ::testing::Test {
 protected:
  explicit BlockLengthsTest(const AgentRig::Shape& shape = {.slots = kSlots}) : rig_(shape) {
    space_id_ = *rig_.agent->sessions().table().AddSpace(session_, AnyLengthSpace(kLongest));
  }
  BlockRun NameRun(uint64_t first, size_t count) {
    std::optional<EngineKey> parent;
    if (first > 1) parent = TestEngineKey(first - 1);
    return *rig_.agent->sessions().table().NameRun(session_, space_id_, parent,
                                                   AgentRig::Keys(first, count));
  }
  BlockRun NameRun(uint64_t first, const std::vector<uint64_t>& lengths) {
    BlockRun run = NameRun(first, lengths.size());
    run.key_lengths = lengths;
    return run;
  }
  uint64_t Seed() const { return AgentRig::Seed(DomainId{0}); }
  Reserved Reserve(uint64_t first, const std::vector<uint64_t>& lengths) {
    return *rig_.agent->flows().putter.Reserve(NameRun(first, lengths), Tier::kHost);
  }
  // Fills what is reserved and commits it; returns how many blocks were published.
  size_t Put(uint64_t first, const std::vector<uint64_t>& lengths) {
    const Reserved reserved = Reserve(first, lengths);
    std::vector<ReservationId> ids;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (reserved.blocks[i].state != State::kReserved) continue;
      FillBlock(Seed(), TestEngineKey(first + i), Written(reserved.blocks[i].offset, lengths[i]));
      ids.push_back(reserved.blocks[i].id);
    }
    return rig_.Commit(session_, std::move(ids));
  }
  std::span<std::byte> Written(uint64_t offset, uint64_t length) {
    if (!rig_.agent->sessions().staging().enabled()) return Host(offset, length);
    const SealedMemory* const region =
        *rig_.agent->sessions().staging().RegionOf(session_, DomainId{0});
    return region->bytes().subspan(offset, length);
  }
  std::span<std::byte> Host(uint64_t offset, uint64_t length) {
    return rig_.agent->host().arena(DomainId{0}).bytes().subspan(offset, length);
  }
  // Returns the lengths of the blocks that an onboard leases, each of which is compared byte for
  // byte.
  std::vector<uint64_t> Get(uint64_t first, size_t count) {
    OnboardRequest request{.run = NameRun(first, count),
                           .deadline = rig_.executor.Now() + absl::Seconds(1)};
    const Onboarded onboarded =
        *rig_.Run(rig_.agent->flows().onboarder.Onboard(std::move(request)));
    std::vector<uint64_t> lengths;
    for (size_t i = 0; i < onboarded.blocks.size(); ++i) {
      const LeasedBlock& block = onboarded.blocks[i];
      EXPECT_TRUE(HoldsBlock(Seed(), TestEngineKey(first + i), Host(block.offset, block.length)));
      rig_.agent->sessions().leases().Release(session_, std::span(&block.lease, 1));
      lengths.push_back(block.length);
    }
    return lengths;
  }
  void AwaitDisk() {
    while (rig_.agent->flows().offloader->pending() > 0) ASSERT_TRUE(rig_.time.Step());
  }
  uint64_t used_bytes() const { return rig_.agent->host().used_bytes(); }

  AgentRig rig_;
  const SessionId session_ = rig_.session;
  uint32_t space_id_ = 0;
};

TEST_F(BlockLengthsTest, EachBlockIsAsLongAsItWasReserved) {
  EXPECT_EQ(Put(1, {1, 4096, 4097, kLongest}), 4u);
  EXPECT_THAT(Get(1, 4), ElementsAre(1, 4096, 4097, kLongest));
  EXPECT_EQ(used_bytes(), 4096u + 4096 + 8192 + 12288) << "each has a slot of its own size";
  rig_.agent->Audit();
}

TEST_F(BlockLengthsTest, ASecondPutOfAnotherLengthFindsTheBlockAndChangesNothing) {
  ASSERT_EQ(Put(1, {5000}), 1u);
  EXPECT_EQ(Reserve(1, {100}).blocks[0].state, State::kPresent);
  EXPECT_EQ(Reserve(1, {kLongest}).blocks[0].state, State::kPresent);
  EXPECT_THAT(Get(1, 1), ElementsAre(5000));
}

TEST_F(BlockLengthsTest, WhatLiesBehindABlockInItsPagesIsZero) {
  ASSERT_EQ(Put(1, {kLongest}), 1u);
  rig_.EvictHost();
  ASSERT_EQ(Put(2, {9000}), 1u);
  const std::span<const std::byte> pages =
      rig_.agent->index().Find(NameRun(2, 1).keys[0])->slot.bytes();
  EXPECT_EQ(pages.size(), 12288u);
  EXPECT_THAT(pages.subspan(9000), Each(std::byte{0}));
}

TEST_F(BlockLengthsTest, ABlockComesBackFromDiskAsLongAsItWas) {
  ASSERT_EQ(Put(1, {300, 8192, kLongest}), 3u);
  AwaitDisk();
  rig_.EvictHost();
  ASSERT_EQ(used_bytes(), 0u);
  EXPECT_THAT(Get(1, 3), ElementsAre(300, 8192, kLongest));
  EXPECT_EQ(used_bytes(), 4096u + 8192 + 12288);
}

// The slot is reserved for the length that the disk had when the load began.
TEST_F(BlockLengthsTest, ABlockThatIsPutAnewInAnotherLengthWhileItLoadsIsAMiss) {
  ASSERT_EQ(Put(1, {300}), 1u);
  AwaitDisk();
  const BlockKey key = NameRun(1, 1).keys[0];
  std::vector<std::byte> shorter(4096);
  ASSERT_TRUE(rig_.Run(rig_.agent->disks().set()->Get(key, shorter)).ok());
  std::vector<std::byte> longer(8192);
  EXPECT_TRUE(absl::IsNotFound(rig_.Run(rig_.agent->disks().set()->Get(key, longer)).status()));
}

TEST_F(BlockLengthsTest, RoomIsPromisedByEachBlocksOwnSize) {
  rig_.disk.Stall();
  ASSERT_EQ(Put(1, {1, 4097, 9000}), 3u);
  EXPECT_EQ(rig_.agent->disks().promises()->bytes(), 4096u + 8192 + 12288);
  rig_.disk.Resume();
  AwaitDisk();
  EXPECT_EQ(rig_.agent->disks().promises()->bytes(), 0u);
}

TEST_F(BlockLengthsTest, APutThatWaitsForTheDisksIsPromisedRoomForAllItsBlocks) {
  const std::vector<uint64_t> lengths = {9000, 1, 1, 5000};
  const Reserved reserved = *rig_.Run(rig_.agent->flows().putter.ReserveBy(
      NameRun(1, lengths), Tier::kHost, rig_.executor.Now() + absl::Seconds(1)));
  for (const ReservedBlock& block : reserved.blocks) EXPECT_EQ(block.state, State::kReserved);
  EXPECT_EQ(rig_.agent->disks().promises()->bytes(), 12288u + 4096 + 4096 + 8192)
      << "and no more is kept";
  rig_.agent->Audit();
}

TEST_F(BlockLengthsTest, ATicketCountsTheRoomThatItsBlocksTake) {
  ASSERT_EQ(Put(1, {1, 9000}), 2u);
  // Tickets may hold half of the tenant's 1 MiB, and the blocks of each take 16 KiB.
  for (int i = 0; i < 33; ++i) {
    TicketRequest request{.redemptions = 1, .lifetime = absl::Seconds(1)};
    request.sequences = {{.run = NameRun(1, 2), .deadline = rig_.executor.Now()}};
    const auto taken = rig_.Run(rig_.agent->flows().tickets.Take(std::move(request)));
    EXPECT_EQ(taken.ok(), i < 32) << taken.status();
  }
}

TEST_F(BlockLengthsTest, NoGpuPoolFitsBlocksOfAnyLength) {
  AgentRig rig({.gpu_slots = 4, .disk = false});
  const uint32_t space =
      *rig.agent->sessions().table().AddSpace(rig.session, AnyLengthSpace(testing::kRigBlockBytes));
  BlockRun run =
      *rig.agent->sessions().table().NameRun(rig.session, space, {}, AgentRig::Keys(1, 1));
  run.key_lengths = {testing::kRigBlockBytes};
  const absl::Status refused = absl::InvalidArgumentError(
      "target: no GPU pool of this node has slots for blocks of this space; ask for TIER_HOST");
  EXPECT_EQ(rig.agent->flows().putter.Reserve(run, Tier::kGpu).status(), refused);
  OnboardRequest onboard{.run = run, .target = Tier::kGpu, .deadline = rig.executor.Now()};
  EXPECT_EQ(rig.Run(rig.agent->flows().onboarder.Onboard(std::move(onboard))).status(), refused);
  EXPECT_EQ(rig.agent->gpus().For(run), nullptr) << "nor is a slot of it granted";
}

class LengthsInMemoryTest : public BlockLengthsTest {
 protected:
  LengthsInMemoryTest() : BlockLengthsTest({.slots = kSlots, .disk = false}) {}
};

TEST_F(LengthsInMemoryTest, PutsOfAllLengthsAlwaysFindRoomAmongEachOther) {
  std::mt19937_64 random(testing::TestSeed());
  for (uint64_t number = 1; number <= 2000; ++number) {
    const uint64_t length = 1 + random() % kLongest;
    ASSERT_EQ(Put(number, {length}), 1u) << number;
    ASSERT_THAT(Get(number, 1), ElementsAre(length));
  }
  rig_.agent->Audit();
}

// With 15 sizes of slots in four slabs, blocks that are held would leave no slab for the others.
TEST(FewSlabsTest, ARunOfAllLengthsFindsRoomInASmallMemory) {
  AgentRig rig({.disk = false});  // Four slabs of 16 KiB.
  const BlockLengths lengths{.longest = kLongest, .any = true};
  std::vector<HostSlot> held;
  for (const uint64_t length : {uint64_t{1}, uint64_t{5000}, uint64_t{9000}, kLongest}) {
    const BlockRoom room = rig.agent->evictor().RoomFor(DomainId{0}, lengths, length);
    EXPECT_EQ(room.slot_bytes, 12288u);
    absl::StatusOr<HostSlot> slot = rig.agent->evictor().ReserveHost(DomainId{0}, room);
    ASSERT_TRUE(slot.ok()) << slot.status();
    held.push_back(*std::move(slot));
  }
}

TEST_F(LengthsInMemoryTest, WhatIsLateCountsByItsSlot) {
  (void)Reserve(1, {1, 9000});
  rig_.Pass(kReservationDuration + absl::Seconds(1));
  EXPECT_EQ(rig_.agent->sessions().reservations().late_bytes(Tier::kHost), 4096u + 12288);
}

class StagedLengthsTest : public BlockLengthsTest {
 protected:
  StagedLengthsTest() : BlockLengthsTest({.slots = kSlots, .disk = false, .staging_slots = 6}) {}
};

TEST_F(StagedLengthsTest, ARegionHasRoomByEachBlocksOwnPages) {
  const Reserved reserved = Reserve(1, {kLongest, 1, 4097});
  EXPECT_EQ(rig_.agent->sessions().staging().report().reserved_bytes, 12288u + 4096 + 8192);
  for (const ReservedBlock& block : reserved.blocks) EXPECT_EQ(block.state, State::kReserved);
  EXPECT_EQ(Reserve(4, {1}).blocks[0].state, State::kNoRoom);
}

TEST_F(StagedLengthsTest, WhatIsCopiedAtCommitIsTheBlockAlone) {
  ASSERT_EQ(Put(1, {5000, 1, kLongest}), 3u);
  EXPECT_THAT(Get(1, 3), ElementsAre(5000, 1, kLongest));
  EXPECT_EQ(rig_.agent->sessions().staging().report().reserved_bytes, 0u);
}

}  // namespace
}  // namespace kvtier

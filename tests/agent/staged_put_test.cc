// Tests puts of workers that are not trusted with the arena: they write to regions of their own,
// and the agent copies at commit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "agent/limits.h"
#include "core/checksum.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

class StagedPutTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kStagingSlots = 4;  // The arena has 16 slots.

  Reserved Reserve(SessionId of, uint64_t first, size_t count) {
    return *rig_.agent->flows().putter.Reserve(rig_.NameRun(of, first, count), Tier::kHost);
  }
  static size_t CountReserved(const Reserved& reserved) {
    return static_cast<size_t>(std::ranges::count_if(
        reserved.blocks,
        [](const ReservedBlock& block) { return block.state == ReservedBlock::State::kReserved; }));
  }
  uint64_t ReservedBytes() const {
    return rig_.agent->sessions().staging().report().reserved_bytes;
  }

  AgentRig rig_{{.disk = false, .staging_slots = kStagingSlots}};
  const SessionId session_ = rig_.session;
};

TEST_F(StagedPutTest, WhatIsCommittedIsHit) {
  EXPECT_EQ(rig_.Put(session_, 1, 4), 4u);
  EXPECT_EQ(rig_.Hits(session_, 1, 4), 4u);
  EXPECT_EQ(ReservedBytes(), 0u);
  rig_.agent->Audit();
}

TEST_F(StagedPutTest, AWriteAfterCommitReachesNobody) {
  const Reserved reserved = Reserve(session_, 1, 1);
  std::vector<ReservationId> ids = rig_.Fill(session_, 1, reserved);
  ASSERT_EQ(rig_.Commit(session_, ids), 1u);
  std::ranges::fill(rig_.Write(session_, reserved.blocks[0].offset), std::byte{0xee});
  EXPECT_EQ(rig_.Hits(session_, 1, 1), 1u) << "Hits() compares every byte";
}

TEST_F(StagedPutTest, APutIsAsLargeAsTheRegion) {
  const Reserved reserved = Reserve(session_, 1, kStagingSlots + 1);
  EXPECT_EQ(CountReserved(reserved), kStagingSlots);
  EXPECT_EQ(reserved.blocks.back().state, ReservedBlock::State::kNoRoom);
  EXPECT_EQ(rig_.agent->stats().host.declined, 1u);
  EXPECT_EQ(ReservedBytes(), kStagingSlots * kRigBlockBytes);
  EXPECT_EQ(rig_.agent->sessions().staging().SlotsOf(kRigBlockBytes), kStagingSlots);
  // Slots of the region that are given back may be reserved again.
  rig_.agent->sessions().reservations().Release(session_, rig_.Fill(session_, 1, reserved));
  EXPECT_EQ(CountReserved(Reserve(session_, 10, kStagingSlots)), kStagingSlots);
  rig_.agent->Audit();
}

TEST_F(StagedPutTest, WhatFindsNoRoomInTheRegionEvictsNothing) {
  for (uint64_t first = 1; first <= 16; first += 4) ASSERT_EQ(rig_.Put(session_, first, 4), 4u);
  const Reserved held = Reserve(session_, 101, kStagingSlots);
  const uint64_t evicted = rig_.agent->stats().host.evictions;
  EXPECT_EQ(CountReserved(Reserve(session_, 201, 4)), 0u);
  EXPECT_EQ(rig_.agent->stats().host.evictions, evicted);
}

TEST_F(StagedPutTest, SessionsOfOneTenantHaveRegionsOfTheirOwn) {
  const SessionId other = rig_.Open(0);
  const Reserved mine = Reserve(session_, 1, 1);
  const Reserved others = Reserve(other, 2, 1);
  EXPECT_NE(rig_.Write(session_, mine.blocks[0].offset).data(),
            rig_.Write(other, others.blocks[0].offset).data());
  EXPECT_EQ(CountReserved(Reserve(other, 11, kStagingSlots)), kStagingSlots - 1);
}

TEST_F(StagedPutTest, ASumThatIsNotOfTheBytesIsRefused) {
  const Reserved reserved = Reserve(session_, 1, 2);
  const std::vector<ReservationId> ids = rig_.Fill(session_, 1, reserved);
  PayloadSum sum = SumPayload(rig_.Write(session_, reserved.blocks[0].offset));
  rig_.agent->sessions().reservations().NoteSum(session_, ids[0], sum);
  sum = SumPayload(rig_.Write(session_, reserved.blocks[1].offset));
  sum.lo ^= 1;
  rig_.agent->sessions().reservations().NoteSum(session_, ids[1], sum);
  EXPECT_EQ(rig_.Commit(session_, ids), 1u);
  EXPECT_EQ(rig_.agent->stats().refused_sums, 1u);
  EXPECT_EQ(rig_.Hits(session_, 1, 2), 1u);
  // The block's key and its slots are free again.
  EXPECT_EQ(rig_.Put(session_, 2, 1, TestEngineKey(1)), 1u);
  rig_.agent->Audit();
}

TEST_F(StagedPutTest, BytesThatChangeAfterTheSumAreRefused) {
  const Reserved reserved = Reserve(session_, 1, 1);
  const std::vector<ReservationId> ids = rig_.Fill(session_, 1, reserved);
  const std::span<std::byte> slot = rig_.Write(session_, reserved.blocks[0].offset);
  rig_.agent->sessions().reservations().NoteSum(session_, ids[0], SumPayload(slot));
  slot[kRigBlockBytes / 2] ^= std::byte{1};
  EXPECT_EQ(rig_.Commit(session_, ids), 0u);
  EXPECT_EQ(rig_.Hits(session_, 1, 1), 0u);
}

TEST_F(StagedPutTest, ALateReservationHoldsItsRegionAlone) {
  const Reserved reserved = Reserve(session_, 1, kStagingSlots);
  const uint64_t used = rig_.agent->host().used_bytes();
  rig_.Pass(kReservationDuration + absl::Seconds(1));
  EXPECT_EQ(rig_.agent->stats().expired_reservations, kStagingSlots);
  EXPECT_EQ(rig_.agent->host().used_bytes(), used - kStagingSlots * kRigBlockBytes);
  EXPECT_EQ(rig_.agent->sessions().reservations().late_bytes(Tier::kHost), 0u);
  rig_.agent->Audit();
  // The worker may still be writing there.
  EXPECT_EQ(CountReserved(Reserve(session_, 11, 1)), 0u);
  const std::vector<ReservationId> ids = rig_.Fill(session_, 1, reserved);
  EXPECT_EQ(rig_.Commit(session_, ids), 0u) << "late";
  rig_.agent->sessions().reservations().Release(session_, ids);
  EXPECT_EQ(CountReserved(Reserve(session_, 11, kStagingSlots)), kStagingSlots);
}

TEST_F(StagedPutTest, ASessionsEndFreesAllOfItAtOnce) {
  const Reserved reserved = Reserve(session_, 1, kStagingSlots);
  const SessionId other = rig_.Open(0);
  EXPECT_FALSE(rig_.agent->CloseSession(session_)) << "it writes nothing of others' memory";
  EXPECT_EQ(rig_.agent->host().used_bytes(), 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig_.agent->sessions().staging().report().regions, 1u);
  EXPECT_EQ(rig_.Put(other, 1, kStagingSlots), kStagingSlots);
  rig_.agent->Audit();
}

TEST_F(StagedPutTest, ACommitUnderWayOutlivesItsSession) {
  const auto committed = rig_.Spawn(
      rig_.agent->flows().putter.Commit(session_, rig_.Reserve(session_, 1, kStagingSlots)));
  rig_.agent->CloseSession(session_);
  while (!committed->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(**committed, kStagingSlots);
  const SessionId other = rig_.Open(0);
  EXPECT_EQ(rig_.Hits(other, 1, kStagingSlots), kStagingSlots);
  rig_.agent->Audit();
}

TEST_F(StagedPutTest, ATenantsRegionsAreNoLargerThanItsArena) {
  // The first session's region is there already.
  for (uint64_t slots = 2 * kStagingSlots; slots <= 16; slots += kStagingSlots) {
    const SessionId more = rig_.Open(0);
    EXPECT_EQ(CountReserved(Reserve(more, 100 * slots, 1)), 1u);
  }
  const SessionId one_more = rig_.Open(0);
  EXPECT_EQ(CountReserved(Reserve(one_more, 1, 1)), 0u);
  const DomainId domain = rig_.agent->sessions().table().DomainOf(one_more);
  EXPECT_FALSE(rig_.agent->sessions().staging().RegionOf(one_more, domain).ok()) << "it asks again";
  EXPECT_EQ(rig_.agent->sessions().staging().report().refused_regions, 1u);
  EXPECT_EQ(CountReserved(Reserve(rig_.Open(1), 1, 1)), 1u) << "another tenant's";
  rig_.agent->CloseSession(session_);
  EXPECT_TRUE(rig_.agent->sessions().staging().RegionOf(one_more, domain).ok());
  EXPECT_EQ(CountReserved(Reserve(one_more, 1, 1)), 1u);
  rig_.agent->Audit();
}

TEST(StagedPutAloneTest, ATenantHasOneRegionHoweverSmallItsArena) {
  AgentRig rig({.slots = 4, .disk = false, .staging_slots = 8});
  EXPECT_EQ(rig.Put(rig.session, 1, 4), 4u);
}

TEST(StagedPutAloneTest, NothingOfAnOlderBlockIsBehindAShorterOne) {
  AgentRig rig({.slots = 4, .disk = false, .staging_slots = 4});
  // The whole arena has been written to.
  ASSERT_EQ(rig.Put(rig.session, 1, 4), 4u);
  constexpr uint64_t kShort = kRigBlockBytes - 100;
  const uint32_t space =
      *rig.agent->sessions().table().AddSpace(rig.session, testing::TestSpace(kShort));
  const BlockRun run = *rig.agent->sessions().table().NameRun(rig.session, space, std::nullopt,
                                                              AgentRig::Keys(50, 1));
  const Reserved reserved = *rig.agent->flows().putter.Reserve(run, Tier::kHost);
  ASSERT_EQ(reserved.blocks[0].state, ReservedBlock::State::kReserved);
  std::ranges::fill(rig.Write(rig.session, reserved.blocks[0].offset), std::byte{0x77});
  ASSERT_EQ(rig.Commit(rig.session, {reserved.blocks[0].id}), 1u);
  const Onboarded hit = *rig.Run(rig.agent->flows().onboarder.Onboard(
      {.run = run, .target = Tier::kHost, .deadline = rig.executor.Now() + absl::Seconds(1)}));
  ASSERT_EQ(hit.blocks.size(), 1u);
  const std::span<std::byte> slot = rig.Host(rig.session, hit.blocks[0].offset);
  EXPECT_TRUE(
      std::ranges::all_of(slot.first(kShort), [](std::byte b) { return b == std::byte{0x77}; }));
  EXPECT_TRUE(
      std::ranges::all_of(slot.subspan(kShort), [](std::byte b) { return b == std::byte{}; }));
}

TEST(StagingTest, AWorkerOfADirectNodeHasNoRegion) {
  AgentRig rig;
  EXPECT_TRUE(absl::IsNotFound(
      rig.agent->sessions().staging().RegionOf(rig.session, DomainId{0}).status()));
  EXPECT_FALSE(rig.agent->sessions().staging().enabled());
}

}  // namespace
}  // namespace kvtier

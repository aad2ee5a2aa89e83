// Tests promises to the disks: bursts beyond host memory, puts that wait, and commits that ask
// whether they are durable. One agent, in virtual time.
#include "agent/disk/disk_promises.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/task_scope.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;
using testing::SimRandom;

using Answer = std::shared_ptr<std::optional<absl::StatusOr<Reserved>>>;

class DiskPromisesTest : public ::testing::Test {
 protected:
  static constexpr size_t kSlots = 64;
  static constexpr size_t kHalf = kSlots / kPromisedPart;

  explicit DiskPromisesTest(const AgentRig::Shape& shape = {.slots = kSlots}) : rig_(shape) {}
  ~DiskPromisesTest() override { rig_.agent->Audit(); }
  Answer StartReserve(SessionId session, uint64_t first, size_t count, absl::Duration timeout) {
    return rig_.Spawn(rig_.agent->flows().putter.ReserveBy(
        rig_.NameRun(session, first, count), Tier::kHost, rig_.executor.Now() + timeout));
  }
  static size_t Count(const Answer& answer, ReservedBlock::State state) {
    return static_cast<size_t>(
        std::ranges::count_if((*answer)->value().blocks,
                              [&](const ReservedBlock& block) { return block.state == state; }));
  }
  static size_t Slots(const Answer& answer) {
    return Count(answer, ReservedBlock::State::kReserved);
  }
  // Puts blocks in half of the domain's slots, where they wait for a disk that does not answer.
  void FallBehind() {
    rig_.disk.Stall();
    ASSERT_EQ(rig_.Put(rig_.session, 1, kHalf), kHalf);
  }
  const OffloadStats& Stats() const { return rig_.agent->stats().offload; }
  const DiskPromises& Promises() const { return *rig_.agent->disks().promises(); }
  size_t OnDisk() const { return rig_.agent->disks().set()->block_count(); }

  AgentRig rig_;
};

// Regression: 240 commits of 2 MiB into 80 slots over an empty disk of 4 GiB were all acknowledged.
// 107 blocks were found; 133 had been evicted before they were written.
TEST_F(DiskPromisesTest, WhatIsAcknowledgedOfABurstBeyondHostMemoryIsFound) {
  constexpr size_t kBurst = 3 * kSlots;
  rig_.media.faults.latency = absl::Milliseconds(20);
  size_t acknowledged = 0;
  for (uint64_t block = 0; block < kBurst; ++block) {
    const uint64_t first = 1 + 10 * block;
    const Answer answer = StartReserve(rig_.session, first, 1, absl::Seconds(5));
    while (!answer->has_value()) ASSERT_TRUE(rig_.time.Step());
    acknowledged += rig_.Commit(rig_.session, rig_.Fill(rig_.session, first, ***answer));
  }
  EXPECT_EQ(acknowledged, kBurst);
  EXPECT_GT(Stats().waited, 0u);
  EXPECT_EQ(Stats().declined_behind, 0u);
  size_t found = 0;
  for (uint64_t block = 0; block < kBurst; ++block) {
    found += rig_.Hits(rig_.session, 1 + 10 * block, 1, absl::Seconds(1));
  }
  EXPECT_EQ(found, kBurst);
}

TEST_F(DiskPromisesTest, APutThatWaitedInVainIsToldThatThereIsNoRoomAndEvictsNothing) {
  FallBehind();
  const absl::Time start = rig_.executor.Now();
  const Answer answer = StartReserve(rig_.session, 1000, 4, absl::Milliseconds(50));
  rig_.Pass(absl::Milliseconds(49));
  EXPECT_FALSE(answer->has_value());
  EXPECT_EQ(Promises().waiting(), 1u);
  EXPECT_TRUE(Promises().behind());
  rig_.time.RunUntil(start + absl::Milliseconds(50));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ(Count(answer, ReservedBlock::State::kNoRoom), 4u);
  EXPECT_EQ(Stats().declined_behind, 4u);
  EXPECT_EQ(Stats().waited, 1u);
  EXPECT_EQ(rig_.agent->stats().host.evictions, 0u);
}

TEST_F(DiskPromisesTest, TheDisksCountAsBehindForAWhileAfterARefusal) {
  FallBehind();
  ASSERT_TRUE(rig_.Reserve(rig_.session, 1000, 1).empty());
  rig_.disk.Resume();
  rig_.Pass(kBehindShown - absl::Milliseconds(1));
  EXPECT_TRUE(Promises().behind());
  rig_.Pass(absl::Milliseconds(1));
  EXPECT_FALSE(Promises().behind());
}

TEST_F(DiskPromisesTest, APutGoesOnWhenBlocksAreWritten) {
  FallBehind();
  const Answer answer = StartReserve(rig_.session, 1000, 4, absl::Seconds(1));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_FALSE(answer->has_value());
  rig_.disk.Resume();
  rig_.Pass(absl::Milliseconds(5));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ(Slots(answer), 4u);
}

TEST_F(DiskPromisesTest, APromisedBlockIsNotEvictedAndTheOtherHalfIsFree) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1000, 8), 8u);
  FallBehind();
  EXPECT_EQ(rig_.EvictHost(), 8u);
  std::vector<HostSlot> loads;
  const DomainId domain = rig_.NameRun(rig_.session, 1, 1).domain;
  for (size_t i = 0; i < kSlots - kHalf; ++i) {
    absl::StatusOr<HostSlot> slot = rig_.agent->evictor().ReserveHost(domain, kRigBlockBytes);
    ASSERT_TRUE(slot.ok()) << i;
    loads.push_back(*std::move(slot));
  }
  EXPECT_FALSE(rig_.agent->evictor().ReserveHost(domain, kRigBlockBytes).ok());
  EXPECT_EQ(rig_.Hits(rig_.session, 1, kHalf), kHalf);
}

TEST_F(DiskPromisesTest, WhatIsReservedIsAPromiseToComeUntilItIsLate) {
  ASSERT_EQ(rig_.Reserve(rig_.session, 1, kSlots).size(), kHalf);
  EXPECT_EQ(Promises().bytes(), kHalf * kRigBlockBytes);
  EXPECT_TRUE(rig_.Reserve(rig_.session, 1000, 1).empty());
  rig_.Pass(kReservationDuration + absl::Seconds(1));
  EXPECT_EQ(Promises().bytes(), 0u);
}

TEST_F(DiskPromisesTest, OneBlockMayAlwaysBePromised) {
  AgentRig rig({.slots = 4});
  ASSERT_EQ(rig.agent->host().slots(DomainId{0}).slab_bytes(), 4 * kRigBlockBytes);
  OffloadStats stats;
  Waits waits(&rig.executor);
  DiskPromises promises(&rig.executor, &waits, rig.agent->host(), &stats);
  DiskQueueRoom whole = promises.Take(DomainId{0}, 4 * kRigBlockBytes, 1);
  EXPECT_EQ(whole.blocks(), 1u);
  EXPECT_FALSE(promises.Take(DomainId{0}, kRigBlockBytes, 1));
  EXPECT_EQ(promises.Take(DomainId{1}, kRigBlockBytes, 9).blocks(), 2u) << "of its own";
  promises.Audit();
  whole.Release();
  EXPECT_EQ(promises.bytes(), 0u);
}

TEST_F(DiskPromisesTest, APutOfMoreThanMayBePromisedGetsWhatMay) {
  const Answer answer = StartReserve(rig_.session, 1, kSlots, absl::Seconds(1));
  ASSERT_TRUE(answer->has_value()) << "it would wait for itself";
  EXPECT_EQ(Slots(answer), kHalf);
}

TEST_F(DiskPromisesTest, SessionsThatWaitTakeTurnsAndNobodyOvertakes) {
  const SessionId other = rig_.Open(0);
  FallBehind();
  std::vector<Answer> of_one;
  for (uint64_t i = 0; i < 3; ++i) {
    of_one.push_back(StartReserve(rig_.session, 1000 + 100 * i, kHalf, absl::Seconds(2)));
  }
  const Answer of_other = StartReserve(other, 5000, kHalf, absl::Seconds(2));
  rig_.disk.Resume();
  rig_.Pass(absl::Milliseconds(10));
  ASSERT_TRUE(of_one[0]->has_value());
  EXPECT_TRUE(rig_.Reserve(rig_.session, 9000, 1).empty()) << "others wait";
  rig_.Commit(rig_.session, rig_.Fill(rig_.session, 1000, ***of_one[0]));
  rig_.Pass(absl::Milliseconds(10));
  ASSERT_TRUE(of_other->has_value()) << "second in turn, though it came last";
  EXPECT_EQ(Slots(of_other), kHalf);
  EXPECT_FALSE(of_one[1]->has_value());
}

TEST_F(DiskPromisesTest, ASessionWaitsForSoManyPutsAndNotOneMore) {
  FallBehind();
  for (uint64_t i = 0; i < kMaxPutsWaitingPerSession; ++i) {
    StartReserve(rig_.session, 1000 + i, 1, absl::Seconds(2));
  }
  EXPECT_EQ(Promises().waiting(), kMaxPutsWaitingPerSession);
  const Answer one_more = StartReserve(rig_.session, 3000, 1, absl::Seconds(2));
  ASSERT_TRUE(one_more->has_value());
  EXPECT_EQ(Slots(one_more), 0u);
  rig_.disk.Resume();
}

TEST_F(DiskPromisesTest, AWaitEndsWithItsSession) {
  FallBehind();
  const SessionId leaving = rig_.Open(0);
  const Answer answer = StartReserve(leaving, 1000, 1, absl::Seconds(2));
  rig_.agent->CloseSession(leaving);
  rig_.Pass(absl::Milliseconds(1));
  ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*answer)->status())) << (*answer)->status();
  EXPECT_EQ(Promises().waiting(), 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  rig_.disk.Resume();
}

TEST_F(DiskPromisesTest, ADiskThatLeavesTheServiceEndsItsPromises) {
  FallBehind();
  const Answer answer = StartReserve(rig_.session, 1000, 4, absl::Seconds(20));
  rig_.Pass(absl::Seconds(4));
  ASSERT_FALSE(rig_.agent->disks().set()->Statuses()[0].serving);
  EXPECT_EQ(Promises().bytes(), 4 * kRigBlockBytes - 4 * kRigBlockBytes);
  EXPECT_EQ(rig_.agent->flows().offloader->pending(), kMaxOffloadsRunning)
      << "the device may read them";
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ(Slots(answer), 4u) << "nothing is promised, and nothing waits";
  EXPECT_EQ(rig_.EvictHost(), kHalf - kMaxOffloadsRunning);
}

TEST_F(DiskPromisesTest, AnErasedTenantEndsItsPromises) {
  FallBehind();
  const auto erasing = rig_.Spawn(rig_.agent->flows().tenant_eraser.Erase("default"));
  EXPECT_EQ(rig_.agent->flows().offloader->pending(), kMaxOffloadsRunning);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), kMaxOffloadsRunning);
  rig_.disk.Resume();
  while (!erasing->has_value()) ASSERT_TRUE(rig_.time.Step());
}

// A put may wait for a minute, but an agent that is stopped has less time.
TEST_F(DiskPromisesTest, AStopWaitsForNoPut) {
  ASSERT_EQ(rig_.Reserve(rig_.session, 1, kHalf).size(), kHalf);
  const Answer answer = StartReserve(rig_.session, 1000, 1, kReservationDuration);
  ASSERT_FALSE(answer->has_value());
  const absl::Time start = rig_.executor.Now();
  TaskScope outside(&rig_.executor);
  outside.Spawn([](Agent* agent, absl::Time deadline) -> Task<void> {
    EXPECT_TRUE(co_await agent->Stop(deadline));
  }(rig_.agent.get(), start + absl::Seconds(5)));
  while (outside.running() > 0) ASSERT_TRUE(rig_.time.Step());
  EXPECT_LT(rig_.executor.Now() - start, absl::Seconds(1));
  EXPECT_TRUE(answer->has_value());
}

// Runs random puts of two sessions, which wait, are committed, given back or forgotten. The room
// that is given never exceeds the limit, and every put that may go on does.
TEST_F(DiskPromisesTest, RoomIsNeverLostNorGivenTwice) {
  SimRandom random(testing::TestSeed());
  OffloadStats stats;
  Waits ends(&rig_.executor);
  DiskPromises promises(&rig_.executor, &ends, rig_.agent->host(), &stats);
  std::vector<DiskQueueRoom> rooms;
  std::vector<std::shared_ptr<std::optional<DiskQueueRoom>>> waits;
  for (int step = 0; step < 5000; ++step) {
    const uint64_t kind = random.Below(10);
    const uint64_t bytes = kRigBlockBytes * (1 + random.Below(3));
    const DomainId domain{static_cast<uint32_t>(random.Below(2))};
    if (kind < 3) {
      rooms.push_back(promises.Take(domain, bytes, random.Below(6)));
    } else if (kind < 6) {
      waits.push_back(
          rig_.Spawn(promises.Await({.session = SessionId{random.Below(3)},
                                     .domain = domain,
                                     .slot_bytes = bytes,
                                     .blocks = 1 + random.Below(40)},
                                    rig_.executor.Now() + absl::Milliseconds(random.Below(50)))));
    } else if (kind < 9 && !rooms.empty()) {
      DiskQueueRoom& some = rooms[random.Below(rooms.size())];
      // Now and then the block is shorter than the average.
      if (some && random.Draw(0.5)) some.SplitOne(1 + random.Below(bytes)).Release();
      std::swap(some, rooms.back());
      rooms.pop_back();
    } else {
      rig_.Pass(absl::Milliseconds(random.Below(20)));
      if (random.Draw(0.05)) promises.EndSession(SessionId{random.Below(3)});
    }
    std::erase_if(waits, [&](const auto& wait) {
      if (!wait->has_value()) return false;
      rooms.push_back(*std::move(*wait));
      return true;
    });
    promises.Audit();
  }
  ends.End();
  rig_.Pass(absl::Milliseconds(100));
  for (const auto& wait : waits) ASSERT_TRUE(wait->has_value());
  waits.clear();
  rooms.clear();
  EXPECT_EQ(promises.bytes(), 0u);
}

// Without promises no put waits: all of host memory can be reserved at once.
TEST(WithoutPromisesTest, EverySlotCanBeReservedAndTheDisksAreNotBehind) {
  for (const AgentRig::Shape& shape :
       {AgentRig::Shape{.disk = false},
        AgentRig::Shape{.disk_writes = {.moment = WriteMoment::kAtEviction}},
        AgentRig::Shape{.disk_writes = {.policy = WritePolicy::kSecondTouch}}}) {
    AgentRig rig(shape);
    EXPECT_EQ(rig.Put(rig.session, 1, 16), 16u);
    if (rig.agent->disks().promises() == nullptr) continue;
    EXPECT_FALSE(rig.agent->disks().promises()->behind());
    EXPECT_EQ(rig.agent->disks().promises()->bytes(), 0u);
  }
}

class DurableCommitTest : public DiskPromisesTest {
 protected:
  using DiskPromisesTest::DiskPromisesTest;
  // Puts and commits blocks; returns how many are on disk at most `timeout` later.
  size_t PutDurably(uint64_t first, size_t count, absl::Duration timeout) {
    std::vector<ReservationId> ids = rig_.Reserve(rig_.session, first, count);
    std::vector<BlockKey> keys = rig_.agent->sessions().reservations().KeysOf(rig_.session, ids);
    EXPECT_EQ(rig_.Commit(rig_.session, std::move(ids)), count);
    return rig_.Run(rig_.agent->flows().offloader->AwaitDurable(std::move(keys),
                                                                rig_.executor.Now() + timeout));
  }
};

TEST_F(DurableCommitTest, IsToldWhenItsBlocksAreOnDisk) {
  EXPECT_EQ(PutDurably(1, 5, absl::Seconds(5)), 5u);
  EXPECT_EQ(OnDisk(), 5u);
}

TEST_F(DurableCommitTest, IsToldAtItsDeadlineHowManyAreSoFar) {
  rig_.disk.Stall();
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(PutDurably(1, 5, absl::Milliseconds(80)), 0u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(70)) << "an eighth is to confirm";
  EXPECT_EQ(PutDurably(10, 5, absl::Seconds(1)), 0u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Milliseconds(1070) - kConfirmTime);
  rig_.disk.Resume();
}

// Once, durable commits were acknowledged on a disk whose directory was gone.
TEST_F(DurableCommitTest, OfADiskWhoseFilesAreGoneIsNot) {
  rig_.manifest_media.faults.gone = true;
  EXPECT_EQ(PutDurably(1, 3, absl::Seconds(5)), 0u);
  EXPECT_FALSE(rig_.agent->disks().set()->serves(0));
}

TEST_F(DurableCommitTest, OfBlocksWrittenBeforeTheirDiskWasGoneIsNot) {
  ASSERT_EQ(PutDurably(1, 3, absl::Seconds(5)), 3u);
  std::vector<BlockKey> keys = rig_.NameRun(rig_.session, 1, 3).keys;
  const auto durable = [&] {
    return rig_.Run(
        rig_.agent->flows().offloader->AwaitDurable(keys, rig_.executor.Now() + absl::Seconds(5)));
  };
  EXPECT_EQ(durable(), 3u);
  rig_.manifest_media.faults.gone = true;
  EXPECT_EQ(durable(), 0u) << "they are written already, and lost";
  EXPECT_FALSE(rig_.agent->disks().set()->serves(0));
}

TEST_F(DurableCommitTest, OfADiskThatDoesNotConfirmInTimeIsNot) {
  ASSERT_EQ(PutDurably(1, 3, absl::Seconds(5)), 3u);
  rig_.manifest_media.faults.latency = absl::Seconds(60);
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(rig_.Run(rig_.agent->flows().offloader->AwaitDurable(
                rig_.NameRun(rig_.session, 1, 3).keys, start + absl::Seconds(1))),
            0u);
  EXPECT_EQ(rig_.executor.Now() - start, absl::Seconds(1));
  rig_.Pass(absl::Seconds(120));
}

TEST_F(DurableCommitTest, OfAWriteThatFailsIsNot) {
  rig_.media.faults.write_error = 1;
  EXPECT_EQ(PutDurably(1, 1, absl::Seconds(5)), 0u);
}

TEST_F(DurableCommitTest, OfADiskThatLeavesTheServiceEndsThen) {
  FallBehind();
  const BlockRun run = rig_.NameRun(rig_.session, 1, kHalf);
  const std::vector<BlockKey> queued(run.keys.begin() + kMaxOffloadsRunning, run.keys.end());
  const absl::Time start = rig_.executor.Now();
  EXPECT_EQ(
      rig_.Run(rig_.agent->flows().offloader->AwaitDurable(queued, start + absl::Seconds(60))), 0u);
  EXPECT_LT(rig_.executor.Now() - start, absl::Seconds(5));
}

TEST(DurableCommitWithoutDisksTest, OfBlocksThatThePolicyRefusesIsToldAtOnce) {
  AgentRig rig({.disk_writes = {.policy = WritePolicy::kSecondTouch}});
  const std::vector<ReservationId> ids = rig.Reserve(rig.session, 1, 3);
  const std::vector<BlockKey> keys = rig.agent->sessions().reservations().KeysOf(rig.session, ids);
  ASSERT_EQ(keys.size(), 3u);
  ASSERT_EQ(rig.Commit(rig.session, ids), 3u);
  const auto durable = rig.Spawn(
      rig.agent->flows().offloader->AwaitDurable(keys, rig.executor.Now() + absl::Seconds(9)));
  ASSERT_TRUE(durable->has_value());
  EXPECT_EQ(**durable, 0u);
  EXPECT_TRUE(rig.agent->sessions().reservations().KeysOf(rig.session, ids).empty())
      << "they are committed";
}

class GrowingPromisesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = uint64_t{1} << 20;  // More than blocks of a byte can fill.
  static constexpr DomainId kFirst{0};
  static constexpr DomainId kNewcomer{1};
  ~GrowingPromisesTest() override { promises_.Audit(); }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  TaskScope scope_{&executor_};
  Waits waits_{&executor_};
  OffloadStats stats_;
  const std::unique_ptr<HostTier> host_ =
      *HostTier::Create({.domains = {{.name = "first", .bytes = kBytes}}, .slab_bytes = kBytes});
  DiskPromises promises_{&executor_, &waits_, *host_, &stats_};
};

TEST_F(GrowingPromisesTest, ANewcomerGetsItsPartAsTheOthersGiveTheirsBack) {
  const DiskQueueRoom most = promises_.Take(kFirst, 1, 10'000);
  DiskQueueRoom rest = promises_.Take(kFirst, 1, kMaxOffloadQueued);
  EXPECT_EQ(most.blocks() + rest.blocks(), kMaxOffloadQueued);
  promises_.AddDomain(kBytes);
  const DiskQueueRoom one = promises_.Take(kNewcomer, 1, 100);
  EXPECT_EQ(one.blocks(), 1) << "so that nobody starves";
  EXPECT_FALSE(promises_.Take(kNewcomer, 1, 100));
  promises_.Audit();
  size_t granted = 0;
  scope_.Spawn([](DiskPromises* from, absl::Time by, size_t* blocks) -> Task<void> {
    DiskPromises::Put put{.session = SessionId{7}, .domain = kNewcomer, .slot_bytes = 1};
    put.blocks = 5'000;
    const DiskQueueRoom room = co_await from->Await(put, by);
    *blocks = room.blocks();
  }(&promises_, time_.Now() + absl::Seconds(1), &granted));
  EXPECT_EQ(granted, 0);
  rest.Release();
  while (granted == 0) ASSERT_TRUE(time_.Step());
  EXPECT_EQ(granted, 5'000) << "what another domain gave back";
  EXPECT_FALSE(promises_.Take(kFirst, 1, 1)) << "it has more than its part";
  promises_.DropDomain(kNewcomer);
  EXPECT_EQ(promises_.Take(kFirst, 1, kMaxOffloadQueued).blocks(), kMaxOffloadQueued - 10'000 - 1)
      << "the part of one that was dropped is the others'";
}

}  // namespace
}  // namespace kvtier

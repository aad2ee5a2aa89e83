#include "tier_gpu/tables/slot_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr PoolWorker kA{0};
constexpr PoolWorker kB{1};

class SlotTableTest : public ::testing::Test {
 protected:
  ~SlotTableTest() override { table_.Audit(); }
  SlotRef Allocate(PoolWorker worker) {
    const absl::StatusOr<SlotRef> slot = table_.Allocate(worker);
    EXPECT_EQ(slot.status(), absl::OkStatus());
    return slot.value_or(SlotRef{});
  }
  // Returns a slot that only the cache holds.
  SlotRef Cached() {
    const SlotRef slot = Allocate(kA);
    EXPECT_EQ(table_.Seal(slot), absl::OkStatus());
    EXPECT_EQ(table_.Keep(slot), absl::OkStatus());
    EXPECT_EQ(table_.Release(kA, slot), absl::OkStatus());
    return slot;
  }

  SlotTable table_{{.slots = 3, .workers = 2}};
};

TEST_F(SlotTableTest, EverySlotIsHandedOutOnceAndThenNoneIsLeft) {
  EXPECT_EQ(Allocate(kA).index, 0);
  EXPECT_EQ(Allocate(kB).index, 1);
  EXPECT_EQ(Allocate(kA).index, 2);
  const absl::Status none = table_.Allocate(kA).status();
  EXPECT_TRUE(absl::IsResourceExhausted(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("none of 3 slots is free, 0 wait"));
  EXPECT_EQ(table_.used_slots(), 3);
}

TEST_F(SlotTableTest, ASlotLivesFromFillingToSealedToDrainingToFree) {
  ASSERT_EQ(table_.Begin(kA, 1), absl::OkStatus());
  const SlotRef slot = Allocate(kA);
  EXPECT_EQ(table_.state(slot.index), SlotState::kFilling);
  ASSERT_EQ(table_.Seal(slot), absl::OkStatus());
  ASSERT_EQ(table_.Seal(slot), absl::OkStatus());  // Sealing twice is allowed.
  EXPECT_EQ(table_.state(slot.index), SlotState::kSealed);
  ASSERT_EQ(table_.Release(kA, slot), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kDraining);
  EXPECT_EQ(table_.draining_slots(), 1);
  ASSERT_EQ(table_.Retire(kA, 1), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kFree);
  EXPECT_EQ(table_.draining_slots(), 0);
  EXPECT_FALSE(table_.sealed(Allocate(kA).index));
}

TEST_F(SlotTableTest, ASlotIsReusedOnlyPastTheStepThatReadIt) {
  ASSERT_EQ(table_.Begin(kA, 4), absl::OkStatus());
  const SlotRef slot = Allocate(kA);
  ASSERT_EQ(table_.Begin(kA, 7), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, slot), absl::OkStatus());
  ASSERT_EQ(table_.Begin(kA, 9), absl::OkStatus());
  ASSERT_EQ(table_.Retire(kA, 6), absl::OkStatus());
  EXPECT_EQ(table_.free_slots(), 2);
  ASSERT_EQ(table_.Retire(kA, 7), absl::OkStatus());
  EXPECT_EQ(table_.free_slots(), 3);
}

TEST_F(SlotTableTest, ASlotThatNothingInFlightCanReadIsFreeAtOnce) {
  ASSERT_EQ(table_.Begin(kA, 1), absl::OkStatus());
  ASSERT_EQ(table_.Retire(kA, 1), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, Allocate(kA)), absl::OkStatus());
  EXPECT_EQ(table_.free_slots(), 3);
}

TEST_F(SlotTableTest, EveryWorkerThatReadASlotHasToBeDoneWithIt) {
  ASSERT_EQ(table_.Begin(kA, 1), absl::OkStatus());
  ASSERT_EQ(table_.Begin(kB, 1), absl::OkStatus());
  const SlotRef slot = Allocate(kA);
  ASSERT_EQ(table_.Hold(kB, slot), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, slot), absl::OkStatus());
  ASSERT_EQ(table_.Release(kB, slot), absl::OkStatus());
  ASSERT_EQ(table_.Retire(kB, 1), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kDraining);
  ASSERT_EQ(table_.Retire(kA, 1), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kFree);
}

// The slot is held again before its step retired, so the later step counts.
TEST_F(SlotTableTest, ASecondHoldMovesTheEndToItsOwnStep) {
  const SlotRef slot = Cached();
  for (const uint64_t step : {1, 2}) {
    ASSERT_EQ(table_.Begin(kA, step), absl::OkStatus());
    ASSERT_EQ(table_.Hold(kA, slot), absl::OkStatus());
    ASSERT_EQ(table_.Release(kA, slot), absl::OkStatus());
  }
  ASSERT_EQ(table_.Drop(slot), absl::OkStatus());
  ASSERT_EQ(table_.Retire(kA, 1), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kDraining);
  ASSERT_EQ(table_.Retire(kA, 2), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kFree);
}

TEST_F(SlotTableTest, AStaleNameIsRefusedEverywhere) {
  const SlotRef stale = Allocate(kA);
  ASSERT_EQ(table_.Release(kA, stale), absl::OkStatus());
  const absl::Status held_by_nobody = table_.Check(stale);
  EXPECT_THAT(std::string(held_by_nobody.message()), HasSubstr("held by nobody"));
  const SlotRef now = Allocate(kA);
  ASSERT_EQ(now.index, stale.index);
  EXPECT_EQ(now.generation, stale.generation + 1);
  EXPECT_TRUE(absl::IsAborted(table_.Check(stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Hold(kA, stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Release(kA, stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Seal(stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Keep(stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Drop(stale)));
  EXPECT_TRUE(absl::IsAborted(table_.Check({.index = 3, .generation = 1})));
  EXPECT_EQ(table_.Check(now), absl::OkStatus());
  EXPECT_THAT(std::string(table_.Check(stale).message()),
              HasSubstr("slot 0 was freed: it is of generation 2, not 1"));
}

TEST_F(SlotTableTest, OnlyAHolderReleases) {
  const SlotRef slot = Allocate(kA);
  const absl::Status refused = table_.Release(kB, slot);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(refused.message(), "worker 1 does not hold slot 0");
  EXPECT_EQ(table_.holds(kA, slot.index), 1);
}

TEST_F(SlotTableTest, TheCacheKeepsSealedSlotsOnce) {
  const SlotRef slot = Allocate(kA);
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Keep(slot)));
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Drop(slot)));
  ASSERT_EQ(table_.Seal(slot), absl::OkStatus());
  ASSERT_EQ(table_.Keep(slot), absl::OkStatus());
  EXPECT_TRUE(absl::IsAlreadyExists(table_.Keep(slot)));
  EXPECT_EQ(table_.holds(slot.index), 2);
  ASSERT_EQ(table_.Release(kA, slot), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kSealed);
  ASSERT_EQ(table_.Drop(slot), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kFree);
}

TEST_F(SlotTableTest, OnlyALoneHolderWritesInPlace) {
  const SlotRef slot = Allocate(kA);
  EXPECT_TRUE(table_.writable(kA, slot.index));
  ASSERT_EQ(table_.Begin(kB, 1), absl::OkStatus());
  ASSERT_EQ(table_.Hold(kB, slot), absl::OkStatus());
  EXPECT_FALSE(table_.writable(kA, slot.index));
  ASSERT_EQ(table_.Release(kB, slot), absl::OkStatus());
  EXPECT_FALSE(table_.writable(kA, slot.index));  // Step 1 of the other worker may read it.
  ASSERT_EQ(table_.Retire(kB, 1), absl::OkStatus());
  EXPECT_TRUE(table_.writable(kA, slot.index));
  ASSERT_EQ(table_.Seal(slot), absl::OkStatus());
  EXPECT_FALSE(table_.writable(kA, slot.index));
}

TEST_F(SlotTableTest, StepsOnlyGrowAndRetireAfterTheyBegan) {
  ASSERT_EQ(table_.Begin(kA, 5), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Begin(kA, 5)));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Retire(kA, 6)));
  ASSERT_EQ(table_.Retire(kA, 5), absl::OkStatus());
  ASSERT_EQ(table_.Retire(kA, 3), absl::OkStatus());  // This is known already.
  EXPECT_EQ(table_.retired(kA), 5);
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Begin(kB, 0)));
}

TEST_F(SlotTableTest, ACrashGivesBackAllButWhatOthersHave) {
  const SlotRef cached = Cached();
  const SlotRef shared = Allocate(kA);
  ASSERT_EQ(table_.Begin(kA, 1), absl::OkStatus());
  for (const SlotRef slot : {cached, cached, shared}) {
    ASSERT_EQ(table_.Hold(kA, slot), absl::OkStatus());
  }
  ASSERT_EQ(table_.Hold(kB, shared), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, Allocate(kA)), absl::OkStatus());  // The slot is draining.
  EXPECT_EQ(table_.free_slots(), 0);
  table_.Crash(kA);
  EXPECT_EQ(table_.free_slots(), 1);
  EXPECT_EQ(table_.holds(cached.index), 1);
  EXPECT_EQ(table_.holds(shared.index), 1);
  EXPECT_EQ(table_.Check(cached), absl::OkStatus());
  // Begins a step of the next worker with this number.
  EXPECT_EQ(table_.Begin(kA, 1), absl::OkStatus());
}

// The dead worker's steps are over; those of the others are not.
TEST_F(SlotTableTest, ACrashRetiresOnlyTheDeadWorkersSteps) {
  const SlotRef slot = Allocate(kA);
  ASSERT_EQ(table_.Hold(kB, slot), absl::OkStatus());
  ASSERT_EQ(table_.Begin(kB, 1), absl::OkStatus());
  ASSERT_EQ(table_.Release(kB, slot), absl::OkStatus());
  table_.Crash(kA);
  EXPECT_EQ(table_.state(slot.index), SlotState::kDraining);
  ASSERT_EQ(table_.Retire(kB, 1), absl::OkStatus());
  EXPECT_EQ(table_.state(slot.index), SlotState::kFree);
}

TEST_F(SlotTableTest, NewSlotsComeBehindTheWarmOnes) {
  const SlotRef first = Allocate(kA);
  ASSERT_EQ(table_.Release(kA, first), absl::OkStatus());
  table_.Grow(2);
  EXPECT_EQ(table_.slots(), 5);
  EXPECT_EQ(table_.free_slots(), 5);
  EXPECT_EQ(Allocate(kA).index, first.index);
}

TEST_F(SlotTableTest, ClosedSlotsAreHandedOutNoMoreAndCutWhenNobodyHasThem) {
  const SlotRef zero = Allocate(kA);
  const SlotRef one = Allocate(kA);
  table_.CloseFrom(1);
  EXPECT_TRUE(table_.closed());
  EXPECT_EQ(table_.closed_in_use(), 1);
  EXPECT_EQ(table_.used_slots(), 2);
  EXPECT_FALSE(table_.Allocate(kA).ok());
  table_.Audit();
  ASSERT_EQ(table_.Release(kA, one), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, zero), absl::OkStatus());
  EXPECT_EQ(table_.closed_in_use(), 0);
  table_.CutTo(1);
  EXPECT_EQ(table_.slots(), 1);
  EXPECT_EQ(table_.Hold(kA, one).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Allocate(kA).index, zero.index);
}

TEST_F(SlotTableTest, WhatIsClosedIsCutFromTheEndAsFarAsNobodyHasIt) {
  Allocate(kA);
  const SlotRef one = Allocate(kA);
  table_.CloseFrom(0 + 1);
  EXPECT_EQ(table_.closed_use_end(), 2u);
  EXPECT_TRUE(table_.busy(kA, one.index));
  EXPECT_FALSE(table_.busy(kB, one.index));
  table_.CutTo(2);
  EXPECT_EQ(table_.slots(), 2u);
  EXPECT_EQ(table_.closed_in_use(), 1u);
  EXPECT_EQ(table_.closed_from(), 1u);
  table_.Audit();
  ASSERT_EQ(table_.Begin(kA, 1), absl::OkStatus());
  ASSERT_EQ(table_.Release(kA, one), absl::OkStatus());
  EXPECT_EQ(table_.closed_use_end(), 2u) << "a step may still read it";
  EXPECT_TRUE(table_.busy(kA, one.index));
  ASSERT_EQ(table_.Retire(kA, 1), absl::OkStatus());
  EXPECT_EQ(table_.closed_use_end(), 1u);
  table_.CutTo(1);
  EXPECT_FALSE(table_.closed());
  table_.Audit();
}

// The number of the place is the same, but its memory is different.
TEST_F(SlotTableTest, NamesFromBeforeACutStayStaleWhenTheTableGrowsAgain) {
  const SlotRef zero = Allocate(kA);
  SlotRef last = Allocate(kA);
  ASSERT_EQ(table_.Release(kA, last), absl::OkStatus());
  last = Allocate(kA);
  ASSERT_EQ(table_.Release(kA, last), absl::OkStatus());
  table_.CloseFrom(1);
  table_.CutTo(1);
  table_.Grow(2);
  const SlotRef again = Allocate(kA);
  EXPECT_EQ(again.index, last.index);
  for (uint32_t generation = 1; generation <= last.generation; ++generation) {
    EXPECT_EQ(table_.Check({last.index, generation}).code(), absl::StatusCode::kAborted);
  }
  EXPECT_EQ(table_.Check(zero), absl::OkStatus());
  table_.Audit();
}

// Compares the state of each slot with one derived from a count of holds.
TEST(SlotTableRandomTest, SlotsComeAndGoAndNoneIsHandedOutTwice) {
  std::mt19937_64 random(testing::TestSeed());
  SlotTable table({.slots = 8, .workers = 3});
  std::map<uint32_t, std::pair<PoolWorker, SlotRef>> held;
  size_t most = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto worker = static_cast<PoolWorker>(random() % 3);
    switch (random() % 8) {
      case 0:
      case 1:
      case 2: {
        const absl::StatusOr<SlotRef> slot = table.Allocate(worker);
        if (!slot.ok()) break;
        ASSERT_LT(slot->index, table.slots());
        ASSERT_TRUE(held.emplace(slot->index, std::pair(worker, *slot)).second);
        break;
      }
      case 3:
      case 4: {
        if (held.empty()) break;
        const auto chosen = std::next(held.begin(), static_cast<ptrdiff_t>(random() % held.size()));
        ASSERT_EQ(table.Release(chosen->second.first, chosen->second.second), absl::OkStatus());
        held.erase(chosen);
        break;
      }
      case 5:
        ASSERT_EQ(table.Begin(worker, table.begun(worker) + 1), absl::OkStatus());
        if (random() % 2 == 0) {
          ASSERT_EQ(table.Retire(worker, table.begun(worker)), absl::OkStatus());
        }
        break;
      case 6:
        if (random() % 4 == 0 && !table.closed() && table.slots() < 40)
          table.Grow(1 + random() % 8);
        break;
      default:
        if (table.closed() && random() % 2 == 0) {
          table.CutTo(std::max<size_t>(table.closed_use_end(), 1));
        } else if (table.closed() && random() % 4 == 0) {
          table.Reopen();
        } else if (random() % 4 == 0 && table.slots() > 2) {
          table.CloseFrom(1 + static_cast<uint32_t>(random() % table.slots()));
        }
    }
    most = std::max(most, table.slots());
    ASSERT_LE(held.size(), table.used_slots());
    if (step % 100 == 0) table.Audit();
  }
  EXPECT_GT(most, 8);
}

}  // namespace
}  // namespace kvtier

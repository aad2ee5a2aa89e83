#include "tier_gpu/tables/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PoolWorker kWorker{0};
constexpr uint32_t kTokens = 4;
constexpr uint32_t kSlots = 12;

class PreemptionTest : public ::testing::Test {
 protected:
  PreemptionTest() { EXPECT_EQ(slots_.Begin(kWorker, 1), absl::OkStatus()); }
  ~PreemptionTest() override { tables_.Audit(); }
  SequenceId Sequence(int32_t priority, uint32_t blocks) {
    const SequenceId sequence = tables_.Create(kWorker, priority);
    EXPECT_EQ(tables_.Append(sequence, blocks * kTokens).status(), absl::OkStatus());
    return sequence;
  }
  std::vector<SequenceId> Victims(SequenceId beneficiary, size_t slots) {
    const auto victims = PickVictims(tables_, beneficiary, slots);
    EXPECT_EQ(victims.status(), absl::OkStatus());
    return victims.value_or(std::vector<SequenceId>{});
  }
  // Returns how many slots swapping out the victims really frees.
  size_t Freed(const std::vector<SequenceId>& victims) {
    const size_t before = slots_.free_slots();
    EXPECT_EQ(tables_.SwapOut(victims).status(), absl::OkStatus());
    EXPECT_EQ(slots_.Retire(kWorker, slots_.begun(kWorker)), absl::OkStatus());
    EXPECT_EQ(slots_.Begin(kWorker, slots_.begun(kWorker) + 1), absl::OkStatus());
    return slots_.free_slots() - before;
  }

  SlotTable slots_{{.slots = kSlots}};
  BlockTable tables_{&slots_, kTokens};
};

TEST_F(PreemptionTest, TheLowestPriorityGoesFirstThenWhoStartedLast) {
  const SequenceId high = Sequence(5, 2);
  const SequenceId low = Sequence(1, 2);
  const SequenceId older = Sequence(3, 2);
  const SequenceId younger = Sequence(3, 2);
  EXPECT_THAT(Victims(high, 1), ElementsAre(low));
  EXPECT_THAT(Victims(high, 3), ElementsAre(low, younger));
  EXPECT_THAT(Victims(high, 6), ElementsAre(low, younger, older));
}

TEST_F(PreemptionTest, NobodyGoesForOneThatIsBehindIt) {
  Sequence(5, 2);
  const SequenceId older = Sequence(3, 2);
  const SequenceId younger = Sequence(3, 2);
  const absl::Status refused = PickVictims(tables_, younger, 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the 0 sequences behind sequence 3 hold 0 slots"));
  EXPECT_THAT(Victims(older, 2), ElementsAre(younger));
}

TEST_F(PreemptionTest, WhoFreesNothingThatIsNeededStays) {
  const SequenceId first = Sequence(9, 1);
  const SequenceId large = Sequence(2, 4);
  const SequenceId small = Sequence(1, 1);
  EXPECT_THAT(Victims(first, 4), ElementsAre(large));
  EXPECT_THAT(Victims(first, 5), ElementsAre(small, large));
}

TEST_F(PreemptionTest, ASharedSlotIsGainedWithTheLastWhoHasIt) {
  const SequenceId first = Sequence(9, 1);
  const SequenceId parent = Sequence(1, 3);
  const SequenceId child = *tables_.Fork(parent);
  const std::vector<SequenceId> victims = Victims(first, 1);
  EXPECT_THAT(victims, ElementsAre(child, parent));
  EXPECT_EQ(Freed(victims), 3);
}

// The child was swapped out alone, so the blocks that it shares with its parent stayed. They leave
// only if the parent is swapped out as well.
TEST_F(PreemptionTest, WhatSequencesThatAreAwayStillShareIsGained) {
  const SequenceId first = Sequence(9, 1);
  const SequenceId parent = Sequence(1, 3);
  const SequenceId child = *tables_.Fork(parent);
  EXPECT_EQ(Freed({child}), 0);
  const std::vector<SequenceId> victims = Victims(first, 3);
  EXPECT_THAT(victims, ElementsAre(child, parent));
  EXPECT_EQ(Freed(victims), 3);
}

TEST_F(PreemptionTest, WhatTheCacheKeepsIsNotGained) {
  const SequenceId first = Sequence(9, 1);
  const SequenceId second = Sequence(1, 2);
  ASSERT_EQ(slots_.Keep(*tables_.Seal(second, 0)), absl::OkStatus());
  EXPECT_THAT(Victims(first, 1), ElementsAre(second));
  EXPECT_TRUE(absl::IsResourceExhausted(PickVictims(tables_, first, 2).status()));
}

TEST_F(PreemptionTest, ANewPriorityIsANewPlaceInLine) {
  const SequenceId first = Sequence(1, 1);
  const SequenceId second = Sequence(1, 1);
  const SequenceId third = Sequence(1, 1);
  ASSERT_EQ(tables_.SetPriority(third, 2), absl::OkStatus());
  EXPECT_THAT(Victims(third, 2), ElementsAre(second, first));
  EXPECT_TRUE(absl::IsResourceExhausted(PickVictims(tables_, second, 1).status()));
  Freed({first, second});
  EXPECT_EQ(PickSwapIn(tables_), first);
  ASSERT_EQ(tables_.SetPriority(second, 3), absl::OkStatus()) << "also while it is swapped out";
  EXPECT_EQ(PickSwapIn(tables_), second);
  EXPECT_TRUE(absl::IsNotFound(tables_.SetPriority(SequenceId{77}, 1)));
}

TEST_F(PreemptionTest, AnUnknownBeneficiaryIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(PickVictims(tables_, SequenceId{77}, 1).status()));
}

TEST_F(PreemptionTest, TheFirstInLineReturnsFirst) {
  EXPECT_EQ(PickSwapIn(tables_), std::nullopt);
  const SequenceId low = Sequence(1, 1);
  const SequenceId older = Sequence(3, 1);
  const SequenceId younger = Sequence(3, 1);
  Sequence(9, 1);  // This sequence is not swapped out.
  Freed({low, younger, older});
  for (const SequenceId next : {older, younger, low}) {
    EXPECT_EQ(PickSwapIn(tables_), next);
    ASSERT_EQ(tables_.SwapIn(next).status(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace kvtier

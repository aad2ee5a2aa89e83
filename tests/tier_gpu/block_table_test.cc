#include "tier_gpu/tables/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr PoolWorker kA{0};
constexpr PoolWorker kB{1};
constexpr uint32_t kTokens = 4;  // Number of tokens in a block.
constexpr uint32_t kSlots = 6;
constexpr SequenceId kNobody{77};

class BlockTableTest : public ::testing::Test {
 protected:
  BlockTableTest() {
    EXPECT_EQ(slots_.Begin(kA, 1), absl::OkStatus());
    EXPECT_EQ(slots_.Begin(kB, 1), absl::OkStatus());
  }
  ~BlockTableTest() override { tables_.Audit(); }

  SequenceId Sequence(uint32_t tokens, PoolWorker worker = kA) {
    const SequenceId sequence = tables_.Create(worker, 0);
    if (tokens == 0) return sequence;
    EXPECT_EQ(tables_.Append(sequence, tokens).status(), absl::OkStatus());
    return sequence;
  }
  std::vector<uint32_t> Slots(SequenceId sequence) {
    const auto slots = tables_.slots(sequence);
    EXPECT_EQ(slots.status(), absl::OkStatus());
    return {slots->begin(), slots->end()};
  }
  // Retires all steps and begins the next ones.
  void Step() {
    for (const PoolWorker worker : {kA, kB}) {
      EXPECT_EQ(slots_.Retire(worker, slots_.begun(worker)), absl::OkStatus());
      EXPECT_EQ(slots_.Begin(worker, slots_.begun(worker) + 1), absl::OkStatus());
    }
  }

  SlotTable slots_{{.slots = kSlots, .workers = 2}};
  BlockTable tables_{&slots_, kTokens};
};

TEST_F(BlockTableTest, BlocksAreAllocatedAsTokensCome) {
  const SequenceId sequence = Sequence(0);
  EXPECT_THAT(Slots(sequence), IsEmpty());
  uint64_t position = 0;
  for (const uint32_t tokens : {1, 3, 1, 8}) {
    const absl::StatusOr<Appended> appended = tables_.Append(sequence, tokens);
    ASSERT_EQ(appended.status(), absl::OkStatus());
    EXPECT_EQ(appended->position, position);
    EXPECT_EQ(appended->copy, std::nullopt);
    position += tokens;
    EXPECT_EQ(Slots(sequence).size(), (position + kTokens - 1) / kTokens);
  }
  EXPECT_EQ(tables_.Facts(sequence)->tokens, 13);
  EXPECT_EQ(slots_.used_slots(), 4);
}

TEST_F(BlockTableTest, AppendTakesAllItNeedsOrNothing) {
  const SequenceId sequence = Sequence(4 * kTokens);
  const absl::Status refused = tables_.Append(sequence, 2 * kTokens + 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("sequence 1 needs 3 slots for 9 tokens; 2 of 6 are free"));
  EXPECT_EQ(tables_.Facts(sequence)->tokens, 4 * kTokens);
  EXPECT_EQ(slots_.used_slots(), 4);
  EXPECT_EQ(tables_.Append(sequence, 2 * kTokens).status(), absl::OkStatus());
}

TEST_F(BlockTableTest, NoTokensAreNoAppend) {
  EXPECT_TRUE(absl::IsInvalidArgument(tables_.Append(Sequence(1), 0).status()));
}

TEST_F(BlockTableTest, AForkSharesEveryBlock) {
  const SequenceId parent = Sequence(kTokens + 1);
  const absl::StatusOr<SequenceId> child = tables_.Fork(parent);
  ASSERT_EQ(child.status(), absl::OkStatus());
  EXPECT_EQ(Slots(*child), Slots(parent));
  EXPECT_EQ(slots_.used_slots(), 2);
  EXPECT_EQ(slots_.holds(0), 2);
  ASSERT_EQ(tables_.Free(parent), absl::OkStatus());
  EXPECT_EQ(slots_.holds(0), 1);
  EXPECT_EQ(tables_.Facts(*child)->tokens, kTokens + 1);
}

TEST_F(BlockTableTest, ASharedLastBlockIsCopiedBeforeItIsWritten) {
  const SequenceId parent = Sequence(kTokens + 3);
  const SequenceId child = *tables_.Fork(parent);
  const absl::StatusOr<Appended> appended = tables_.Append(child, 2);
  ASSERT_EQ(appended.status(), absl::OkStatus());
  EXPECT_EQ(appended->copy, (BlockCopy{.from = 1, .to = 2, .tokens = 3}));
  EXPECT_THAT(Slots(parent), ElementsAre(0, 1));
  EXPECT_THAT(Slots(child), ElementsAre(0, 2, 3));
  // The parent is now the only owner of its last block.
  EXPECT_EQ(tables_.Append(parent, 1)->copy, std::nullopt);
}

TEST_F(BlockTableTest, AFullSharedBlockIsNeverCopied) {
  const SequenceId parent = Sequence(kTokens);
  const SequenceId child = *tables_.Fork(parent);
  EXPECT_EQ(tables_.Append(child, 1)->copy, std::nullopt);
  EXPECT_THAT(Slots(child), ElementsAre(0, 1));
}

// Without a step in flight, nothing would keep the source from being reused.
TEST_F(BlockTableTest, ACopyNeedsAStepThatDoesIt) {
  const SequenceId parent = Sequence(1);
  const SequenceId child = *tables_.Fork(parent);
  ASSERT_EQ(slots_.Retire(kA, 1), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Append(child, 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.SwapOut({{child}}).status()));
  EXPECT_FALSE(tables_.Facts(child)->swapped_out);
  EXPECT_EQ(Slots(child), Slots(parent));
  ASSERT_EQ(slots_.Begin(kA, 2), absl::OkStatus());
  EXPECT_EQ(tables_.Append(child, 1).status(), absl::OkStatus());
}

TEST_F(BlockTableTest, TruncateGivesBackWholeBlocksOnly) {
  const SequenceId sequence = Sequence(3 * kTokens);
  ASSERT_EQ(tables_.Truncate(sequence, kTokens + 1), absl::OkStatus());
  EXPECT_THAT(Slots(sequence), ElementsAre(0, 1));
  EXPECT_EQ(slots_.draining_slots(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(tables_.Truncate(sequence, kTokens + 2)));
  ASSERT_EQ(tables_.Truncate(sequence, 0), absl::OkStatus());
  EXPECT_THAT(Slots(sequence), IsEmpty());
}

TEST_F(BlockTableTest, ASealedBlockThatWasTruncatedIsCopiedBeforeItIsWritten) {
  const SequenceId sequence = Sequence(kTokens);
  ASSERT_EQ(tables_.Seal(sequence, 0).status(), absl::OkStatus());
  ASSERT_EQ(tables_.Truncate(sequence, 2), absl::OkStatus());
  EXPECT_EQ(tables_.Append(sequence, 1)->copy, (BlockCopy{.from = 0, .to = 1, .tokens = 2}));
}

TEST_F(BlockTableTest, OnlyAFullBlockIsSealed) {
  const SequenceId sequence = Sequence(kTokens + 1);
  EXPECT_EQ(*tables_.Seal(sequence, 0), slots_.Ref(0));
  EXPECT_TRUE(slots_.sealed(0));
  const absl::Status partial = tables_.Seal(sequence, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(partial));
  EXPECT_EQ(partial.message(),
            "block 1 of sequence 1 has 1 of 4 tokens; must be full to be sealed");
  EXPECT_TRUE(absl::IsInvalidArgument(tables_.Seal(sequence, 2).status()));
}

TEST_F(BlockTableTest, CachedBlocksAreAdoptedAsAPrefix) {
  const SequenceId first = Sequence(2 * kTokens);
  const std::vector<SlotRef> prefix = {*tables_.Seal(first, 0), *tables_.Seal(first, 1)};
  for (const SlotRef& slot : prefix) ASSERT_EQ(slots_.Keep(slot), absl::OkStatus());
  ASSERT_EQ(tables_.Free(first), absl::OkStatus());
  const SequenceId second = Sequence(0, kB);
  ASSERT_EQ(tables_.Adopt(second, prefix), absl::OkStatus());
  EXPECT_EQ(tables_.Facts(second)->tokens, 2 * kTokens);
  EXPECT_EQ(tables_.Append(second, 1)->position, 2 * kTokens);
  EXPECT_THAT(Slots(second), ElementsAre(0, 1, 2));
  EXPECT_EQ(slots_.holds(0), 2);
  // The sequence is not empty.
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Adopt(second, prefix)));
}

TEST_F(BlockTableTest, AStaleOrUnsealedBlockIsNotAdoptedAndNothingIsHeld) {
  const SequenceId first = Sequence(2 * kTokens);
  const SlotRef sealed = *tables_.Seal(first, 0);
  const SlotRef filling = slots_.Ref(1);
  const SequenceId second = Sequence(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Adopt(second, {{sealed, filling}})));
  ASSERT_EQ(tables_.Truncate(first, kTokens), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(tables_.Adopt(second, {{sealed, filling}})));
  EXPECT_EQ(slots_.holds(0), 1);
  EXPECT_THAT(Slots(second), IsEmpty());
}

TEST_F(BlockTableTest, AFreedSequenceIsUnknownEvenWhenItsPlaceIsTakenAgain) {
  const SequenceId freed = Sequence(1);
  ASSERT_EQ(tables_.Free(freed), absl::OkStatus());
  Sequence(1);
  for (const SequenceId unknown : {freed, kNobody}) {
    EXPECT_TRUE(absl::IsNotFound(tables_.Append(unknown, 1).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.Adopt(unknown, {})));
    EXPECT_TRUE(absl::IsNotFound(tables_.Fork(unknown).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.Truncate(unknown, 0)));
    EXPECT_TRUE(absl::IsNotFound(tables_.Free(unknown)));
    EXPECT_TRUE(absl::IsNotFound(tables_.Seal(unknown, 0).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.SwapOut({{unknown}}).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.SwapIn(unknown).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.slots(unknown).status()));
    EXPECT_TRUE(absl::IsNotFound(tables_.Facts(unknown).status()));
  }
  EXPECT_EQ(tables_.Facts(freed).status().message(), "there is no sequence 1; it was freed");
}

TEST_F(BlockTableTest, ASequenceGoesAndComesBackWhole) {
  const SequenceId sequence = Sequence(kTokens + 2);
  const auto out = tables_.SwapOut({{sequence}});
  ASSERT_EQ(out.status(), absl::OkStatus());
  EXPECT_THAT(*out, ElementsAre(SwapCopy{sequence, 0, 0, kTokens}, SwapCopy{sequence, 1, 1, 2}));
  EXPECT_THAT(Slots(sequence), ElementsAre(kNoSlot, kNoSlot));
  EXPECT_EQ(slots_.free_slots(), kSlots - 2);  // The copies read the other two in this step.
  Step();
  EXPECT_EQ(slots_.free_slots(), kSlots);
  const auto in = tables_.SwapIn(sequence);
  ASSERT_EQ(in.status(), absl::OkStatus());
  ASSERT_EQ(in->size(), 2);
  EXPECT_EQ((*in)[1].tokens, 2);
  EXPECT_EQ((*in)[1].slot, Slots(sequence)[1]);
  EXPECT_EQ(tables_.Append(sequence, 1)->position, kTokens + 2);
}

TEST_F(BlockTableTest, WhatIsSwappedOutIsNotTouched) {
  const SequenceId sequence = Sequence(kTokens);
  ASSERT_EQ(tables_.SwapOut({{sequence}}).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Append(sequence, 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Fork(sequence).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Truncate(sequence, 0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Seal(sequence, 0).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Adopt(sequence, {})));
  ASSERT_EQ(tables_.Free(sequence), absl::OkStatus());
  EXPECT_EQ(tables_.sequences(), 0);
}

TEST_F(BlockTableTest, WhatOthersOrTheCacheHaveStaysWhenASequenceGoes) {
  const SequenceId parent = Sequence(2 * kTokens + 1);
  ASSERT_EQ(slots_.Keep(*tables_.Seal(parent, 1)), absl::OkStatus());
  const SequenceId child = *tables_.Fork(parent);
  ASSERT_EQ(tables_.Truncate(child, kTokens), absl::OkStatus());
  // The child also holds block 0, and the cache keeps block 1.
  EXPECT_THAT(*tables_.SwapOut({{parent}}), ElementsAre(SwapCopy{parent, 2, 2, 1}));
  EXPECT_THAT(Slots(parent), ElementsAre(0, 1, kNoSlot));
  EXPECT_EQ(tables_.Facts(parent)->blocks_out, 1);
  // After this only the parent holds block 0, so it may be swapped out, too.
  ASSERT_EQ(tables_.Free(child), absl::OkStatus());
  EXPECT_THAT(*tables_.SwapOut({{parent}}), ElementsAre(SwapCopy{parent, 0, 0, kTokens}));
  EXPECT_THAT(Slots(parent), ElementsAre(kNoSlot, 1, kNoSlot));
}

TEST_F(BlockTableTest, WhatSequencesShareAmongThemselvesGoesWithThem) {
  const SequenceId parent = Sequence(kTokens);
  const SequenceId child = *tables_.Fork(parent);
  EXPECT_THAT(*tables_.SwapOut({{parent, child}}),
              ElementsAre(SwapCopy{parent, 0, 0, kTokens}, SwapCopy{child, 0, 0, kTokens}));
  Step();
  EXPECT_EQ(slots_.free_slots(), kSlots);
}

TEST_F(BlockTableTest, ASequenceComesBackWithAllItsBlocksOrNotAtAll) {
  const SequenceId sequence = Sequence(3 * kTokens);
  // The sequence is not swapped out.
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.SwapIn(sequence).status()));
  ASSERT_EQ(tables_.SwapOut({{sequence}}).status(), absl::OkStatus());
  Step();
  const SequenceId other = Sequence(4 * kTokens);
  const absl::Status refused = tables_.SwapIn(sequence).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("needs 3 slots to come back; 2 of 6"));
  EXPECT_TRUE(tables_.Facts(sequence)->swapped_out);
  EXPECT_EQ(slots_.free_slots(), 2);
  ASSERT_EQ(tables_.Free(other), absl::OkStatus());
  Step();
  EXPECT_EQ(tables_.SwapIn(sequence).status(), absl::OkStatus());
}

TEST_F(BlockTableTest, ACrashTakesTheWorkersSequencesAndLeavesTheCache) {
  const SequenceId dead = Sequence(2 * kTokens);
  const SequenceId swapped_out = Sequence(kTokens);
  const SlotRef kept = *tables_.Seal(dead, 0);
  ASSERT_EQ(slots_.Keep(kept), absl::OkStatus());
  const SequenceId alive = Sequence(0, kB);
  ASSERT_EQ(tables_.Adopt(alive, {{kept}}), absl::OkStatus());
  ASSERT_EQ(tables_.SwapOut({{swapped_out}}).status(), absl::OkStatus());
  EXPECT_EQ(tables_.Crash(kA), 2);
  EXPECT_TRUE(absl::IsNotFound(tables_.Facts(dead).status()));
  EXPECT_TRUE(absl::IsNotFound(tables_.Facts(swapped_out).status()));
  EXPECT_THAT(Slots(alive), ElementsAre(kept.index));
  EXPECT_EQ(slots_.free_slots(), kSlots - 1);
}

TEST_F(BlockTableTest, FragmentationIsTheRoomThatNoTokenUses) {
  const SequenceId parent = Sequence(kTokens + 1);
  EXPECT_EQ(tables_.Measure().room, 2 * kTokens);
  EXPECT_EQ(tables_.Measure().unused, 3);
  // A fork shares the blocks, so neither figure rises.
  ASSERT_EQ(tables_.Fork(parent).status(), absl::OkStatus());
  EXPECT_EQ(tables_.Measure().room, 2 * kTokens);
  EXPECT_EQ(tables_.Measure().unused, 3);
  ASSERT_EQ(tables_.Append(parent, 2).status(), absl::OkStatus());
  EXPECT_EQ(tables_.Measure().room, 3 * kTokens);
  EXPECT_EQ(tables_.Measure().unused, 3 + 1);
}

}  // namespace
}  // namespace kvtier

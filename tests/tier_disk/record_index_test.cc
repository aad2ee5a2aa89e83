// Tests RecordIndex: contracts, random operations against a plain model, and its memory.
#include "tier_disk/log/record_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/testing/numbered_key.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr uint64_t kLength = 4096;

DiskBlock Block(uint64_t number, std::optional<uint64_t> parent = {}) {
  DiskBlock block{.key = NumberedKey(number), .length = kLength};
  if (parent) block.parent = NumberedKey(*parent);
  return block;
}

RecordPlace Place(uint32_t segment, uint64_t number, uint64_t generation = 1) {
  return {.segment = SegmentId{segment},
          .generation = generation,
          .offset = number * RecordBytes(kLength)};
}

class RecordIndexTest : public ::testing::Test {
 protected:
  ~RecordIndexTest() override { index_.Audit(); }
  RecordIndex index_{4};
};

TEST_F(RecordIndexTest, ABlockComesBackWithEveryField) {
  DiskBlock block = Block(1, 2);
  block.space.bytes.fill(7);
  block.length = 123456;
  index_.Insert(block, Place(3, 5, 9));
  const std::optional<DiskEntry> entry = index_.Find(NumberedKey(1));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(*entry, (DiskEntry{.block = block, .place = Place(3, 5, 9)}));
  EXPECT_TRUE(index_.IsAt(NumberedKey(1), Place(3, 5, 9)));
  EXPECT_FALSE(index_.IsAt(NumberedKey(1), Place(3, 5, 8)));
  EXPECT_FALSE(index_.IsAt(NumberedKey(1), Place(3, 4, 9)));
  EXPECT_FALSE(index_.IsAt(NumberedKey(1), Place(2, 5, 9)));
  EXPECT_EQ(index_.used_bytes(), RecordBytes(123456));
}

TEST_F(RecordIndexTest, WhatEachOwnerHasIsCountedInAllAndBySegment) {
  const auto put = [&](uint64_t number, TenantTag owner, uint32_t segment) {
    DiskBlock block = Block(number);
    block.owner = owner;
    index_.Insert(block, Place(segment, number));
  };
  const uint64_t bytes = RecordBytes(kLength);
  put(1, TenantTag{7}, 0);
  put(2, TenantTag{5}, 0);
  put(3, TenantTag{7}, 1);
  EXPECT_EQ(index_.Owners(),
            (std::vector<OwnedBytes>{{TenantTag{5}, bytes}, {TenantTag{7}, 2 * bytes}}));
  EXPECT_EQ(index_.OwnersIn(SegmentId{0}).size(), 2U);
  index_.Move(NumberedKey(1), Place(1, 4));
  EXPECT_EQ(index_.BytesOf(TenantTag{7}), 2 * bytes);
  ASSERT_EQ(index_.OwnersIn(SegmentId{0}).size(), 1U);
  EXPECT_EQ(index_.OwnersIn(SegmentId{0})[0], (OwnedBytes{TenantTag{5}, bytes}));
  EXPECT_EQ(index_.OwnersIn(SegmentId{1})[0], (OwnedBytes{TenantTag{7}, 2 * bytes}));
  index_.Erase(NumberedKey(2));
  EXPECT_EQ(index_.BytesOf(TenantTag{5}), 0U);
  EXPECT_EQ(index_.Owners().size(), 1U);
}

TEST_F(RecordIndexTest, AParentThatIsNotHereIsNoBlockYetHasItsChildren) {
  index_.Insert(Block(1, 2), Place(0, 0));
  index_.Insert(Block(3, 2), Place(0, 1));
  EXPECT_FALSE(index_.Contains(NumberedKey(2)));
  EXPECT_EQ(index_.Find(NumberedKey(2)), std::nullopt);
  EXPECT_EQ(index_.size(), 2);
  EXPECT_EQ(index_.ChildrenOf(NumberedKey(2)).size(), 2);
  EXPECT_EQ(index_.ParentOf(NumberedKey(1)), NumberedKey(2));
}

TEST_F(RecordIndexTest, AParentMayComeAfterItsChildAndGoBeforeIt) {
  index_.Insert(Block(1, 2), Place(0, 0));
  index_.Insert(Block(2), Place(0, 1));
  EXPECT_EQ(index_.ChildrenOf(NumberedKey(2)), std::vector<BlockKey>{NumberedKey(1)});
  index_.Erase(NumberedKey(2));
  EXPECT_EQ(index_.ParentOf(NumberedKey(1)), NumberedKey(2));
  index_.Audit();
  index_.Erase(NumberedKey(1));
  EXPECT_EQ(index_.size(), 0);
}

// An engine may report a wrong chain.
TEST_F(RecordIndexTest, CyclesAndABlockThatIsItsOwnParentDoNoHarm) {
  index_.Insert(Block(1, 1), Place(0, 0));
  EXPECT_EQ(index_.ParentOf(NumberedKey(1)), std::nullopt);
  index_.Insert(Block(2, 3), Place(0, 1));
  index_.Insert(Block(3, 2), Place(0, 2));
  index_.Audit();
  index_.Erase(NumberedKey(2));
  index_.Audit();
  index_.Erase(NumberedKey(3));
  index_.Erase(NumberedKey(1));
  EXPECT_EQ(index_.size(), 0);
}

TEST_F(RecordIndexTest, RecordsOfASegmentComeInTheOrderOfTheirOffsets) {
  for (const uint64_t number : {4, 2, 7, 1}) index_.Insert(Block(number), Place(1, number));
  index_.Erase(NumberedKey(2));
  index_.Move(NumberedKey(7), Place(2, 0));
  EXPECT_EQ(index_.InSegment(SegmentId{1}),
            (std::vector<BlockKey>{NumberedKey(1), NumberedKey(4)}));
  EXPECT_EQ(index_.live_bytes(SegmentId{1}), 2 * RecordBytes(kLength));
  EXPECT_EQ(index_.Keys(), (std::vector<BlockKey>{NumberedKey(1), NumberedKey(4), NumberedKey(7)}));
}

TEST_F(RecordIndexTest, AnEmptiedSegmentTakesRecordsOfALaterGeneration) {
  index_.Insert(Block(1), Place(0, 0, 5));
  index_.Erase(NumberedKey(1));
  index_.Insert(Block(2), Place(0, 0, 6));
  EXPECT_EQ(index_.Find(NumberedKey(2))->place.generation, 6);
}

// The index has four segments, so each segment is an epoch.
TEST_F(RecordIndexTest, ATouchInALaterEpochWarmsABlockAndItsAncestors) {
  index_.Insert(Block(1), Place(0, 0));
  index_.Insert(Block(2, 1), Place(0, 1));
  index_.Insert(Block(9), Place(0, 2));
  EXPECT_EQ(index_.Touch(NumberedKey(2)), std::nullopt);
  EXPECT_FALSE(index_.IsWarm(NumberedKey(2))) << "it is still the epoch of its insertion";
  index_.Insert(Block(8), Place(1, 0));
  EXPECT_EQ(index_.Touch(NumberedKey(2)), std::nullopt);
  EXPECT_TRUE(index_.IsWarm(NumberedKey(2)));
  EXPECT_TRUE(index_.IsWarm(NumberedKey(1)));
  EXPECT_FALSE(index_.IsWarm(NumberedKey(9)));
}

TEST_F(RecordIndexTest, AChildThatComesTouchesItsAncestors) {
  index_.Insert(Block(1), Place(0, 0));
  index_.Insert(Block(2, 1), Place(0, 1));
  index_.Insert(Block(3, 2), Place(1, 0));
  EXPECT_TRUE(index_.IsWarm(NumberedKey(1)));
  EXPECT_TRUE(index_.IsWarm(NumberedKey(2)));
  EXPECT_FALSE(index_.IsWarm(NumberedKey(3)));
}

TEST_F(RecordIndexTest, MovingABlockCoolsIt) {
  index_.Insert(Block(1), Place(0, 0));
  index_.Insert(Block(2, 1), Place(1, 0));
  ASSERT_TRUE(index_.IsWarm(NumberedKey(1)));
  index_.Move(NumberedKey(1), Place(2, 0));
  EXPECT_FALSE(index_.IsWarm(NumberedKey(1)));
}

TEST_F(RecordIndexTest, ATouchTellsWhereThePrefixGoesOnElsewhere) {
  index_.Insert(Block(1, 7), Place(0, 0));
  index_.Insert(Block(2, 1), Place(0, 1));
  index_.Insert(Block(8), Place(1, 0));
  EXPECT_EQ(index_.Touch(NumberedKey(2)), NumberedKey(7));
  EXPECT_EQ(index_.Touch(NumberedKey(2)), std::nullopt);  // The block is known by now.
  EXPECT_EQ(index_.Touch(NumberedKey(99)), NumberedKey(99));
}

// Runs random operations; the model is a map from number to place, with parents by rule.
TEST(RecordIndexModelTest, AgreesWithAModel) {
  constexpr uint64_t kNumbers = 60;
  std::mt19937_64 random(testing::TestSeed());
  RecordIndex index(4);
  std::map<uint64_t, RecordPlace> model;
  std::vector<uint64_t> tails(4, 0);
  const auto next_place = [&] {
    const auto segment = static_cast<uint32_t>(random() % 4);
    return Place(segment, tails[segment]++);
  };
  for (int step = 0; step < 20000; ++step) {
    const uint64_t number = 1 + random() % kNumbers;
    const bool here = model.contains(number);
    const uint64_t roll = random() % 4;
    if (!here && roll < 2) {
      model[number] = next_place();
      index.Insert(Block(number, number / 2), model[number]);
    } else if (here && roll == 2) {
      model.erase(number);
      index.Erase(NumberedKey(number));
    } else if (here && roll == 3) {
      model[number] = next_place();
      index.Move(NumberedKey(number), model[number]);
    }
    ASSERT_EQ(index.size(), model.size());
    ASSERT_EQ(index.Contains(NumberedKey(number)), model.contains(number)) << "step " << step;
    ASSERT_TRUE(!model.contains(number) || index.IsAt(NumberedKey(number), model[number]));
    std::set<BlockKey> children;
    for (const auto& [other, place] : model) {
      if (other / 2 == number && other != number) children.insert(NumberedKey(other));
    }
    const std::vector<BlockKey> found = index.ChildrenOf(NumberedKey(number));
    ASSERT_EQ(std::set<BlockKey>(found.begin(), found.end()), children) << "step " << step;
    ASSERT_EQ(found.size(), children.size());
    ASSERT_EQ(index.HasChildOf(NumberedKey(number)), !children.empty()) << "step " << step;
    if (step % 200 == 0) index.Audit();
  }
}

// Tests the bound that the header states, with chains as agents really have them.
TEST(RecordIndexMemoryTest, AMillionBlocksTakeAtMost64BytesEach) {
  if (testing::kSanitized) GTEST_SKIP() << "a million blocks take half a minute under a sanitizer";
  constexpr uint64_t kBlocks = 1'000'000;
  constexpr uint64_t kPerSegment = 20'000;
  constexpr uint64_t kChain = 100;
  RecordIndex index(kBlocks / kPerSegment);
  for (uint64_t i = 0; i < kBlocks; ++i) {
    std::optional<uint64_t> parent;
    if (i % kChain != 0) parent = i - 1;
    index.Insert(Block(i, parent), Place(static_cast<uint32_t>(i / kPerSegment), i % kPerSegment));
  }
  std::printf("%.1f bytes a block\n", static_cast<double>(index.memory_bytes()) / kBlocks);
  EXPECT_LE(index.memory_bytes(), 64 * kBlocks);
}

}  // namespace
}  // namespace kvtier

#include "tier_disk/log/reclaim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/testing/numbered_key.h"
#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr uint32_t kSegments = 4;
constexpr SegmentId kVictim{0};
constexpr SegmentId kOther{1};
constexpr uint64_t kLength = 4096;
constexpr uint64_t kBudget = uint64_t{1} << 30;

// Fixture with numbered blocks, laid out one after another in their segments.
class ReclaimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    index_.emplace(kSegments);
    order_.emplace(EvictionPolicy::kLru, kSegments, &*index_);
    std::fill(std::begin(tails_), std::end(tails_), 0);
  }
  ReclaimPlan Plan(uint64_t budget_bytes, const Allowances* allowances = nullptr) const {
    return PlanReclaim(*index_, *order_,
                       {.victim = kVictim, .budget_bytes = budget_bytes, .allowances = allowances});
  }
  std::optional<SegmentId> Victim(const SegmentLog& log) const {
    const RoomShares shares(3 * log.segment_bytes(), log.segment_bytes());
    const auto choice = ChooseVictim(
        {.log = &log, .index = &*index_, .order = &*order_, .shares = &shares}, kBudget);
    return choice ? std::optional(choice->victim) : std::nullopt;
  }
  void Add(uint64_t number, SegmentId segment, std::optional<uint64_t> parent = {}) {
    DiskBlock block{.key = NumberedKey(number), .length = kLength};
    if (parent) block.parent = NumberedKey(*parent);
    uint64_t& tail = tails_[static_cast<size_t>(segment)];
    index_->Insert(block, {.segment = segment, .generation = 1, .offset = tail});
    tail += RecordBytes(kLength);
  }
  static std::vector<BlockKey> Keys(std::vector<uint64_t> numbers) {
    std::vector<BlockKey> keys;
    for (const uint64_t number : numbers) keys.push_back(NumberedKey(number));
    return keys;
  }

  std::optional<RecordIndex> index_;
  std::optional<ReclaimOrder> order_;
  uint64_t tails_[kSegments] = {};
};

TEST_F(ReclaimTest, BlocksWithNobodyBelowAreDropped) {
  Add(1, kVictim);
  Add(2, kVictim);
  const ReclaimPlan plan = Plan(kBudget);
  EXPECT_TRUE(plan.reappend.empty());
  EXPECT_EQ(plan.drop, Keys({1, 2}));
}

TEST_F(ReclaimTest, AncestorsOfBlocksElsewhereAreReappendedParentsFirst) {
  Add(1, kVictim);
  Add(2, kVictim, 1);
  Add(3, kOther, 2);
  Add(4, kVictim, 1);
  const ReclaimPlan plan = Plan(kBudget);
  EXPECT_EQ(plan.reappend, Keys({1, 2}));
  EXPECT_EQ(plan.drop, Keys({4}));
}

// A chain that nobody uses any more does not keep its head for ever.
TEST_F(ReclaimTest, AncestorsThatWereNotTouchedSinceTheirAppendGoWithAllBelow) {
  Add(1, kVictim);
  Add(2, kVictim, 1);
  Add(3, kVictim, 2);
  index_->Move(NumberedKey(3), {.segment = kOther, .generation = 1, .offset = 0});
  const ReclaimPlan plan = Plan(kBudget);
  EXPECT_TRUE(plan.reappend.empty());
  EXPECT_EQ(plan.drop, Keys({3, 2, 1}));
}

TEST_F(ReclaimTest, ATouchedLeafIsReappendedWithItsAncestors) {
  Add(1, kVictim);
  Add(2, kVictim, 1);
  Add(3, kVictim);
  Add(4, kOther);  // Begins a later epoch.
  index_->Touch(NumberedKey(2));
  const ReclaimPlan plan = Plan(kBudget);
  EXPECT_EQ(plan.reappend, Keys({1, 2}));
  EXPECT_EQ(plan.drop, Keys({3}));
}

TEST_F(ReclaimTest, AChainInsideTheVictimGoesFromItsEnd) {
  Add(1, kVictim);
  Add(2, kVictim, 1);
  Add(3, kVictim, 2);
  EXPECT_EQ(Plan(kBudget).drop, Keys({3, 2, 1}));
}

TEST_F(ReclaimTest, WithoutBudgetDescendantsElsewhereGoTooAndFirst) {
  Add(1, kVictim);
  Add(2, kOther, 1);
  Add(3, kOther, 2);
  Add(9, kOther);
  const ReclaimPlan plan = Plan(0);
  EXPECT_TRUE(plan.reappend.empty());
  EXPECT_EQ(plan.drop, Keys({3, 2, 1}));
}

TEST_F(ReclaimTest, BudgetBoundsWhatIsReappended) {
  for (uint64_t i = 0; i < 4; ++i) {
    Add(10 + i, kVictim);
    Add(20 + i, kOther, 10 + i);
  }
  const ReclaimPlan plan = Plan(2 * RecordBytes(kLength));
  EXPECT_EQ(plan.reappend, Keys({10, 11}));
  EXPECT_EQ(plan.drop, Keys({22, 12, 23, 13}));
}

// The budget has room for one record, but block 3 cannot stay without its ancestor 1. So block 1 is
// dropped, and all its descendants with it.
TEST_F(ReclaimTest, NothingIsKeptBelowADroppedBlock) {
  Add(3, kVictim, 2);
  Add(1, kVictim);
  Add(2, kOther, 1);
  Add(4, kOther, 3);
  const ReclaimPlan plan = Plan(RecordBytes(kLength));
  EXPECT_TRUE(plan.reappend.empty());
  EXPECT_EQ(plan.drop, Keys({4, 3, 2, 1}));
}

// The budget goes to the worthiest blocks and to the ancestors that they need, such as block 3,
// which is worth something only as the parent of 4.
TEST_F(ReclaimTest, TheBudgetGoesToTheHighestPriorityFirst) {
  order_.emplace(EvictionPolicy::kPriority, kSegments, &*index_);
  for (const uint64_t number : {1, 2, 3}) Add(number, kVictim);
  Add(4, kVictim, 3);
  Add(9, kOther);  // Begins a later epoch.
  for (const uint64_t number : {1, 2, 4}) {
    index_->Touch(NumberedKey(number));
    order_->NoteUse(NumberedKey(number), {.priority = static_cast<uint8_t>(10 * number)});
  }
  const ReclaimPlan plan = Plan(3 * RecordBytes(kLength));
  EXPECT_EQ(plan.reappend, Keys({3, 4, 2}));
  EXPECT_EQ(plan.drop, Keys({1}));
}

// Tests the law itself on random forests: in the order of the plan, no block is dropped while a
// child of it is on the disk.
TEST_F(ReclaimTest, NoPlanDropsAParentBeforeItsChild) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SetUp();
    for (uint64_t i = 1; i <= 60; ++i) {
      std::optional<uint64_t> parent;
      if (random() % 5 != 0) parent = 1 + random() % 60;
      if (parent >= i) parent.reset();
      Add(i, SegmentId{static_cast<uint32_t>(random() % 4)}, parent);
    }
    const ReclaimPlan plan = Plan(random() % 20 * RecordBytes(kLength));
    for (const BlockKey& key : plan.drop) {
      ASSERT_TRUE(index_->ChildrenOf(key).empty());
      index_->Erase(key);
    }
    for (const BlockKey& key : index_->InSegment(kVictim)) {
      ASSERT_EQ(std::count(plan.reappend.begin(), plan.reappend.end(), key), 1);
    }
    ASSERT_EQ(index_->InSegment(kVictim).size(), plan.reappend.size());
    index_->Audit();
  }
}

TEST_F(ReclaimTest, VictimIsAnEmptySegmentElseTheOldest) {
  std::vector<SegmentLog::Found> found(4);
  for (uint64_t i = 0; i < 3; ++i) found[i] = {.generation = 10 + i, .holds_records = true};
  const SegmentLog log(found, uint64_t{1} << 20);
  Add(1, SegmentId{0});
  Add(2, SegmentId{1});
  Add(3, SegmentId{2});
  EXPECT_EQ(Victim(log), SegmentId{0});
  index_->Erase(NumberedKey(2));
  EXPECT_EQ(Victim(log), SegmentId{1});
}

TEST_F(ReclaimTest, WithoutAReserveTheVictimIsTheEmptiest) {
  std::vector<SegmentLog::Found> found(3);
  for (uint64_t i = 0; i < 3; ++i) found[i] = {.generation = 10 + i, .holds_records = true};
  const SegmentLog log(found, uint64_t{1} << 20);
  for (uint64_t i = 1; i <= 3; ++i) Add(i, SegmentId{0});
  for (uint64_t i = 4; i <= 5; ++i) Add(i, SegmentId{1});
  for (uint64_t i = 6; i <= 9; ++i) Add(i, SegmentId{2});
  EXPECT_EQ(Victim(log), SegmentId{1});
}

// Everything that the two tenants have is within their fair shares, and there is nowhere to copy
// it.
TEST_F(ReclaimTest, WithoutAReserveTheSegmentOfWhichTheLeastMustStayIsForced) {
  std::vector<SegmentLog::Found> found(3);
  for (uint64_t i = 0; i < 3; ++i) found[i] = {.generation = 10 + i, .holds_records = true};
  const SegmentLog log(found, uint64_t{1} << 20);
  RoomShares shares(2 * log.segment_bytes(), log.segment_bytes());
  constexpr uint32_t kSegmentOf[] = {0, 0, 0, 1, 1, 2, 2, 2, 2};
  for (uint64_t i = 0; i < std::size(kSegmentOf); ++i) {
    const TenantTag owner{1 + i % 2};
    shares.NoteOwner(owner);
    index_->Insert(
        {.key = NumberedKey(i), .length = kLength, .owner = owner},
        {.segment = SegmentId{kSegmentOf[i]}, .generation = 1, .offset = i * RecordBytes(kLength)});
  }
  const auto choice =
      ChooseVictim({.log = &log, .index = &*index_, .order = &*order_, .shares = &shares}, kBudget);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->victim, SegmentId{1});
  EXPECT_TRUE(choice->is_forced);
}

}  // namespace
}  // namespace kvtier

#include "tier_disk/log/reclaim_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/testing/numbered_key.h"
#include "tests/tier_disk/disk_blocks.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr uint32_t kSegments = 4;
constexpr SegmentId kVictim{0};
constexpr SegmentId kOther{1};
constexpr uint64_t kLength = 4096;
constexpr absl::Duration kPause = absl::Minutes(1);

class ReclaimOrderTest : public ::testing::Test {
 protected:
  void Use(EvictionPolicy policy) {
    order_.emplace(policy, kSegments, &index_);
    order_->AdvanceTo(now_);
  }
  void Wait(absl::Duration duration) {
    now_ += duration;
    order_->AdvanceTo(now_);
  }
  void Put(uint64_t number, SegmentId segment, std::optional<uint64_t> parent = {}) {
    DiskBlock block{.key = NumberedKey(number), .length = kLength};
    if (parent) block.parent = NumberedKey(*parent);
    uint64_t& tail = tails_[static_cast<size_t>(segment)];
    index_.Insert(block, {.segment = segment, .generation = 1, .offset = tail});
    tail += RecordBytes(kLength);
    order_->NotePut(NumberedKey(number));
  }
  void Touch(uint64_t number, const ReuseHint& hint = {}) {
    order_->NoteUse(NumberedKey(number), hint);
    index_.Touch(NumberedKey(number));
  }
  std::optional<double> WorthOf(uint64_t number) const {
    return order_->WorthOf(NumberedKey(number));
  }

  RecordIndex index_{kSegments};
  std::optional<ReclaimOrder> order_;
  uint64_t tails_[kSegments] = {};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(ReclaimOrderTest, LruFindsWhatWasTouchedSinceItsAppendWorthIt) {
  Use(EvictionPolicy::kLru);
  Put(1, kVictim);
  Put(2, kVictim);
  Put(3, kOther);  // Begins a later epoch.
  Touch(2, {.will_not_return = true});
  EXPECT_EQ(WorthOf(1), std::nullopt);
  EXPECT_NE(WorthOf(2), std::nullopt) << "what engines say is not for lru";
}

TEST_F(ReclaimOrderTest, FifoFindsNothingWorthIt) {
  Use(EvictionPolicy::kFifo);
  Put(1, kVictim);
  Put(2, kOther);
  Touch(1, {.priority = kMaxPriority});
  EXPECT_EQ(WorthOf(1), std::nullopt);
}

TEST_F(ReclaimOrderTest, PriorityRanksWhatWasTouched) {
  Use(EvictionPolicy::kPriority);
  for (const uint64_t number : {1, 2, 3, 4}) Put(number, kVictim);
  Put(9, kOther);
  Touch(1, {.priority = 60});
  Touch(2, {.priority = 40});
  Touch(3, {.will_not_return = true, .priority = 90});
  EXPECT_GT(WorthOf(1), WorthOf(2));
  EXPECT_GT(WorthOf(2), WorthOf(3));
  EXPECT_NE(WorthOf(3), std::nullopt);
  EXPECT_EQ(WorthOf(4), std::nullopt);
}

// Fixture with blocks that came back every minute, and as many that never did.
class LearntReclaimOrderTest : public ReclaimOrderTest {
 protected:
  static constexpr uint64_t kBlocks = 1000;  // Number of each kind: the even ones come back.

  void PutAndUse(const ReuseHint& hint) {
    Use(EvictionPolicy::kLearnt);
    for (uint64_t number = 0; number < 2 * kBlocks; ++number) Put(number, kVictim);
    for (int use = 0; use < 4; ++use) {
      Wait(kPause);
      for (uint64_t number = 0; number < 2 * kBlocks; number += 2) Touch(number, hint);
    }
  }
};

TEST_F(LearntReclaimOrderTest, WhatComesBackIsWorthItAndTheRestIsNot) {
  PutAndUse({});
  order_->BeginReclaim(kVictim);
  EXPECT_NE(WorthOf(0), std::nullopt);
  EXPECT_EQ(WorthOf(1), std::nullopt);
  order_->Audit();
}

// Once, a block was worth it if it was no worse than the mean, however bad that was.
TEST_F(LearntReclaimOrderTest, WhatIsHardlyEverUsedIsNotWorthItThoughNothingIsBetter) {
  Use(EvictionPolicy::kLearnt);
  for (uint64_t number = 0; number < 2 * kBlocks; ++number) Put(number, kVictim);
  for (int round = 0; round < 2; ++round) {
    Wait(absl::Seconds(2));
    order_->BeginReclaim(kVictim);
  }
  for (uint64_t number = 0; number < 2 * kBlocks; ++number) {
    ASSERT_EQ(WorthOf(number), std::nullopt) << number;
  }
}

TEST_F(LearntReclaimOrderTest, WhatNobodyWillAskForAgainIsNotWorthIt) {
  PutAndUse({});
  Touch(0, {.will_not_return = true});
  Touch(2, {.priority = kMaxPriority});
  order_->BeginReclaim(kVictim);
  EXPECT_EQ(WorthOf(0), std::nullopt);
  EXPECT_GT(WorthOf(2), WorthOf(4));
}

// A worker whose engine still has the prefix does not request it, and only puts blocks that
// continue it.
TEST_F(LearntReclaimOrderTest, AContinuationIsASignOfLifeOfTheWholePrefix) {
  PutAndUse({});
  for (const uint64_t number : {10001, 10002, 10003, 20001}) {
    Put(number, kVictim, number == 20001 ? std::nullopt : std::optional(number - 1));
  }
  Wait(absl::Hours(3));
  Put(10004, kOther, 10003);
  order_->BeginReclaim(kVictim);
  EXPECT_NE(WorthOf(10001), std::nullopt);
  EXPECT_EQ(WorthOf(20001), std::nullopt);
}

// Without lessons the order follows LRU, by which an untouched block is worth nothing.
TEST_F(LearntReclaimOrderTest, AnOrderThatTookLessonsFollowsThemFromTheFirstBlockOn) {
  PutAndUse({});
  for (const bool takes : {false, true}) {
    RecordIndex index(kSegments);
    ReclaimOrder order(EvictionPolicy::kLearnt, kSegments, &index);
    order.AdvanceTo(now_);
    if (takes) order.hazards()->Take(order_->hazards()->lessons());
    index.Insert({.key = NumberedKey(1), .length = kLength}, {.segment = kVictim, .generation = 1});
    order.NotePut(NumberedKey(1));
    order.BeginReclaim(kVictim);
    EXPECT_EQ(order.WorthOf(NumberedKey(1)).has_value(), takes);
  }
}

TEST_F(LearntReclaimOrderTest, WhatARestartFoundIsWorthASecondWriteWhenSomebodyAskedForIt) {
  PutAndUse({});
  RecordIndex index(kSegments);
  ReclaimOrder order(EvictionPolicy::kLearnt, kSegments, &index);
  order.AdvanceTo(now_);
  order.hazards()->Take(order_->hazards()->lessons());
  for (uint64_t number = 0; number < 4; ++number) {
    index.Insert({.key = NumberedKey(number), .length = kLength},
                 {.segment = kVictim, .generation = 1, .offset = number * RecordBytes(kLength)});
  }
  order.AdvanceTo(now_ + kPause);
  for (int use = 0; use < 2; ++use) order.NoteUse(NumberedKey(2), {});
  order.BeginReclaim(kVictim);
  EXPECT_NE(order.WorthOf(NumberedKey(2)), std::nullopt);
  EXPECT_EQ(order.WorthOf(NumberedKey(1)), std::nullopt);
}

// The engine says of returning blocks that they will not return, and the other way round.
TEST_F(LearntReclaimOrderTest, WhileLruFindsMoreItIsFollowed) {
  PutAndUse({});
  order_->BeginReclaim(kVictim);  // The small caches of the sample are full now.
  Put(10000, kOther);             // Begins a later epoch.
  uint64_t once = 20000;
  for (int use = 0; use < 20; ++use) {
    Wait(kPause);
    for (uint64_t number = 0; number < 2 * kBlocks; number += 16) {
      Touch(number, {.will_not_return = true});
      Put(once, kOther);
      Touch(once++, {.priority = kMaxPriority});
    }
  }
  order_->Audit();
  EXPECT_NE(WorthOf(0), std::nullopt);
  EXPECT_EQ(WorthOf(1), std::nullopt);
}

}  // namespace
}  // namespace kvtier

#include "agent/disk/load_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

class LoadQueueTest : public ::testing::Test {
 protected:
  void Push(uint64_t number, Urgency urgency) {
    queue_.Push({.key = NumberedKey(number), .urgency = urgency});
  }
  void ExpectPop(uint64_t number, Urgency urgency, bool wanted_anyway) {
    const QueuedLoad load = queue_.Pop();
    EXPECT_EQ(load.key, NumberedKey(number));
    EXPECT_EQ(load.urgency, urgency);
    EXPECT_EQ(load.wanted_anyway, wanted_anyway);
  }

  LoadQueue queue_;
};

TEST_F(LoadQueueTest, ForegroundGoesFirstAndEachInItsOrder) {
  Push(1, Urgency::kPrefetch);
  Push(2, Urgency::kForeground);
  Push(3, Urgency::kPrefetch);
  Push(4, Urgency::kForeground);
  EXPECT_EQ(queue_.size(), 4);
  ExpectPop(2, Urgency::kForeground, false);
  ExpectPop(4, Urgency::kForeground, false);
  ExpectPop(1, Urgency::kPrefetch, true);
  ExpectPop(3, Urgency::kPrefetch, true);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(LoadQueueTest, APrefetchMovedToTheForegroundGoesBehindItAndIsNeverAbandoned) {
  for (const uint64_t number : {1, 2, 3}) Push(number, Urgency::kPrefetch);
  Push(4, Urgency::kForeground);
  EXPECT_TRUE(queue_.MoveToForeground(NumberedKey(2)));
  EXPECT_FALSE(queue_.MoveToForeground(NumberedKey(2)));
  EXPECT_FALSE(queue_.MoveToForeground(NumberedKey(4)));
  EXPECT_FALSE(queue_.MoveToForeground(NumberedKey(9)));
  Push(5, Urgency::kForeground);
  ExpectPop(4, Urgency::kForeground, false);
  ExpectPop(2, Urgency::kForeground, true);
  ExpectPop(5, Urgency::kForeground, false);
  ExpectPop(1, Urgency::kPrefetch, true);
  ExpectPop(3, Urgency::kPrefetch, true);
}

TEST_F(LoadQueueTest, DomainsTakeTurnsByTheBytesThatAreRead) {
  for (const uint64_t number : {1, 2, 3}) {
    queue_.Push({.key = NumberedKey(number), .domain = DomainId{0}, .bytes = 100});
  }
  for (const uint64_t number : {11, 12, 13}) {
    queue_.Push({.key = NumberedKey(number), .domain = DomainId{1}, .bytes = 50});
  }
  std::vector<BlockKey> popped;
  while (!queue_.empty()) popped.push_back(queue_.Pop().key);
  EXPECT_EQ(popped, (std::vector<BlockKey>{NumberedKey(1), NumberedKey(11), NumberedKey(12),
                                           NumberedKey(2), NumberedKey(13), NumberedKey(3)}));
}

TEST_F(LoadQueueTest, AHeavyDomainReadsMore) {
  queue_.SetWeight(DomainId{1}, 2);
  for (const Urgency urgency : {Urgency::kForeground, Urgency::kPrefetch}) {
    for (const uint64_t number : {1, 2}) {
      queue_.Push(
          {.key = NumberedKey(number), .domain = DomainId{0}, .bytes = 100, .urgency = urgency});
    }
    for (const uint64_t number : {11, 12, 13}) {
      queue_.Push(
          {.key = NumberedKey(number), .domain = DomainId{1}, .bytes = 100, .urgency = urgency});
    }
    std::vector<BlockKey> popped;
    while (!queue_.empty()) popped.push_back(queue_.Pop().key);
    EXPECT_EQ(popped, (std::vector<BlockKey>{NumberedKey(1), NumberedKey(11), NumberedKey(12),
                                             NumberedKey(2), NumberedKey(13)}));
  }
}

TEST_F(LoadQueueTest, APrefetchOfAnotherDomainMovedToTheForegroundHasItsTurnThere) {
  for (const uint64_t number : {1, 2}) Push(number, Urgency::kForeground);
  queue_.Push({.key = NumberedKey(3), .domain = DomainId{1}, .urgency = Urgency::kPrefetch});
  EXPECT_TRUE(queue_.MoveToForeground(NumberedKey(3)));
  ExpectPop(1, Urgency::kForeground, false);
  ExpectPop(3, Urgency::kForeground, true);
  ExpectPop(2, Urgency::kForeground, false);
}

TEST_F(LoadQueueTest, AKeyMayComeAgainAfterItWasTaken) {
  Push(1, Urgency::kPrefetch);
  queue_.Pop();
  EXPECT_FALSE(queue_.MoveToForeground(NumberedKey(1)));
  Push(1, Urgency::kPrefetch);
  EXPECT_TRUE(queue_.MoveToForeground(NumberedKey(1)));
  ExpectPop(1, Urgency::kForeground, true);
}

TEST_F(LoadQueueTest, LoadsOfAShareGroupTakeTheTurnsOfItsMembers) {
  const DomainId group{9};
  for (const uint64_t number : {1, 2, 3}) {
    queue_.Push({.key = NumberedKey(number), .domain = group, .member = DomainId{0}});
  }
  queue_.Push({.key = NumberedKey(11), .domain = group, .member = DomainId{1}});
  queue_.Push({.key = NumberedKey(12), .domain = DomainId{1}});
  for (const uint64_t number : {1, 11, 2, 12, 3}) EXPECT_EQ(queue_.Pop().key, NumberedKey(number));
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace kvtier

#include "client/release_queue.h"

#include <vector>

#include "gtest/gtest.h"

namespace kvtier {
namespace {

using Kind = ReleaseQueue::Kind;

TEST(ReleaseQueueTest, TakeReturnsWhatWasAddedOfEachKind) {
  ReleaseQueue queue;
  EXPECT_TRUE(queue.Add(Kind::kLease, std::vector<uint64_t>{1, 2}).was_empty);
  EXPECT_FALSE(queue.Add(Kind::kReservation, std::vector<uint64_t>{3}).was_empty);
  const ReleaseQueue::Batch batch = queue.Take();
  EXPECT_EQ(batch.lease_ids, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(batch.reservation_ids, (std::vector<uint64_t>{3}));
  EXPECT_TRUE(queue.empty());
}

TEST(ReleaseQueueTest, ABatchIsBoundedAndTheRestStays) {
  ReleaseQueue queue;
  const std::vector<uint64_t> ids(ReleaseQueue::kMaxBatch + 1);
  queue.Add(Kind::kLease, ids);
  EXPECT_EQ(queue.Take().lease_ids.size(), ReleaseQueue::kMaxBatch);
  EXPECT_EQ(queue.Take().lease_ids.size(), 1U);
}

TEST(ReleaseQueueTest, AFullQueueSaysHowManyItDropped) {
  ReleaseQueue queue;
  const std::vector<uint64_t> ids(ReleaseQueue::kMaxQueued - 1);
  EXPECT_EQ(queue.Add(Kind::kLease, ids).dropped, 0U);
  EXPECT_EQ(queue.Add(Kind::kReservation, std::vector<uint64_t>{1, 2, 3}).dropped, 2U);
  EXPECT_EQ(queue.Add(Kind::kLease, std::vector<uint64_t>{4}).dropped, 1U);
}

}  // namespace
}  // namespace kvtier

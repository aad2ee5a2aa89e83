#include "client/release_queue.h"

#include <vector>

#include "gtest/gtest.h"

namespace kvtier {
namespace {

using Kind = ReleaseQueue::Kind;

constexpr absl::Time kNow = absl::FromUnixSeconds(1000);

TEST(ReleaseQueueTest, TakeReturnsWhatWasAddedOfEachKind) {
  ReleaseQueue queue;
  queue.Add(Kind::kLease, std::vector<uint64_t>{1, 2}, kNow);
  queue.Add(Kind::kReservation, std::vector<uint64_t>{3}, kNow);
  const ReleaseQueue::Batch batch = queue.Take();
  EXPECT_EQ(batch.lease_ids, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(batch.reservation_ids, (std::vector<uint64_t>{3}));
  EXPECT_TRUE(queue.Take().empty());
}

TEST(ReleaseQueueTest, LeasesWaitAMomentForACallAndNothingElseDoes) {
  ReleaseQueue queue;
  EXPECT_EQ(queue.NextLook(kNow), absl::InfiniteFuture());
  EXPECT_TRUE(queue.Add(Kind::kLease, std::vector<uint64_t>{1}, kNow).sooner);
  EXPECT_FALSE(queue.IsDue(kNow));
  EXPECT_TRUE(queue.IsDue(kNow + ReleaseQueue::kMaxLeaseDelay));
  EXPECT_EQ(queue.NextLook(kNow), kNow + ReleaseQueue::kMaxLeaseDelay);
  EXPECT_FALSE(
      queue.Add(Kind::kLease, std::vector<uint64_t>{2}, kNow + absl::Microseconds(1)).sooner);
  EXPECT_EQ(queue.TakeLeases(), (std::vector<uint64_t>{1, 2}));
  // The next lease waits its own millisecond, and does not wake a thread that sleeps until
  // NextLook().
  EXPECT_FALSE(
      queue.Add(Kind::kLease, std::vector<uint64_t>{3}, kNow + absl::Microseconds(2)).sooner);
  EXPECT_FALSE(queue.IsDue(kNow + ReleaseQueue::kMaxLeaseDelay));
  EXPECT_TRUE(queue.IsDue(kNow + absl::Microseconds(2) + ReleaseQueue::kMaxLeaseDelay));
  EXPECT_TRUE(queue.Add(Kind::kSlot, std::vector<uint64_t>{4}, kNow).sooner);
  EXPECT_TRUE(queue.IsDue(kNow));
  EXPECT_EQ(queue.NextLook(kNow), kNow);
  EXPECT_FALSE(queue.AddTicket(TicketId{}, kNow).sooner);
  EXPECT_EQ(queue.Take().size(), 3U);
  EXPECT_FALSE(queue.IsDue(kNow + absl::Hours(1)));
  EXPECT_EQ(queue.NextLook(kNow), absl::InfiniteFuture());
  EXPECT_TRUE(queue.AddTicket(TicketId{}, kNow).sooner);
}

TEST(ReleaseQueueTest, LeasesThatCallsTakeAlongWakeNobodyEachTime) {
  ReleaseQueue queue;
  const auto add = [&](absl::Time now) {
    return queue.Add(Kind::kLease, std::vector<uint64_t>{1}, now).sooner;
  };
  EXPECT_TRUE(add(kNow));
  EXPECT_EQ(queue.TakeLeases().size(), 1U);  // The leases are taken before the woken thread runs.
  absl::Time look = queue.NextLook(kNow);
  EXPECT_EQ(look, kNow + ReleaseQueue::kMaxLeaseDelay);
  EXPECT_FALSE(add(kNow + absl::Microseconds(500)));
  EXPECT_EQ(queue.TakeLeases().size(), 1U);
  look = queue.NextLook(look);
  EXPECT_EQ(look, kNow + 2 * ReleaseQueue::kMaxLeaseDelay);
  EXPECT_EQ(queue.NextLook(look), absl::InfiniteFuture());  // No release came for a while.
  EXPECT_TRUE(add(look));
}

TEST(ReleaseQueueTest, WhoShouldHaveLookedAndDidNotIsToldAgain) {
  ReleaseQueue queue;
  queue.Add(Kind::kLease, std::vector<uint64_t>{1}, kNow);
  const absl::Time look = queue.NextLook(kNow);
  // The thread woke at that time and did something else, which may take long.
  queue.TakeLeases();
  EXPECT_TRUE(queue.Add(Kind::kLease, std::vector<uint64_t>{3}, look + absl::Seconds(2)).sooner);
}

TEST(ReleaseQueueTest, ABatchIsBoundedAndTheRestStays) {
  ReleaseQueue queue;
  const std::vector<uint64_t> ids(ReleaseQueue::kMaxBatch + 1);
  queue.Add(Kind::kLease, ids, kNow);
  EXPECT_EQ(queue.Take().lease_ids.size(), ReleaseQueue::kMaxBatch);
  EXPECT_TRUE(queue.IsDue(kNow + ReleaseQueue::kMaxLeaseDelay));
  EXPECT_EQ(queue.Take().lease_ids.size(), 1U);
}

TEST(ReleaseQueueTest, AFullQueueSaysHowManyItDropped) {
  ReleaseQueue queue;
  const std::vector<uint64_t> ids(ReleaseQueue::kMaxQueued - 1);
  EXPECT_EQ(queue.Add(Kind::kLease, ids, kNow).dropped, 0U);
  EXPECT_EQ(queue.Add(Kind::kReservation, std::vector<uint64_t>{1, 2, 3}, kNow).dropped, 2U);
  EXPECT_EQ(queue.Add(Kind::kLease, std::vector<uint64_t>{4}, kNow).dropped, 1U);
}

}  // namespace
}  // namespace kvtier

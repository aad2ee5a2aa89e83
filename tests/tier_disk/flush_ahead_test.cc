#include "tier_disk/io/flush_ahead.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/testing/patience.h"

namespace kvtier {
namespace {

TEST(FlushAheadTest, FlushesOnceEnoughIsWritten) {
  std::atomic<int> flushes = 0;
  FlushAhead ahead([&] { ++flushes; });
  ahead.Wrote(kFlushAheadBytes - 1);
  EXPECT_EQ(flushes, 0);
  ahead.Wrote(1);
  EXPECT_TRUE(testing::Await(absl::Seconds(10), [&] { return flushes == 1; }));
  ahead.Wrote(kFlushAheadBytes - 1);
  EXPECT_EQ(flushes, 1);
}

TEST(FlushAheadTest, WhatIsWrittenDuringAFlushIsOfTheNextOne) {
  std::atomic<int> begun = 0;
  absl::Notification slow_ends;
  FlushAhead ahead([&] {
    if (++begun == 1) slow_ends.WaitForNotification();
  });
  ahead.Wrote(kFlushAheadBytes);
  EXPECT_TRUE(testing::Await(absl::Seconds(10), [&] { return begun == 1; }));
  for (int i = 0; i < 3; ++i) ahead.Wrote(kFlushAheadBytes);
  EXPECT_EQ(begun, 1);  // One at a time.
  slow_ends.Notify();
  EXPECT_TRUE(testing::Await(absl::Seconds(10), [&] { return begun == 2; }));
}

TEST(FlushAheadTest, ADiskThatEndsWaitsForItsFlush) {
  std::atomic<bool> ended = false;
  absl::Notification begun;
  {
    FlushAhead ahead([&] {
      begun.Notify();
      absl::SleepFor(absl::Milliseconds(20));
      ended = true;
    });
    ahead.Wrote(kFlushAheadBytes);
    begun.WaitForNotification();
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace kvtier

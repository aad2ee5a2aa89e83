#include "tier_disk/io/flush_ahead.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/testing/patience.h"
#include "tests/testing/short_disk.h"
#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/run_task.h"
#include "tier_disk/io/page_buffer.h"

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

TEST(FlushAheadTest, ADiskFlushesForItsWritesAndNotForItsReads) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  testing::SimDiskMedia media(1, 2 * kFlushAheadBytes, testing::TestSeed());
  std::atomic<int> flushes = 0;
  testing::ShortDisk disk(&executor, &media, [&] { ++flushes; });
  PageBuffer page(kFlushAheadBytes / 2);
  const std::array<std::span<std::byte>, 1> into = {page.bytes()};
  const std::array<std::span<const std::byte>, 1> from = {page.bytes()};
  const auto write = [&] { return disk.Write(IoClass::kOffload, {}, from); };
  ASSERT_TRUE(testing::RunTask(&time, &executor, write()).ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(testing::RunTask(&time, &executor, disk.Read(IoClass::kForeground, {}, into)).ok());
  }
  EXPECT_EQ(flushes, 0);
  ASSERT_TRUE(testing::RunTask(&time, &executor, write()).ok());
  EXPECT_TRUE(testing::Await(absl::Seconds(10), [&] { return flushes == 1; }));
}

}  // namespace
}  // namespace kvtier

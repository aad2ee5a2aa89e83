// Tests that lines go to the application's logger, in order, from a thread that holds no lock.
#include "client/logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/log.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Lines = std::vector<std::pair<LogLevel, std::string>>;

// Fixture that resets the destination of lines to stderr, whatever the test did.
class LoggerTest : public ::testing::Test {
 protected:
  ~LoggerTest() override { SetLogger(nullptr); }
};

TEST_F(LoggerTest, GetsEachLineInOrderAndNoneGoesToStderr) {
  Lines lines;
  ::testing::internal::CaptureStderr();
  SetLogger([&lines](LogLevel level, absl::string_view line) { lines.emplace_back(level, line); });
  Log(LogLevel::kInfo, "one");
  Log(LogLevel::kError, "two\nforged");
  SetLogger(nullptr);
  Log(LogLevel::kInfo, "three");
  EXPECT_THAT(lines, ElementsAre(std::pair(LogLevel::kInfo, "one"),
                                 std::pair(LogLevel::kError, "two forged")));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(": three\n"));
}

TEST_F(LoggerTest, MayLogAndTakeWhatTheLoggingThreadHolds) {
  absl::Mutex mu;
  absl::Notification logged;
  int calls = 0;
  SetLogger([&](LogLevel level, absl::string_view) {
    absl::MutexLock lock(&mu);
    if (++calls == 1) Log(level, "from inside");
    if (calls == 2) logged.Notify();
  });
  {
    absl::MutexLock lock(&mu);
    Log(LogLevel::kInfo, "under a lock");
  }
  logged.WaitForNotification();
}

TEST_F(LoggerTest, ASlowOneLosesLinesAndIsToldHowMany) {
  absl::Notification began;
  absl::Notification go_on;
  Lines lines;
  SetLogger([&](LogLevel level, absl::string_view line) {
    if (lines.empty()) {
      began.Notify();
      go_on.WaitForNotification();
    }
    lines.emplace_back(level, line);
  });
  Log(LogLevel::kInfo, "first");
  began.WaitForNotification();
  for (size_t i = 0; i < kMaxLinesQueued + 5; ++i) Log(LogLevel::kInfo, absl::StrCat(i));
  go_on.Notify();
  SetLogger(nullptr);
  ASSERT_EQ(lines.size(), 1 + kMaxLinesQueued + 1);
  EXPECT_EQ(lines[kMaxLinesQueued].second, absl::StrCat(kMaxLinesQueued - 1));
  EXPECT_EQ(lines.back().first, LogLevel::kWarning);
  EXPECT_THAT(lines.back().second, HasSubstr("5 lines were dropped"));
}

TEST_F(LoggerTest, TheOneBeforeIsCalledNoMoreWhenItIsReplaced) {
  Lines before;
  SetLogger(
      [&before](LogLevel level, absl::string_view line) { before.emplace_back(level, line); });
  Lines after;
  SetLogger([&after](LogLevel level, absl::string_view line) { after.emplace_back(level, line); });
  Log(LogLevel::kInfo, "now");
  SetLogger(nullptr);
  EXPECT_THAT(before, IsEmpty());
  EXPECT_EQ(after.size(), 1);
}

}  // namespace
}  // namespace kvtier

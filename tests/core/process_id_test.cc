#include "core/process_id.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kvtier {
namespace {

TEST(ProcessIdTest, AProcessIsItselfForAsLongAsItLives) {
  EXPECT_EQ(FindProcess(getpid()), ThisProcess());
  EXPECT_GT(ThisProcess().started, 0u);
  EXPECT_EQ(FindProcess(0), std::nullopt);
  EXPECT_EQ(FindProcess(-1), std::nullopt);
}

TEST(ProcessIdTest, AWatchedProcessIsSeenToEnd) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const ProcessId process = FindProcess(child).value_or(ProcessId());
  const int watched = WatchProcess(process);
  ASSERT_GE(watched, 0);
  pollfd ended{.fd = watched, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  kill(child, SIGKILL);
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
  EXPECT_TRUE(HasEnded(process)) << "though nobody waited for it";
  close(watched);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(FindProcess(child), std::nullopt);
  EXPECT_EQ(WatchProcess(process), -1);
  EXPECT_TRUE(HasEnded(process));
}

TEST(ProcessIdTest, AnotherProcessOfTheSameNumberIsNotWatched) {
  ProcessId other = ThisProcess();
  ++other.started;
  EXPECT_EQ(WatchProcess(other), -1);
  EXPECT_TRUE(HasEnded(other));
  EXPECT_FALSE(HasEnded(ThisProcess()));
  EXPECT_FALSE(HasEnded({})) << "nobody knows";
}

TEST(ProcessIdTest, TheScopeIsThatOfThisBoot) {
  EXPECT_EQ(ThisScope(), ThisScope());
  EXPECT_EQ(ThisScope().boot.size(), 36u) << ThisScope().boot;
  EXPECT_NE(ThisScope().pid_namespace, 0u);
}

}  // namespace
}  // namespace kvtier

#include "core/thread_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace kvtier {
namespace {

constexpr uid_t kNobody = 65534;
constexpr rlim_t kThreads = 20;

// Becomes a user that may have kThreads threads.
void LimitThreads() {
  const rlimit limit{.rlim_cur = kThreads, .rlim_max = kThreads};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0 || setresuid(kNobody, kNobody, kNobody) != 0) {
    std::exit(99);
  }
}

TEST(ThreadLimitTest, ThreadsThatMayBeStartedAre) { EXPECT_EQ(TryThreads(8), absl::OkStatus()); }

class ThreadLimitDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (geteuid() != 0) GTEST_SKIP() << "SKIPPED, NOT PROVEN: another user needs root";
  }
};

// Once, std::system_error ended the agent.
TEST_F(ThreadLimitDeathTest, TooFewAreRefusedWithTheNumbersAndTheLimit) {
  EXPECT_EXIT(
      {
        LimitThreads();
        std::fprintf(stderr, "%s\n", std::string(TryThreads(58).message()).c_str());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "58 are needed and [0-9]+ could be.*RLIMIT_NPROC.*is 20");
}

TEST_F(ThreadLimitDeathTest, AThreadThatDoesNotStartLaterEndsTheProgramWithTheLimit) {
  EXPECT_EXIT(
      {
        LimitThreads();
        SayWhyNoThreadStarts("a-program");
        // Googletest would catch the exception; a program's main() does not.
        []() noexcept {
          while (true) std::thread([] { pause(); }).detach();
        }();
      },
      ::testing::ExitedWithCode(1), "a-program: cannot start a thread: .*RLIMIT_NPROC.*is 20");
}

TEST_F(ThreadLimitDeathTest, OtherExceptionsEndTheProgramAsBefore) {
  EXPECT_EXIT(
      {
        SayWhyNoThreadStarts("a-program");
        std::terminate();
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace kvtier

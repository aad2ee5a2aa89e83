#include "core/program_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "core/start_progress.h"

namespace kvtier {
namespace {

TEST(StartProgressTest, SaysTheStepAndHowMuchOfItIsDone) {
  StartProgress progress;
  EXPECT_EQ(progress.Text(), "begins");
  progress.Begin("takes memory", uint64_t{3} << 20);
  progress.AddDone(1 << 20);
  progress.AddDone(1 << 20);
  EXPECT_EQ(progress.Text(), "takes memory: 2 of 3 MiB");
  progress.Begin("opens the disks");
  EXPECT_EQ(progress.Text(), "opens the disks");
}

class EndsWhileStartingDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Once, the signal waited for as long as the start did.
TEST_F(EndsWhileStartingDeathTest, ASignalEndsAStartThatWaitsForEver) {
  EXPECT_EXIT(
      {
        StartProgress progress;
        progress.Begin("opens the disks");
        const EndsWhileStarting ends(TakeProgramSignals(), &progress);
        kill(getpid(), SIGTERM);
        while (true) pause();
      },
      ::testing::ExitedWithCode(0), "stopping on Terminated while the start opens the disks");
}

TEST_F(EndsWhileStartingDeathTest, ALaterSignalIsForTheProgram) {
  EXPECT_EXIT(
      {
        const sigset_t signals = TakeProgramSignals();
        StartProgress progress;
        {
          const EndsWhileStarting ends(signals, &progress);
        }
        kill(getpid(), SIGINT);
        int signal = 0;
        sigwait(&signals, &signal);
        std::exit(signal == SIGINT ? 42 : 1);
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace kvtier

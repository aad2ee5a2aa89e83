#include "bench/second_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/clock.h"
#include "tier_gpu/device/open_device.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier::bench {
namespace {

// The benchmark once waited for ever for a second process that could not open its device.
TEST(SecondProcessTest, AWordIsNotAwaitedOfAProcessThatHasEnded) {
  const MonotonicClock clock;
  const auto device = *OpenDevice("emulated", &clock);
  const auto page = *SignalPage::Create();
  EXPECT_DEATH(
      {
        const pid_t child = fork();
        if (child == 0) _exit(1);
        AwaitWord(device.get(), *page->word(0), 7, child);
      },
      "the other process has ended: the word is 0, awaited is 7");
}

}  // namespace
}  // namespace kvtier::bench

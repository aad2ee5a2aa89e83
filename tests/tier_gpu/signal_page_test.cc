#include "tier_gpu/device/signal_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

namespace kvtier {
namespace {

TEST(SignalPageTest, WordsBeginAtZeroAndEachIsItsOwn) {
  const auto page = *SignalPage::Create();
  for (size_t i = 0; i < kSignalWords; ++i) EXPECT_EQ(page->word(i)->load(), 0u);
  for (size_t i = 0; i < kSignalWords; ++i) page->word(i)->store(i + 1);
  for (size_t i = 0; i < kSignalWords; ++i) EXPECT_EQ(page->word(i)->load(), i + 1);
  EXPECT_EQ(page->bytes().size(), kSignalPageBytes);
}

TEST(SignalPageTest, AnotherProcessSeesTheSameWords) {
  const auto page = *SignalPage::Create();
  const pid_t child = fork();
  if (child == 0) {
    const auto imported = SignalPage::Import(page->descriptor());
    if (!imported.ok()) _exit(1);
    (*imported)->word(5)->store(42);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(page->word(5)->load(), 42u);
}

TEST(SignalPageTest, AReleaseTouchesItsWordsOnly) {
  const auto page = *SignalPage::Create();
  page->Release(2, 3);
  EXPECT_EQ(page->word(1)->load(), 0u);
  EXPECT_EQ(page->word(2)->load(), kReleased);
  EXPECT_EQ(page->word(4)->load(), kReleased);
  EXPECT_EQ(page->word(5)->load(), 0u);
}

TEST(SignalPageTest, OnlyASealedPageOfTheRightSizeIsImported) {
  const int unsealed = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, kSignalPageBytes), 0);
  EXPECT_EQ(SignalPage::Import(unsealed).status().code(), absl::StatusCode::kInvalidArgument);
  const int longer = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(longer, 2 * kSignalPageBytes), 0);
  ASSERT_EQ(fcntl(longer, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(SignalPage::Import(longer).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SignalPage::Import(-1).status().code(), absl::StatusCode::kInvalidArgument);
  close(unsealed);
  close(longer);
}

}  // namespace
}  // namespace kvtier

#include "tier_gpu/device/signal_page.h"

#include <gtest/gtest.h>

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

TEST(SignalPageTest, AReleaseTouchesItsWordsOnly) {
  const auto page = *SignalPage::Create();
  page->Release(2, 3);
  EXPECT_EQ(page->word(1)->load(), 0u);
  EXPECT_EQ(page->word(2)->load(), kReleased);
  EXPECT_EQ(page->word(4)->load(), kReleased);
  EXPECT_EQ(page->word(5)->load(), 0u);
}

}  // namespace
}  // namespace kvtier

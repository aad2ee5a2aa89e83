#include "core/memory_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

namespace kvtier {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(MemoryWatchTest, WhatIsTakenBeyondTheGrowthIsTooMuchUntilItIsGivenBack) {
  MemoryWatch watch(32 * kMiB);
  EXPECT_FALSE(watch.IsOverLimit(0));
  auto taken = std::make_unique<char[]>(64 * kMiB);
  std::memset(taken.get(), 1, 64 * kMiB);
  EXPECT_TRUE(watch.IsOverLimit(0));
  EXPECT_FALSE(watch.IsOverLimit(64 * kMiB)) << "it may be more by so much";
  taken.reset();
  EXPECT_FALSE(watch.IsOverLimit(0));
}

TEST(MemoryWatchTest, SharedMemoryDoesNotCount) {
  MemoryWatch watch(32 * kMiB);
  void* const shared =
      mmap(nullptr, 64 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::memset(shared, 1, 64 * kMiB);
  EXPECT_FALSE(watch.IsOverLimit(0));
  munmap(shared, 64 * kMiB);
}

// No call should be refused because of memory that the allocator keeps and nobody uses.
TEST(MemoryWatchTest, WhatTheAllocatorKeepsIsGivenBackBeforeItIsTooMuch) {
#if defined(KVTIER_ASAN) || defined(KVTIER_TSAN)
  GTEST_SKIP() << "a sanitizer's allocator keeps what it likes";
#endif
  KeepFreedMemory();
  MemoryWatch watch(4 * kMiB);
  const uint64_t before = PrivateBytes();
  std::vector<std::unique_ptr<char[]>> buffers(8);
  for (auto& buffer : buffers) {
    buffer = std::make_unique<char[]>(kMiB);
    std::memset(buffer.get(), 1, kMiB);
  }
  buffers.clear();
  EXPECT_GT(PrivateBytes(), before + 4 * kMiB) << "kept for the next ones";
  EXPECT_FALSE(watch.IsOverLimit(0));
}

}  // namespace
}  // namespace kvtier

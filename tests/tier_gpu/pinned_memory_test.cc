#include "tier_gpu/device/pinned_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvtier {
namespace {

constexpr uint64_t kChunk = 100;

class PinnedMemoryTest : public ::testing::Test {
 protected:
  std::span<std::byte> Range(size_t begin, size_t size) {
    return std::span(memory_).subspan(begin, size);
  }
  absl::StatusCode Add(size_t begin, size_t size) { return pinned_.Add(Range(begin, size)).code(); }
  absl::StatusCode Check(size_t begin, size_t size) {
    return pinned_.Check(Range(begin, size)).code();
  }
  static constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
  static constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  PinnedMemory pinned_{kChunk};
};

TEST_F(PinnedMemoryTest, RunsInsideARangeMayBeCopied) {
  EXPECT_EQ(Check(10, 1), kInvalid);
  ASSERT_EQ(Add(10, 80), kOk);
  EXPECT_EQ(Check(10, 80), kOk);
  EXPECT_EQ(Check(89, 1), kOk);
  EXPECT_EQ(Check(9, 2), kInvalid);
  EXPECT_EQ(Check(89, 2), kInvalid);
  EXPECT_EQ(Check(90, 1), kInvalid);
}

TEST_F(PinnedMemoryTest, NoRunCrossesTheBorderOfTwoChunks) {
  ASSERT_EQ(Add(50, 250), kOk);
  EXPECT_EQ(Check(50, 100), kOk);
  EXPECT_EQ(Check(149, 2), kInvalid) << "chunks count from the range's own start";
  EXPECT_EQ(Check(150, 100), kOk);
  EXPECT_EQ(Check(250, 50), kOk);
  const auto chunks = pinned_.ChunksOf(Range(50, 250));
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[2].size(), 50u);
}

TEST_F(PinnedMemoryTest, RangesDoNotOverlap) {
  ASSERT_EQ(Add(100, 100), kOk);
  EXPECT_EQ(Add(0, 101), kInvalid);
  EXPECT_EQ(Add(199, 1), kInvalid);
  EXPECT_EQ(Add(50, 500), kInvalid);
  EXPECT_EQ(Add(100, 0), kInvalid);
  EXPECT_EQ(Add(0, 100), kOk);
  EXPECT_EQ(Add(200, 1), kOk);
  EXPECT_EQ(Check(99, 2), kInvalid) << "neighbours are two registrations";
}

TEST_F(PinnedMemoryTest, OnlyWhatWasAddedAsOneIsRemoved) {
  ASSERT_EQ(Add(100, 100), kOk);
  EXPECT_EQ(pinned_.Remove(Range(100, 50)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pinned_.Remove(Range(150, 50)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pinned_.Remove(Range(100, 100)).code(), kOk);
  EXPECT_EQ(Check(100, 1), kInvalid);
  EXPECT_TRUE(pinned_.Ranges().empty());
}

}  // namespace
}  // namespace kvtier

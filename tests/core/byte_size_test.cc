#include "core/byte_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace kvtier {
namespace {

TEST(ByteSizeTest, UnitsArePowersOf1024) {
  EXPECT_EQ(*ParseBytes("64"), 64);
  EXPECT_EQ(*ParseBytes("3KiB"), 3 << 10);
  EXPECT_EQ(*ParseBytes("3MiB"), 3 << 20);
  EXPECT_EQ(*ParseBytes("3GiB"), uint64_t{3} << 30);
  EXPECT_EQ(*ParseBytes("3TiB"), uint64_t{3} << 40);
}

TEST(ByteSizeTest, ASizeIsWrittenInTheLargestUnitThatDividesIt) {
  const std::pair<uint64_t, const char*> sizes[] = {{0, "0"},
                                                    {1, "1"},
                                                    {1023, "1023"},
                                                    {1024, "1KiB"},
                                                    {1025, "1025"},
                                                    {1536, "1536"},
                                                    {64 << 20, "64MiB"},
                                                    {1 << 30, "1GiB"},
                                                    {uint64_t{1} << 50, "1024TiB"},
                                                    {UINT64_MAX, "18446744073709551615"}};
  for (const auto& [bytes, text] : sizes) {
    EXPECT_EQ(ByteSizeText(bytes), text);
    EXPECT_EQ(*ParseBytes(text), bytes);
  }
}

TEST(ByteSizeTest, WhatIsNoSizeIsRefusedByName) {
  for (const char* text : {"", "MiB", "-1", "1.5GiB", "3MB", "16777216TiB", "fast"}) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(text);
    EXPECT_TRUE(absl::IsInvalidArgument(bytes.status())) << text;
    EXPECT_NE(bytes.status().message().find(text), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace kvtier

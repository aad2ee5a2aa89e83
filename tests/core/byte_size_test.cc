#include "core/byte_size.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

TEST(ByteSizeTest, UnitsArePowersOf1024) {
  EXPECT_EQ(*ParseBytes("64"), 64);
  EXPECT_EQ(*ParseBytes("3KiB"), 3 << 10);
  EXPECT_EQ(*ParseBytes("3MiB"), 3 << 20);
  EXPECT_EQ(*ParseBytes("3GiB"), uint64_t{3} << 30);
  EXPECT_EQ(*ParseBytes("3TiB"), uint64_t{3} << 40);
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

#include "bench/command_output.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"

namespace kvtier::bench {
namespace {

TEST(CommandOutputTest, IsWhatTheProgramWrote) {
  const auto output = OutputOf({"sh", "-c", "echo one; sleep 0.1; echo two"}, absl::Minutes(1));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, "one\ntwo\n");
}

TEST(CommandOutputTest, AProgramThatFailsIsUnavailableWithItsWords) {
  const auto output = OutputOf({"sh", "-c", "echo why; exit 1"}, absl::InfiniteDuration());
  EXPECT_EQ(output.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(output.status().message(), "sh failed: why\n");
}

// A torch that hangs in its driver must not hold up later programs.
TEST(CommandOutputTest, AProgramThatDoesNotEndIsKilled) {
  const auto output = OutputOf({"sleep", "600"}, absl::Milliseconds(50));
  EXPECT_EQ(output.status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace kvtier::bench

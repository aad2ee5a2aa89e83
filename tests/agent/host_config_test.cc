// Tests flags about how large host memory is, and may become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "agent/agent_config.h"
#include "agent/limits.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

AgentConfig Moving(uint64_t host_max_bytes) {
  return {.node_id = "n1",
          .host_bytes = kGiB,
          .host_max_bytes = host_max_bytes,
          .host_memory = HostMemoryChoice::kMoving};
}

TEST(HostMaxBytes, IsTwiceHostBytesWhereMemoryMovesUnlessItIsGiven) {
  EXPECT_EQ(Moving(0).Validate(), absl::OkStatus());
  EXPECT_EQ(Moving(0).MeantHostMaxBytes(), kHostGrowth * kGiB);
  EXPECT_EQ(Moving(5 * kGiB).Validate(), absl::OkStatus());
  EXPECT_EQ(Moving(5 * kGiB).MeantHostMaxBytes(), 5 * kGiB);
  AgentConfig fixed = Moving(0);
  fixed.host_memory = HostMemoryChoice::kFixed;
  EXPECT_EQ(fixed.MeantHostMaxBytes(), kGiB);
}

TEST(HostMaxBytes, IsRefusedWhereItIsOfNoUseOrTooLittleOrTooMuch) {
  AgentConfig fixed = Moving(2 * kGiB);
  fixed.host_memory = HostMemoryChoice::kFixed;
  EXPECT_THAT(fixed.Validate().message(), HasSubstr("--host_max_bytes=2147483648: is of no use"));
  EXPECT_THAT(Moving(kGiB - 1).Validate().message(), HasSubstr("must be at least --host_bytes"));
  EXPECT_EQ(Moving(kMaxHostGrowth * kGiB).Validate(), absl::OkStatus());
  EXPECT_THAT(Moving((kMaxHostGrowth + 1) * kGiB).Validate().message(),
              HasSubstr("must be at most 16 times --host_bytes"));
}

}  // namespace
}  // namespace kvtier

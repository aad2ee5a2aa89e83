// Tests flags about how large host memory is, and may become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/agent_config.h"
#include "agent/limits.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
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

// Once, the kernel killed the agent, and its log was empty.
TEST(HostBytes, MustFitIntoTheMemoryThatTheAgentMayHave) {
  AgentConfig config{.node_id = "n1", .host_bytes = kGiB, .disk_dirs = {"/a", "/b"}};
  const uint64_t needed = kGiB + kMemoryAtStart + 2 * kMaxMemoryPerDisk;
  EXPECT_EQ(config.CheckMemory({.bytes = needed, .file = "/x/memory.max"}), absl::OkStatus());
  EXPECT_EQ(config.CheckMemory({}), absl::OkStatus());
  for (const uint64_t limit : {needed - 1, kGiB - 1, uint64_t{0}}) {
    const absl::Status refused = config.CheckMemory({.bytes = limit, .file = "/x/memory.max"});
    EXPECT_TRUE(absl::IsInvalidArgument(refused));
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("--host_bytes=1073741824"),
                                         HasSubstr(absl::StrCat("needs ", needed, " bytes")),
                                         HasSubstr(absl::StrCat("/x/memory.max is ", limit))));
  }
  config.gpu_bytes = kGiB;
  config.device = "emulated,emulated";
  EXPECT_EQ(config.CheckMemory({.bytes = needed + 2 * kGiB, .file = "f"}), absl::OkStatus());
  EXPECT_FALSE(config.CheckMemory({.bytes = needed + 2 * kGiB - 1, .file = "f"}).ok());
}

}  // namespace
}  // namespace kvtier

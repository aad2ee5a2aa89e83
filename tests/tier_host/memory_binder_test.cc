// Tests that memory is bound to NUMA nodes of the real kernel; every machine has node 0.
#include "tier_host/memory_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

namespace kvtier {
namespace {

constexpr size_t kBytes = 64 << 10;

class MemoryBinderTest : public ::testing::Test {
 protected:
  MemoryBinderTest() {
    void* const mapped =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = {static_cast<std::byte*>(mapped), kBytes};
  }
  ~MemoryBinderTest() override { munmap(memory_.data(), kBytes); }
  SystemMemoryBinder binder_;
  std::span<std::byte> memory_;
};

TEST_F(MemoryBinderTest, MemoryPrefersTheNode) {
  const absl::Status bound = binder_.Bind(memory_, std::array{0});
  // A container may forbid the call.
  if (absl::IsUnavailable(bound)) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << bound;
  ASSERT_EQ(bound, absl::OkStatus());
  int policy = -1;
  ASSERT_EQ(
      syscall(SYS_get_mempolicy, &policy, nullptr, 0, memory_.data() + kBytes / 2, MPOL_F_ADDR), 0);
  EXPECT_EQ(policy, MPOL_PREFERRED);
  memory_.back() = std::byte{1};
  int node = -1;
  ASSERT_EQ(syscall(SYS_get_mempolicy, &node, nullptr, 0, memory_.data() + kBytes - 1,
                    MPOL_F_NODE | MPOL_F_ADDR),
            0);
  EXPECT_EQ(node, 0);
}

TEST_F(MemoryBinderTest, ANodeThatDoesNotExistIsRefusedByName) {
  for (const int node : {-1, 1023, 4096}) {
    const absl::Status bound = binder_.Bind(memory_, std::array{node});
    EXPECT_FALSE(bound.ok());
    EXPECT_THAT(std::string(bound.message()), ::testing::HasSubstr(std::to_string(node)));
  }
}

}  // namespace
}  // namespace kvtier

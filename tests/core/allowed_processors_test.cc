#include "core/allowed_processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace kvtier {
namespace {

class AllowedProcessorsTest : public ::testing::Test {
 protected:
  AllowedProcessorsTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~AllowedProcessorsTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  size_t Allowed() const { return AllowedProcessors(root_.string()); }

  const std::filesystem::path root_;
};

TEST_F(AllowedProcessorsTest, AreThoseOfTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_EQ(Allowed(), static_cast<size_t>(CPU_COUNT(&mask)));
  size_t bound = 0;
  // The mask is a thread's own.
  std::thread([&] {
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    if (sched_setaffinity(0, sizeof(mask), &mask) == 0) bound = Allowed();
  }).join();
  EXPECT_EQ(bound, 1u);
}

TEST_F(AllowedProcessorsTest, AreNoMoreThanTheQuotaOfAnyCgroupRoundedUp) {
  const size_t all = Allowed();
  Write("proc/self/cgroup", "0::/pods/agent\n");
  Write("sys/fs/cgroup/pods/agent/cpu.max", "max 100000\n");
  EXPECT_EQ(Allowed(), all) << "it has no quota";
  Write("sys/fs/cgroup/pods/cpu.max", "50000 100000\n");
  EXPECT_EQ(Allowed(), 1u) << "half a processor";
  Write("sys/fs/cgroup/pods/cpu.max", "99900001 100000\n");
  EXPECT_EQ(Allowed(), std::min<size_t>(all, 1000));
}

TEST_F(AllowedProcessorsTest, AreNoMoreThanTheQuotaOfACgroupOfVersion1) {
  const size_t all = Allowed();
  Write("proc/self/cgroup", "4:cpu:/docker/c\n0::/\n");
  Write("sys/fs/cgroup/cpu/docker/c/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/cpu/docker/c/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Allowed(), all);
  Write("sys/fs/cgroup/cpu/docker/c/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(Allowed(), 1u);
}

}  // namespace
}  // namespace kvtier

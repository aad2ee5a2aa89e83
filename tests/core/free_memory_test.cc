#include "core/free_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kvtier {
namespace {

using ::testing::ElementsAre;

class FreeMemoryTest : public ::testing::Test {
 protected:
  FreeMemoryTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    Write("proc/meminfo", "MemTotal:  1000000 kB\nMemAvailable:   500 kB\n");
  }
  ~FreeMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  const std::filesystem::path root_;
};

TEST_F(FreeMemoryTest, IsWhatTheSystemHasAvailable) {
  EXPECT_EQ(FreeMemoryUnder(root_.string()), 500u * 1024);
}

TEST_F(FreeMemoryTest, IsWhatTheTightestCgroupLeaves) {
  Write("proc/self/cgroup", "0::/pods/agent\n");
  Write("sys/fs/cgroup/pods/agent/memory.max", "max\n");
  Write("sys/fs/cgroup/pods/agent/memory.current", "90000\n");
  Write("sys/fs/cgroup/pods/memory.max", "100000\n");
  Write("sys/fs/cgroup/pods/memory.current", "90000\n");
  EXPECT_EQ(FreeMemoryUnder(root_.string()), 10'000u);
  Write("sys/fs/cgroup/pods/memory.stat", "anon 5\ninactive_file 20000\n");
  EXPECT_EQ(FreeMemoryUnder(root_.string()), 30'000u) << "page cache goes first";
}

TEST_F(FreeMemoryTest, IsNoneInACgroupBeyondItsLimit) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "1000\n");
  Write("sys/fs/cgroup/memory.current", "1001\n");
  EXPECT_EQ(FreeMemoryUnder(root_.string()), 0u);
}

TEST_F(FreeMemoryTest, IsNotKnownWhereNothingSays) {
  Write("proc/meminfo", "");
  EXPECT_EQ(FreeMemoryUnder(root_.string()), UINT64_MAX);
}

TEST_F(FreeMemoryTest, FindsTheCgroupsOfAContainerAndOfAHost) {
  const std::string mount = root_.string() + "/sys/fs/cgroup";
  Write("proc/self/cgroup", "1:name=systemd:/old\n0::/\n");
  EXPECT_THAT(CgroupDirectories("memory", root_.string()), ElementsAre(mount));
  Write("proc/self/cgroup", "0::/a/b\n");
  EXPECT_THAT(CgroupDirectories("memory", root_.string()),
              ElementsAre(mount + "/a/b", mount + "/a", mount));
  Write("proc/self/cgroup", "5:cpu,memory:/c\n4:pids:/p:q\n0::/a/b\n");
  EXPECT_THAT(CgroupDirectories("memory", root_.string()),
              ElementsAre(mount + "/memory/c", mount + "/memory"));
  EXPECT_THAT(CgroupDirectories("pids", root_.string()),
              ElementsAre(mount + "/pids/p:q", mount + "/pids"));
}

TEST_F(FreeMemoryTest, IsWhatACgroupOfVersion1Leaves) {
  Write("proc/self/cgroup", "4:memory:/docker/c\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "100000\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "90000\n");
  Write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 5000\n");
  EXPECT_EQ(FreeMemoryUnder(root_.string()), 15'000u);
}

TEST_F(FreeMemoryTest, TheLimitIsTheLeastOfTheMachinesAndOfAllCgroups) {
  EXPECT_EQ(LeastMemoryLimit(root_.string()).bytes, 1'000'000u * 1024);
  EXPECT_EQ(LeastMemoryLimit(root_.string()).file, root_.string() + "/proc/meminfo (MemTotal)");
  EXPECT_EQ(CgroupMemoryLimit(root_.string()).bytes, UINT64_MAX);
  Write("proc/self/cgroup", "0::/pods/agent\n");
  Write("sys/fs/cgroup/pods/agent/memory.max", "max\n");
  Write("sys/fs/cgroup/memory.max", "900000\n");
  Write("sys/fs/cgroup/pods/memory.max", "800000\n");
  EXPECT_EQ(LeastMemoryLimit(root_.string()).bytes, 800'000u);
  EXPECT_EQ(LeastMemoryLimit(root_.string()).file,
            root_.string() + "/sys/fs/cgroup/pods/memory.max");
  Write("proc/self/cgroup", "4:memory:/agent\n0::/pods/agent\n");
  Write("sys/fs/cgroup/memory/agent/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(CgroupMemoryLimit(root_.string()).file, "") << "it has none";
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(LeastMemoryLimit(root_.string()).bytes, 700'000u);
}

}  // namespace
}  // namespace kvtier

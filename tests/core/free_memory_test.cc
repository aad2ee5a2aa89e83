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
  Write("proc/self/cgroup", "1:name=systemd:/old\n0::/\n");
  EXPECT_THAT(CgroupDirectories(root_.string()), ElementsAre(root_.string() + "/sys/fs/cgroup"));
  Write("proc/self/cgroup", "0::/a/b\n");
  EXPECT_THAT(CgroupDirectories(root_.string()),
              ElementsAre(root_.string() + "/sys/fs/cgroup/a/b",
                          root_.string() + "/sys/fs/cgroup/a", root_.string() + "/sys/fs/cgroup"));
}

}  // namespace
}  // namespace kvtier

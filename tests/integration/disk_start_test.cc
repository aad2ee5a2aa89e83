// Tests a real agent whose disk cannot be opened, has lost something, or is moved while it runs:
// the agent serves without it, says so, and acknowledges nothing that the next start would not
// find.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 64};
constexpr absl::Duration kExitLimit = absl::Seconds(20);

class DiskStartTest : public ::testing::Test {
 protected:
  // Commits blocks durably; returns how many are durable.
  static size_t PutDurably(TestWorker* worker, Blocks blocks) {
    auto reserved = worker->client().Reserve(worker->space(), worker->KeysOf(blocks));
    if (!reserved.ok() || reserved->reserved() != blocks.count) return 0;
    for (size_t i = 0; i < blocks.count; ++i) worker->Fill(blocks.first + i, reserved->slot(i));
    return reserved->Commit({.durable = true, .timeout = absl::Seconds(10)});
  }
  // Makes an agent that puts the prefix on its disk and is killed.
  AgentProcess& MakeDisk(const Flags& flags = {}) {
    AgentProcess& agent = cluster_.StartAgent("node-a", flags);
    TestWorker worker({.socket_dir = agent.socket_dir()});
    EXPECT_EQ(PutDurably(&worker, kPrefix), kPrefix.count);
    agent.Kill();
    return agent;
  }
  // Starts the agent, which must serve without its disk in `directory` and say `why`.
  void ExpectServesWithoutDisk(AgentProcess* agent, const std::string& directory,
                               const std::string& why) {
    ASSERT_EQ(agent->Start().status(), absl::OkStatus());
    TestWorker worker({.socket_dir = agent->socket_dir()});
    EXPECT_EQ(worker.Put({.first = 1000, .count = 8}), 8);
    EXPECT_THAT(worker.Get({.first = 1000, .count = 8}), SizeIs(8));
    const v1::AgentStatusResponse status = agent->Status();
    ASSERT_EQ(status.disks_size(), 1);
    EXPECT_FALSE(status.disks(0).serving());
    EXPECT_EQ(status.disks(0).directory(), directory);
    EXPECT_THAT(status.disks(0).health(), AllOf(HasSubstr("not open"), HasSubstr(why)));
    EXPECT_THAT(agent->LogText(), AllOf(HasSubstr("disk " + directory), HasSubstr(why)));
    agent->Kill();
  }
  void ExpectAllHit(AgentProcess* agent) {
    ASSERT_EQ(agent->Start().status(), absl::OkStatus());
    TestWorker worker({.socket_dir = agent->socket_dir()});
    EXPECT_THAT(worker.Get(kPrefix), SizeIs(kPrefix.count));
    EXPECT_EQ(agent->Status().disks(0).health(), "healthy");
  }

  ProcessCluster cluster_;
};

// Once, all of them were acknowledged, and none was there after a restart.
TEST_F(DiskStartTest, NoCommitIsDurableOnceTheDirectoryIsMoved) {
  AgentProcess& agent = cluster_.StartAgent("node-a");
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(PutDurably(&worker, {.first = 1, .count = 4}), 4);
  const std::string directory = agent.options().disk_dir;
  fs::rename(directory, directory + "-moved");
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(PutDurably(&worker, {100 + 8 * i, 8}), 0);
  EXPECT_THAT(worker.Get({.first = 100, .count = 8}), SizeIs(8)) << "published all the same";
  EXPECT_FALSE(agent.Status().disks(0).serving());
  EXPECT_THAT(agent.Status().disks(0).health(), HasSubstr(directory + " is gone"));
  EXPECT_THAT(agent.LogText(), HasSubstr(directory + " is gone"));
  EXPECT_EQ(agent.Stop(Patience(kExitLimit)), 0);
}

// Once, an agent ended when its only disk could not be opened.
TEST_F(DiskStartTest, AnOnlyDiskWhoseManifestDoesNotOpenIsServedWithout) {
  AgentProcess& agent = MakeDisk();
  const std::string manifest = agent.options().disk_dir + "/manifest";
  fs::rename(manifest, manifest + "-kept");
  fs::create_symlink("/no/such/volume", manifest);
  ExpectServesWithoutDisk(&agent, agent.options().disk_dir, "cannot stat " + manifest);
  fs::remove(manifest);
  fs::rename(manifest + "-kept", manifest);
  ExpectAllHit(&agent);
}

TEST_F(DiskStartTest, AMissingDirectoryEndsTheStart) {
  AgentProcess& agent =
      cluster_.AddAgent("node-b", {{"disk_dir", cluster_.disk_root() + "/no/such"}});
  ASSERT_EQ(agent.Spawn(), absl::OkStatus());
  EXPECT_EQ(agent.process().Wait(Patience(kExitLimit)), 1);
  EXPECT_THAT(agent.LogText(), HasSubstr(cluster_.disk_root() + "/no/such: No such file"));
}

// Once, 0 of 64 blocks were there, the health was ok, and no line said anything.
TEST_F(DiskStartTest, ADiskWithoutTheLogOfItsManifestSaysThatItStartsEmpty) {
  AgentProcess& agent = MakeDisk();
  for (const auto& entry : fs::directory_iterator(agent.options().disk_dir + "/manifest")) {
    if (entry.path().extension() == ".log") fs::remove(entry.path());
  }
  ASSERT_EQ(agent.Start().status(), absl::OkStatus());
  EXPECT_THAT(agent.LogText(), HasSubstr(agent.options().disk_dir + " starts empty: "));
  EXPECT_TRUE(agent.Status().disks(0).serving());
  EXPECT_THAT(agent.Status().disks(0).health(), HasSubstr("healthy; started empty: "));
  TestWorker worker({.socket_dir = agent.socket_dir()});
  EXPECT_EQ(PutDurably(&worker, kPrefix), kPrefix.count);
  agent.Kill();
  ExpectAllHit(&agent);
}

// The disk lies in a file system of its own.
class MountedDiskTest : public DiskStartTest {
 protected:
  MountedDiskTest() : mount_point_(cluster_.disk_root() + "/mounted") {
    fs::create_directory(mount_point_);
    mounted_ = mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, "size=300m") == 0;
  }
  ~MountedDiskTest() override {
    if (mounted_) umount2(mount_point_.c_str(), MNT_DETACH);
  }
  void SetUp() override {
    if (!mounted_) GTEST_SKIP() << "SKIPPED, NOT PROVEN: mounting a tmpfs needs root";
  }
  Flags InIt(const std::string& bytes) const {
    return {{"disk_dir", mount_point_ + "/disk"}, {"disk_bytes", bytes}};
  }

  const std::string mount_point_;
  bool mounted_ = false;
};

// Once, RocksDB aborted the agent.
TEST_F(MountedDiskTest, OnAFullFileSystemIsServedWithout) {
  AgentProcess& agent = MakeDisk(InIt("64MiB"));
  const std::string filler = mount_point_ + "/filler";
  const int file = open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  struct statvfs system = {};
  ASSERT_EQ(fstatvfs(file, &system), 0);
  ASSERT_EQ(posix_fallocate(file, 0, static_cast<off_t>(system.f_bavail * system.f_frsize)), 0);
  close(file);
  ExpectServesWithoutDisk(&agent, mount_point_ + "/disk", "has 0 bytes free and needs");
  fs::remove(filler);
  ExpectAllHit(&agent);
}

TEST_F(MountedDiskTest, OnAFileSystemThatIsReadOnlyIsServedWithout) {
  AgentProcess& agent = MakeDisk(InIt("64MiB"));
  // A ring of a process that was killed lets its files go a little later.
  ASSERT_TRUE(Await(absl::Seconds(10), [&] {
    return mount("tmpfs", mount_point_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }));
  ExpectServesWithoutDisk(&agent, mount_point_ + "/disk", "Read-only file system");
  ASSERT_EQ(mount("tmpfs", mount_point_.c_str(), "tmpfs", MS_REMOUNT, nullptr), 0);
  ExpectAllHit(&agent);
}

// Once, such a disk stored nothing, and status and doctor found it well.
TEST_F(MountedDiskTest, ThatLeavesNoRoomForItsManifestEndsTheStart) {
  AgentProcess& agent = cluster_.AddAgent("node-b", InIt("256MiB"));
  ASSERT_EQ(agent.Spawn(), absl::OkStatus());
  EXPECT_EQ(agent.process().Wait(Patience(kExitLimit)), 1);
  EXPECT_THAT(agent.LogText(), AllOf(HasSubstr("bytes free and needs"), HasSubstr("--disk_bytes")));
  struct statvfs system = {};
  ASSERT_EQ(statvfs(mount_point_.c_str(), &system), 0);
  EXPECT_GT(system.f_bavail * system.f_frsize, uint64_t{298} << 20);
}

}  // namespace
}  // namespace kvtier::testing

// Tests how a disk opens on a file system that has too little room.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/open_disk.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using testing::DiskForm;
using testing::DiskRig;
using testing::FreshDirectory;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Each test has a file system of 160 MiB.
class DiskFullStartTest : public ::testing::Test {
 protected:
  DiskFullStartTest() : mount_point_(FreshDirectory("start")) {
    std::filesystem::create_directory(mount_point_);
    mounted_ = mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, "size=160m") == 0;
  }
  void SetUp() override {
    if (!mounted_) GTEST_SKIP() << "SKIPPED, NOT PROVEN: mounting a tmpfs needs root";
  }
  ~DiskFullStartTest() override {
    std::error_code error;
    if (mounted_) umount2(mount_point_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(mount_point_, error);
  }
  absl::StatusOr<OpenedDisk> Open(uint32_t segments, uint64_t segment_bytes) {
    return OpenDisk(
        &executor_,
        {.directory = directory(), .segment_bytes = segment_bytes, .segment_count = segments},
        DiskIoKind::kPread);
  }
  std::string directory() const { return mount_point_ + "/disk"; }
  uint64_t FreeBytes() const {
    struct statvfs system = {};
    statvfs(mount_point_.c_str(), &system);
    return uint64_t{system.f_bavail} * system.f_frsize;
  }
  // Takes space until only so much is left.
  void LeaveFree(uint64_t bytes) {
    const std::string filler = mount_point_ + "/filler";
    std::filesystem::remove(filler);
    const int file = open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(posix_fallocate(file, 0, static_cast<off_t>(FreeBytes() - bytes)), 0);
    close(file);
  }

  ThreadExecutor executor_{"test-executor"};
  const std::string mount_point_;
  bool mounted_ = false;
};

// Once, everything that was free stayed allocated after the refusal.
TEST_F(DiskFullStartTest, ADiskThatDoesNotFitIsRefusedAndLeavesAllFree) {
  const uint64_t before = FreeBytes();
  for (const uint32_t segments : {11, 40}) {
    const absl::Status refused = Open(segments, 16 * kMiB).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("disk " + directory()), HasSubstr(" free beside them")));
    EXPECT_GE(FreeBytes() + kMiB, before);
  }
  EXPECT_TRUE(Open(3, 16 * kMiB).ok());
}

// Once, such a disk stored nothing and said that it was healthy.
TEST_F(DiskFullStartTest, ADiskThatLeavesItsManifestNoRoomIsRefusedWithBothNumbers) {
  const uint64_t before = FreeBytes();
  const absl::Status refused = Open(6, 16 * kMiB).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("6 segments of 16777216 bytes"), HasSubstr("bytes free and needs"),
                    HasSubstr(std::to_string(kNewManifestBytes)), HasSubstr("--disk_bytes")));
  EXPECT_GE(FreeBytes() + kMiB, before);
}

TEST_F(DiskFullStartTest, ADiskThatCannotGrowKeepsWhatItHas) {
  DiskRig rig(DiskForm::kPread, {.segments = 3, .segment_bytes = 16 * kMiB}, directory(),
              [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  ASSERT_EQ(rig.Put(1, 5000), absl::OkStatus());
  rig.Close();
  const uint64_t before = FreeBytes();
  EXPECT_TRUE(absl::IsResourceExhausted(Open(40, 16 * kMiB).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Open(3, 64 * kMiB).status()));
  EXPECT_GE(FreeBytes() + kMiB, before);
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  EXPECT_EQ(rig.Get(1, 5000), absl::OkStatus());
}

// Once, RocksDB aborted the agent.
TEST_F(DiskFullStartTest, ADiskWhoseFileSystemHasBecomeFullIsNotOpenedAndLosesNothing) {
  DiskRig rig(DiskForm::kPread, {}, directory(), [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  ASSERT_EQ(rig.Put(1, 5000), absl::OkStatus());
  rig.Close();
  for (const uint64_t free : {uint64_t{0}, kManifestOpenBytes - kMiB}) {
    LeaveFree(free);
    const absl::Status failed = rig.Open();
    EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
    EXPECT_THAT(std::string(failed.message()),
                AllOf(HasSubstr(directory()), HasSubstr(std::to_string(kManifestOpenBytes))));
  }
  LeaveFree(kManifestOpenBytes + kMiB);
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  EXPECT_EQ(rig.Get(1, 5000), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(rig.tier->HasRoom()));
}

}  // namespace
}  // namespace kvtier

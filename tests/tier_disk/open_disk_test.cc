// Tests the directory of one disk: layout, lock, resizing, loss of the manifest.
#include "tier_disk/directory/open_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::FreshDirectory;
using ::testing::HasSubstr;

constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;

class OpenDiskTest : public ::testing::Test {
 protected:
  OpenDiskTest() : executor_("test-executor"), directory_(FreshDirectory("open")) {}
  ~OpenDiskTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  absl::StatusOr<OpenedDisk> Open(uint32_t segments = 3, uint64_t segment_bytes = kSegmentBytes) {
    return OpenDisk(
        &executor_,
        {.directory = directory_, .segment_bytes = segment_bytes, .segment_count = segments},
        DiskIoKind::kAuto);
  }
  uint64_t SizeOf(const std::string& name) {
    return std::filesystem::file_size(directory_ + "/segments/" + name);
  }

  ThreadExecutor executor_;
  const std::string directory_;
};

TEST_F(OpenDiskTest, MakesAndPreallocatesItsFiles) {
  const auto disk = Open();
  ASSERT_TRUE(disk.ok()) << disk.status();
  struct stat file = {};
  ASSERT_EQ(stat((directory_ + "/segments/00000002.seg").c_str(), &file), 0);
  EXPECT_EQ(file.st_size, static_cast<off_t>(kSegmentBytes));
  EXPECT_GE(file.st_blocks * 512, static_cast<off_t>(kSegmentBytes));
  EXPECT_EQ(file.st_mode & 0777, 0600);
}

TEST_F(OpenDiskTest, ADirectoryInUseIsRefusedByName) {
  const auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_NE(second.status().message().find(directory_), absl::string_view::npos);
}

TEST_F(OpenDiskTest, AMissingParentIsAnErrorThatNamesThePath) {
  const auto disk = OpenDisk(&executor_, {.directory = directory_ + "/no/such", .segment_count = 2},
                             DiskIoKind::kAuto);
  EXPECT_TRUE(absl::IsNotFound(disk.status()));
  EXPECT_NE(disk.status().message().find(directory_), absl::string_view::npos);
}

TEST_F(OpenDiskTest, BadLayoutsAreInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(Open(1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(kMaxSegments + 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(2, 4096).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(2, kSegmentBytes + 1).status()));
}

TEST_F(OpenDiskTest, FollowsANewLayout) {
  ASSERT_TRUE(Open(4, 2 * kSegmentBytes).ok());
  ASSERT_TRUE(Open(2, kSegmentBytes).ok());
  EXPECT_EQ(SizeOf("00000000.seg"), kSegmentBytes);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/segments/00000002.seg"));
  ASSERT_TRUE(Open(3, 2 * kSegmentBytes).ok());
  EXPECT_EQ(SizeOf("00000002.seg"), 2 * kSegmentBytes);
}

// Generations start over with the manifest, so the earlier records must be gone.
TEST_F(OpenDiskTest, WithoutItsManifestTheDiskStartsEmpty) {
  for (const bool damage : {false, true}) {
    SCOPED_TRACE(damage);
    {
      auto disk = Open();
      ASSERT_TRUE(disk.ok()) << disk.status();
      PageBuffer page = testing::DiskPayload(1, 4096);
      const std::array<std::span<const std::byte>, 1> buffers = {page.bytes()};
      ASSERT_EQ(testing::RunTask(&executor_,
                                 disk->disk->Write(IoClass::kOffload, {SegmentId{0}, 0}, buffers)),
                absl::OkStatus());
    }
    if (damage) {
      std::ofstream(directory_ + "/manifest/CURRENT") << "nonsense";
    } else {
      std::filesystem::remove_all(directory_ + "/manifest");
    }
    auto disk = Open();
    ASSERT_TRUE(disk.ok()) << disk.status();
    PageBuffer page(4096);
    const std::array<std::span<std::byte>, 1> buffers = {page.bytes()};
    ASSERT_EQ(testing::RunTask(&executor_,
                               disk->disk->Read(IoClass::kForeground, {SegmentId{0}, 0}, buffers)),
              absl::OkStatus());
    EXPECT_TRUE(std::all_of(page.bytes().begin(), page.bytes().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_F(OpenDiskTest, AFileSystemTooSmallIsResourceExhausted) {
  std::filesystem::create_directory(directory_);
  if (mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "SKIPPED, NOT PROVEN: mounting a tmpfs needs root";
  }
  const auto disk = Open(4);
  umount(directory_.c_str());
  if (absl::IsFailedPrecondition(disk.status())) {
    GTEST_SKIP() << "SKIPPED, NOT PROVEN: an old kernel: " << disk.status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(disk.status())) << disk.status();
  EXPECT_THAT(std::string(disk.status().message()),
              AllOf(HasSubstr("disk " + directory_), HasSubstr("asked for 4194304 bytes"),
                    HasSubstr("in 4 segments"), ContainsRegex("[0-9]+ free beside them")));
}

// O_DIRECT may be refused, as by tmpfs before Linux 6.6.
TEST_F(OpenDiskTest, ABufferedDiskWorksOnATmpfs) {
  const std::string directory = absl::StrCat("/dev/shm/kvtier-open-", getpid());
  const DiskLayout layout{
      .directory = directory, .segment_bytes = kSegmentBytes, .segment_count = 3, .buffered = true};
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "SKIPPED, NOT PROVEN: no /dev/shm";
  for (const bool again : {false, true}) {
    const auto disk = OpenDisk(&executor_, layout, DiskIoKind::kAuto);
    ASSERT_TRUE(disk.ok()) << disk.status();
    EXPECT_EQ(disk->io, DiskIoKind::kPread);
    PageBuffer out = testing::DiskPayload(1, 65536);
    const std::array<std::span<const std::byte>, 1> from = {out.bytes()};
    if (!again) {
      ASSERT_EQ(testing::RunTask(&executor_,
                                 disk->disk->Write(IoClass::kOffload, {SegmentId{2}, 4096}, from)),
                absl::OkStatus());
    }
    PageBuffer in(65536);
    const std::array<std::span<std::byte>, 1> into = {in.bytes()};
    ASSERT_EQ(testing::RunTask(&executor_,
                               disk->disk->Read(IoClass::kForeground, {SegmentId{2}, 4096}, into)),
              absl::OkStatus());
    EXPECT_TRUE(testing::HoldsDiskBlock(1, 65536, &in));
  }
  std::filesystem::remove_all(directory);
}

// Blocks of 4 KiB to 4 MiB share real files, through reclaim and a reopening.
TEST_F(OpenDiskTest, BlocksOf4KiBTo4MiBShareOneDisk) {
  testing::DiskRig rig(testing::DiskForm::kPread,
                       {.segments = 4, .segment_bytes = uint64_t{16} << 20}, directory_,
                       [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  constexpr uint64_t kLengths[] = {4096, uint64_t{4} << 20, 65536, uint64_t{1} << 20, 4096};
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(rig.Put(i, kLengths[i % std::size(kLengths)]), absl::OkStatus());
  }
  EXPECT_GT(rig.tier->stats().evictions, 0);
  for (uint64_t i = 50; i < 60; ++i) {
    EXPECT_EQ(rig.Get(i, kLengths[i % std::size(kLengths)]), absl::OkStatus()) << i;
  }
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  EXPECT_EQ(rig.Get(59, kLengths[59 % std::size(kLengths)]), absl::OkStatus());
  rig.tier->Audit();
}

}  // namespace
}  // namespace kvtier

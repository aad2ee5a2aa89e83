#include "tier_disk/io/named_directory.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/testing/still_clock.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

class NamedDirectoryTest : public ::testing::Test {
 protected:
  NamedDirectoryTest() : path_(testing::FreshDirectory("named")) {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ + "/file") << "x";
    id_ = *FileIdOf(path_ + "/file");
    directory_ = *NamedDirectory::Open(path_, &clock_);
  }
  ~NamedDirectoryTest() override {
    std::error_code error;
    for (const char* const end : {"", "-moved"}) std::filesystem::remove_all(path_ + end, error);
  }
  absl::Status Check() {
    return directory_->Check([this] {
      ++looks_;
      return directory_->CheckFile("file", id_);
    });
  }

  // Makes files until the directory has another ctime: a kernel's steps are milliseconds.
  void ChangeCtime() {
    struct stat before = {};
    struct stat now = {};
    stat(path_.c_str(), &before);
    for (int i = 0; i == 0 || now.st_ctim.tv_nsec == before.st_ctim.tv_nsec; ++i) {
      std::ofstream(path_ + "/other-" + std::to_string(i)) << "x";
      stat(path_.c_str(), &now);
    }
  }

  testing::StillClock clock_;
  const std::string path_;
  FileId id_;
  std::unique_ptr<NamedDirectory> directory_;
  int looks_ = 0;
};

TEST_F(NamedDirectoryTest, LooksAgainOnlyAfterANameChangedAndUntilItsCtimeIsOld) {
  EXPECT_EQ(Check(), absl::OkStatus());
  clock_.Advance(kCtimeStep - absl::Nanoseconds(1));
  EXPECT_EQ(Check(), absl::OkStatus());
  EXPECT_EQ(looks_, 2) << "a name may have changed since, within one step of the ctime";
  clock_.Advance(absl::Nanoseconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Check(), absl::OkStatus());
  EXPECT_EQ(looks_, 3);
  ChangeCtime();
  EXPECT_EQ(Check(), absl::OkStatus());
  EXPECT_EQ(looks_, 4);
}

TEST_F(NamedDirectoryTest, AFileThatIsRemovedOrReplacedIsNamed) {
  clock_.Advance(kCtimeStep);
  EXPECT_EQ(Check(), absl::OkStatus());
  std::filesystem::rename(path_ + "/file", path_ + "/kept");
  EXPECT_EQ(Check(), absl::NotFoundError(path_ + "/file is gone"));
  std::ofstream(path_ + "/file") << "x";
  EXPECT_EQ(Check(), absl::NotFoundError(path_ + "/file is not what was opened by that name"));
  std::filesystem::rename(path_ + "/kept", path_ + "/file");
  EXPECT_EQ(Check(), absl::OkStatus());
}

TEST_F(NamedDirectoryTest, ADirectoryThatIsMovedOrReplacedIsNamed) {
  clock_.Advance(kCtimeStep);
  std::filesystem::rename(path_, path_ + "-moved");
  EXPECT_EQ(Check(), absl::NotFoundError(path_ + " is gone"));
  std::filesystem::copy(path_ + "-moved", path_);
  EXPECT_EQ(Check(), absl::NotFoundError(path_ + " is not what was opened by that name"));
}

TEST_F(NamedDirectoryTest, ALinkToTheSameDirectoryNamesIt) {
  std::filesystem::rename(path_, path_ + "-moved");
  std::filesystem::create_symlink(path_ + "-moved", path_);
  EXPECT_EQ(Check(), absl::OkStatus());
}

TEST_F(NamedDirectoryTest, AMountOverItHidesIt) {
  if (mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "SKIPPED, NOT PROVEN: mounting a tmpfs needs root";
  }
  EXPECT_TRUE(absl::IsNotFound(Check()));
  umount2(path_.c_str(), MNT_DETACH);
  EXPECT_EQ(Check(), absl::OkStatus());
}

}  // namespace
}  // namespace kvtier

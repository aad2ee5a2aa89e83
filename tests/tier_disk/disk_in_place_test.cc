// Tests that no put is acknowledged on a disk of which the next start would not find something, and
// that a start finds out what a manifest has lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/fsck.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskRig;
using testing::FreshDirectory;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uint64_t kLength = 5000;
constexpr uint64_t kBlocks = 64;

class DiskInPlaceTest : public ::testing::Test {
 protected:
  DiskInPlaceTest() : path_(FreshDirectory("in-place")) {}
  ~DiskInPlaceTest() override {
    rig_.reset();
    std::error_code error;
    for (const char* const end : {"", "-moved"}) fs::remove_all(path_ + end, error);
  }
  void Make() {
    rig_ = std::make_unique<DiskRig>(DiskForm::kPread, DiskRig::Shape{}, path_,
                                     [](const BlockKey&) {});
    ASSERT_EQ(rig_->Open(), absl::OkStatus());
  }
  void PutAll() {
    for (uint64_t i = 0; i < kBlocks; ++i) ASSERT_EQ(rig_->Put(i, kLength), absl::OkStatus());
  }
  uint64_t Hits() {
    uint64_t hits = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) hits += rig_->Get(i, kLength).ok() ? 1 : 0;
    return hits;
  }
  // Returns the logs of the manifest, the oldest first.
  std::vector<fs::path> Logs() const {
    std::vector<fs::path> logs;
    for (const auto& entry : fs::directory_iterator(path_ + "/manifest")) {
      if (entry.path().extension() == ".log") logs.push_back(entry.path());
    }
    std::sort(logs.begin(), logs.end());
    return logs;
  }
  // Opens a disk that must say that it lost its blocks, and work.
  void ExpectStartsEmpty() {
    ASSERT_EQ(rig_->Open(), absl::OkStatus());
    EXPECT_THAT(rig_->opened().lost(), HasSubstr("manifest"));
    EXPECT_EQ(rig_->tier->block_count(), 0u);
    PutAll();
    ASSERT_EQ(rig_->Open(), absl::OkStatus());
    EXPECT_EQ(rig_->opened().lost(), "");
    EXPECT_EQ(Hits(), kBlocks);
  }

  const std::string path_;
  std::unique_ptr<DiskRig> rig_;
};

// Once, 200 of 200 puts were acknowledged, and lost at the next start.
TEST_F(DiskInPlaceTest, NoPutIsAcknowledgedOnceAPartOfTheDiskIsNotWhereItWas) {
  const std::string moved = path_ + "-moved";
  const auto move = [&](const std::string& name) {
    return [this, moved, name] { fs::rename(path_ + name, moved); };
  };
  const auto copy = [&](const std::string& name) {
    return [this, moved, name] {
      fs::rename(path_ + name, moved);
      fs::copy(moved, path_ + name, fs::copy_options::recursive);
    };
  };
  const std::pair<const char*, std::function<void()>> losses[] = {
      {"directory", move("")},
      {"copied directory", copy("")},
      {"lock", move("/LOCK")},
      {"superblock", move("/superblock")},
      {"copied superblock", copy("/superblock")},
      {"segments", move("/segments")},
      {"a segment of no block", move("/segments/00000005.seg")},
      {"copied segment", copy("/segments/00000000.seg")},
      {"manifest", move("/manifest")},
      {"copied manifest", copy("/manifest")},
      {"CURRENT", move("/manifest/CURRENT")}};
  for (const auto& [what, lose] : losses) {
    SCOPED_TRACE(what);
    Make();
    PutAll();
    EXPECT_EQ(rig_->Run(rig_->tier->Confirm()), absl::OkStatus());
    lose();
    for (uint64_t i = 0; i < 3; ++i) {
      const absl::Status put = rig_->Put(kBlocks + i, kLength);
      EXPECT_TRUE(absl::IsNotFound(put)) << put;
      EXPECT_THAT(std::string(put.message()), HasSubstr(path_));
    }
    EXPECT_TRUE(absl::IsNotFound(rig_->Run(rig_->tier->Confirm())));
    EXPECT_TRUE(absl::IsNotFound(rig_->Erase(1)));
    EXPECT_EQ(rig_->tier->block_count(), kBlocks - 1);
    rig_.reset();
    for (const char* const end : {"", "-moved"}) fs::remove_all(path_ + end);
  }
}

TEST_F(DiskInPlaceTest, AFileBesideTheDisksOwnIsNoLoss) {
  Make();
  for (uint64_t i = 0; i < 20; ++i) {
    fs::copy(path_ + "/superblock", path_ + "/copy");
    fs::rename(path_ + "/copy", path_ + "/segments/copy-" + std::to_string(i));
    ASSERT_EQ(rig_->Put(i, kLength), absl::OkStatus());
  }
}

// Once, 0 of 64 blocks were there, and nothing said so.
TEST_F(DiskInPlaceTest, ADiskWithoutItsLogsStartsEmptyAndSaysSo) {
  Make();
  PutAll();
  rig_->Close();
  for (const fs::path& log : Logs()) fs::remove(log);
  ExpectStartsEmpty();
}

TEST_F(DiskInPlaceTest, ADiskWithoutTheLogOfItsBlocksStartsEmptyAndSaysSo) {
  Make();
  PutAll();
  ASSERT_EQ(rig_->Open(), absl::OkStatus());
  rig_->Close();
  const std::vector<fs::path> logs = Logs();
  ASSERT_GE(logs.size(), 2u);
  EXPECT_TRUE(Fsck({.directory = path_})->clean());
  fs::remove(logs.front());
  const absl::StatusOr<FsckReport> report = Fsck({.directory = path_});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->rows_are_lost);
  EXPECT_FALSE(report->clean());
  ExpectStartsEmpty();
}

TEST_F(DiskInPlaceTest, ADiskWithAnEmptiedLogStartsEmptyAndSaysSo) {
  Make();
  PutAll();
  rig_->Close();
  for (const fs::path& log : Logs()) fs::resize_file(log, 0);
  ExpectStartsEmpty();
}

// After many rounds of reclaim, starts and erases a manifest has still lost nothing.
TEST_F(DiskInPlaceTest, AManifestThatLostNothingIsNeverDoubted) {
  Make();
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 700; ++i) {
      ASSERT_EQ(rig_->Put(round * 700 + i, kLength), absl::OkStatus());
      if (i % 7 == 0) {
        ASSERT_EQ(rig_->Erase(round * 700 + i), absl::OkStatus());
      }
    }
    ASSERT_GT(rig_->tier->reclaimed().segments, 0u);
    ASSERT_EQ(rig_->Open(), absl::OkStatus());
    EXPECT_EQ(rig_->opened().lost(), "");
    EXPECT_GT(rig_->recovery.recovered_blocks, 0u);
  }
}

}  // namespace
}  // namespace kvtier

// Tests Fsck over real directories that a test damaged.
#include "tier_disk/fsck.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/superblock_file.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;
using testing::FreshDirectory;
using testing::TestSecret;
using SuperblockState = FsckReport::SuperblockState;

constexpr uint64_t kLength = 12000;
constexpr uint64_t kBlocks = 100;
constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;
constexpr uint64_t kPerSegment = kSegmentBytes / RecordBytes(kLength);

class FsckTest : public ::testing::Test {
 protected:
  // Puts a hundred blocks on disk, and stops the agent.
  explicit FsckTest(std::shared_ptr<const MasterSecret> secret = nullptr)
      : directory_(FreshDirectory("fsck")),
        rig_(DiskForm::kPread,
             {.segments = 4, .segment_bytes = kSegmentBytes, .secret = std::move(secret)},
             directory_, [](const BlockKey&) {}) {
    EXPECT_EQ(rig_.Open(), absl::OkStatus());
    for (uint64_t i = 0; i < kBlocks; ++i) EXPECT_EQ(rig_.Put(i, kLength), absl::OkStatus());
    rig_.Close();
  }

  std::string SegmentPath(uint64_t segment) const {
    return directory_ + "/segments/0000000" + std::to_string(segment) + ".seg";
  }
  void Write(const std::string& path, uint64_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
    ASSERT_TRUE(file.flush().good()) << path;
  }
  std::string Read(const std::string& path, uint64_t offset, uint64_t bytes) {
    std::string text(bytes, '\0');
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(text.data(), static_cast<std::streamsize>(bytes));
    return text;
  }
  // Returns the offset of the record of block `number`, put as the number-th.
  static uint64_t OffsetOf(uint64_t number) { return number % kPerSegment * RecordBytes(kLength); }
  void Flip(uint64_t number, uint64_t at) {
    const std::string path = SegmentPath(number / kPerSegment);
    std::string byte = Read(path, OffsetOf(number) + at, 1);
    byte[0] = static_cast<char>(byte[0] ^ 4);
    Write(path, OffsetOf(number) + at, byte);
  }
  void ChangeRow(const std::string& row) {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, directory_ + "/manifest", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::string value;
    ASSERT_TRUE(db->Get({}, row, &value).ok());
    value[value.size() / 2] = static_cast<char>(value[value.size() / 2] ^ 8);
    ASSERT_TRUE(db->Put({}, row, value).ok());
  }
  // Returns every file of the directory with its bytes.
  std::map<std::string, std::string> Bytes() const {
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory_)) {
      if (!file.is_regular_file()) continue;
      std::ifstream stream(file.path(), std::ios::binary);
      files[file.path()] = {std::istreambuf_iterator<char>(stream), {}};
    }
    return files;
  }
  // Runs Fsck, and checks its promise to write nothing.
  FsckReport Look(std::shared_ptr<const MasterSecret> secret = nullptr) {
    const auto before = Bytes();
    const absl::StatusOr<FsckReport> report =
        Fsck({.directory = directory_, .secret = std::move(secret)});
    EXPECT_EQ(report.status(), absl::OkStatus());
    EXPECT_TRUE(Bytes() == before) << "the directory was changed";
    return report.value_or(FsckReport());
  }

  const std::string directory_;
  DiskRig rig_;
};

TEST_F(FsckTest, AnUndamagedDiskIsClean) {
  const FsckReport report = Look();
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.segments, 4);
  EXPECT_EQ(report.segment_bytes, kSegmentBytes);
  EXPECT_EQ(report.rows_good, kBlocks + 4);
  EXPECT_EQ(report.records, kBlocks);
  EXPECT_EQ(report.bytes, kBlocks * RecordBytes(kLength));
  EXPECT_EQ(report.superblock_state, SuperblockState::kGood);
  EXPECT_TRUE(report.findings.empty());
}

TEST_F(FsckTest, FlippedBitsOfHeaderAndPayloadAreFoundByBlockAndPlace) {
  Flip(3, 17);
  Flip(80, kRecordHeaderBytes + 7000);
  const FsckReport report = Look();
  EXPECT_FALSE(report.clean());
  EXPECT_EQ(report.records_damaged, 2);
  ASSERT_EQ(report.findings.size(), 2);
  EXPECT_NE(report.findings[0].find(DiskKey(3).ToHex()), std::string::npos);
}

TEST_F(FsckTest, TwoRecordsSwappedAreBothDamaged) {
  const std::string one = Read(SegmentPath(0), OffsetOf(1), RecordBytes(kLength));
  Write(SegmentPath(0), OffsetOf(1), Read(SegmentPath(0), OffsetOf(2), RecordBytes(kLength)));
  Write(SegmentPath(0), OffsetOf(2), one);
  EXPECT_EQ(Look().records_damaged, 2);
}

TEST_F(FsckTest, ATruncatedSegmentLosesWhatLayBehindItsEnd) {
  std::filesystem::resize_file(SegmentPath(0), OffsetOf(10) + 4096);
  const FsckReport report = Look();
  EXPECT_EQ(report.segments_short, 1);
  EXPECT_EQ(report.records_damaged, kPerSegment - 10);
  EXPECT_EQ(report.records_unreadable, 0);
}

TEST_F(FsckTest, AMissingSegmentIsNamedAndItsRecordsAreDamaged) {
  std::filesystem::remove(SegmentPath(0));
  const FsckReport report = Look();
  EXPECT_EQ(report.segments_missing, 1);
  EXPECT_EQ(report.records_damaged, kPerSegment);
}

TEST_F(FsckTest, ADamagedRowIsCountedAndItsRecordIsNotRead) {
  ChangeRow(BlockRowKey(DiskKey(5)));
  const FsckReport report = Look();
  EXPECT_EQ(report.rows_damaged, 1);
  EXPECT_EQ(report.records, kBlocks - 1);
  EXPECT_FALSE(report.clean());
}

TEST_F(FsckTest, RowsOfAnOlderGenerationAreNoDamage) {
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, directory_ + "/manifest", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    const std::string value = EncodeGeneration({.segment = SegmentId{0}, .generation = 1000});
    ASSERT_TRUE(db->Put({}, GenerationRowKey(SegmentId{0}), value).ok());
  }
  const FsckReport report = Look();
  EXPECT_EQ(report.rows_stale, kPerSegment);
  EXPECT_EQ(report.records, kBlocks - kPerSegment);
  EXPECT_TRUE(report.clean());
}

TEST_F(FsckTest, RepairErasesTheRowsOfWhatIsDamagedAndNothingElse) {
  Flip(3, 17);
  ChangeRow(BlockRowKey(DiskKey(5)));
  const absl::StatusOr<FsckReport> repaired = Fsck({.directory = directory_, .repair = true});
  ASSERT_EQ(repaired.status(), absl::OkStatus());
  EXPECT_FALSE(repaired->clean());  // The report tells what was found.
  EXPECT_EQ(repaired->rows_erased, 2);
  const FsckReport report = Look();
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.records, kBlocks - 2);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.recovered_blocks, kBlocks - 2);
  EXPECT_EQ(rig_.Get(4, kLength), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(3, kLength)));
}

TEST_F(FsckTest, ARepairOfACleanDiskWritesNothing) {
  const auto before = Bytes();
  ASSERT_EQ(Fsck({.directory = directory_, .repair = true}).status(), absl::OkStatus());
  EXPECT_TRUE(Bytes() == before);
}

TEST_F(FsckTest, ARunningAgentIsRefused) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  const absl::Status status = Fsck({.directory = directory_}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  rig_.Close();
  EXPECT_TRUE(Look().clean());
}

TEST_F(FsckTest, WhatIsNoDiskIsNotFound) {
  const absl::Status status = Fsck({.directory = directory_ + "/segments"}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  std::filesystem::remove_all(directory_ + "/manifest");
  EXPECT_TRUE(absl::IsNotFound(Fsck({.directory = directory_}).status()));
}

TEST_F(FsckTest, AManifestBeyondOpeningIsDataLoss) {
  Write(directory_ + "/manifest/CURRENT", 0, "NONSENSE");
  const absl::Status status = Fsck({.directory = directory_}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

class FsckSuperblockTest : public FsckTest {
 protected:
  FsckSuperblockTest() {
    const absl::StatusOr<std::optional<Superblock>> read = SuperblockFile(directory_).Read();
    EXPECT_TRUE(read.ok() && read->has_value());
    superblock_ = **read;
  }
  const std::string path_ = directory_ + "/superblock";
  Superblock superblock_;
};

TEST_F(FsckSuperblockTest, AGoodOneIsShownAndGivesTheGeometry) {
  std::filesystem::remove(SegmentPath(3));
  const FsckReport report = Look();
  EXPECT_EQ(report.superblock_state, SuperblockState::kGood);
  EXPECT_EQ(report.superblock, superblock_);
  EXPECT_EQ(report.segments_missing, 1);  // Only the superblock tells of the last one.
}

TEST_F(FsckSuperblockTest, WithoutOneTheDiskIsDamaged) {
  std::filesystem::remove(path_);
  const FsckReport report = Look();
  EXPECT_EQ(report.superblock_state, SuperblockState::kNone);
  EXPECT_EQ(report.records, kBlocks);
  EXPECT_FALSE(report.clean());
}

TEST_F(FsckSuperblockTest, OneDamagedCopyIsFoundAndTheOtherCounts) {
  Write(path_, 4096 + 100, "x");
  const FsckReport report = Look();
  EXPECT_EQ(report.superblock_state, SuperblockState::kOneCopyDamaged);
  EXPECT_EQ(report.superblock, superblock_);
  EXPECT_FALSE(report.clean());
}

TEST_F(FsckSuperblockTest, TwoDamagedCopiesAreFoundAndTheRestIsStillChecked) {
  Write(path_, 100, "x");
  Write(path_, 4096 + 200, "x");
  const FsckReport report = Look();
  EXPECT_EQ(report.superblock_state, SuperblockState::kDamaged);
  EXPECT_EQ(report.records, kBlocks);
  EXPECT_FALSE(report.clean());
}

// Encrypted disks.

class SealedFsckTest : public FsckTest {
 protected:
  SealedFsckTest() : FsckTest(TestSecret(1)) {}
};

TEST_F(SealedFsckTest, WithTheSecretEveryPayloadIsVerified) {
  EXPECT_TRUE(Look(TestSecret(1)).clean());
  Flip(3, 100);  // A bit of the proof.
  Flip(80, kRecordHeaderBytes + 7000);
  const FsckReport report = Look(TestSecret(1));
  EXPECT_EQ(report.records, kBlocks);
  EXPECT_EQ(report.records_damaged, 2);
  EXPECT_EQ(report.payloads_unchecked, 0);
}

TEST_F(SealedFsckTest, WithoutTheSecretHeadersAreVerifiedAndTheRestIsSaidToBeUnchecked) {
  Flip(3, 100);
  Flip(80, kRecordHeaderBytes + 7000);
  const FsckReport report = Look();
  EXPECT_EQ(report.records_damaged, 1);
  EXPECT_EQ(report.payloads_unchecked, kBlocks);
  ASSERT_EQ(report.findings.size(), 2);
  EXPECT_NE(report.findings[1].find("not checked"), std::string::npos);
}

TEST_F(SealedFsckTest, AnotherSecretIsRefusedAndTheNextOneAfterARotationIsNot) {
  const auto refused = Fsck({.directory = directory_, .secret = TestSecret(2)});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_TRUE(Look(TestSecret(2, 1)).clean());
}

TEST_F(SealedFsckTest, RecordsOfAnErasedTenantAreNoDamage) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  ASSERT_EQ(rig_.Put(kBlocks, kLength, {}, "other"), absl::OkStatus());
  ASSERT_EQ(rig_.Run(rig_.tier->EraseTenant(kNoTenant)).status(), absl::OkStatus());
  rig_.Close();
  const FsckReport report = Look(TestSecret(1));
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.records, 1);
}

}  // namespace
}  // namespace kvtier

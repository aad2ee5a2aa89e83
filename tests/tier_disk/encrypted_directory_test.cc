// Tests a disk directory with sealed payloads: what a thief finds in it, and which secrets open it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/superblock_file.h"
#include "tier_disk/manifest/rocks_manifest.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using testing::DiskForm;
using testing::DiskPayload;
using testing::DiskRig;
using testing::FormName;
using testing::FreshDirectory;
using ::testing::HasSubstr;
using testing::MakeDiskBlock;
using testing::TestSecret;

constexpr uint64_t kLength = 12000;
constexpr char kOther[] = "other";

class SealedDiskTest : public ::testing::TestWithParam<DiskForm> {
 protected:
  SealedDiskTest()
      : directory_(FreshDirectory("sealed")),
        rig_(GetParam(), {.secret = TestSecret(1)}, directory_, [](const BlockKey&) {}) {}
  void SetUp() override {
    if (const absl::Status usable = rig_.Open(); !usable.ok()) {
      GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << usable;
    }
  }
  // Returns every file below the directory, whole.
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory_)) {
      if (!file.is_regular_file()) continue;
      std::ifstream stream(file.path(), std::ios::binary);
      files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
    return files;
  }
  // Returns how many of them contain the bytes.
  template <typename Bytes>
  static int64_t CountWith(const std::vector<std::string>& files, const Bytes& bytes) {
    const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return std::count_if(files.begin(), files.end(),
                         [&](const auto& file) { return absl::StrContains(file, text); });
  }
  // Returns how many files contain a piece of a block's payload or its sum.
  int64_t FilesThatTell(uint64_t number) {
    PageBuffer slot = DiskPayload(number, kLength);
    const PayloadSum sum = MakeDiskBlock(number, kLength).sum;
    const std::vector<std::string> files = Files();
    int64_t count = 0;
    for (uint64_t at = 0; at < kLength; at += 1500) {
      count += CountWith(files, slot.bytes().subspan(at, 16));
    }
    for (const uint64_t half : {sum.hi, sum.lo}) {
      std::string bytes(reinterpret_cast<const char*>(&half), sizeof(half));
      count += CountWith(files, bytes);
      std::reverse(bytes.begin(), bytes.end());
      count += CountWith(files, bytes);
    }
    return count;
  }
  absl::Status OpenWith(std::shared_ptr<const MasterSecret> secret) {
    rig_.Close();
    rig_.Mount(std::move(secret));
    return rig_.Open();
  }
  Superblock ReadSuperblock() { return **SuperblockFile(directory_).Read(); }

  const std::string directory_;
  DiskRig rig_;
};

TEST_P(SealedDiskTest, NeitherPayloadNorItsSumIsOnTheDisk) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Open(), absl::OkStatus());  // Also checks the state that a stopped process leaves.
  ASSERT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  EXPECT_EQ(FilesThatTell(1), 0);
}

// Shows that FilesThatTell() finds a payload and its sum when they are in the clear.
TEST_P(SealedDiskTest, InTheClearBothAreThere) {
  DiskRig clear(GetParam(), {}, directory_ + "/clear", [](const BlockKey&) {});
  ASSERT_EQ(clear.Open(), absl::OkStatus());
  ASSERT_EQ(clear.Put(1, kLength), absl::OkStatus());
  EXPECT_EQ(FilesThatTell(1), kLength / 1500 + 2);
}

TEST_P(SealedDiskTest, WithoutTheSecretTheDiskIsAnErrorThatNamesItAndTheFlag) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const absl::Status refused = OpenWith(nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(directory_), HasSubstr("--disk_secret_dir")));
  ASSERT_EQ(OpenWith(TestSecret(1)), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

TEST_P(SealedDiskTest, AnotherSecretIsAnErrorThatNamesTheDiskAndTheFlag) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const absl::Status refused = OpenWith(TestSecret(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr(directory_), HasSubstr("wrong secret"), HasSubstr("--disk_secret_dir")));
  ASSERT_EQ(OpenWith(TestSecret(1)), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

TEST_P(SealedDiskTest, ARotatedSecretStaysWarmAndIsTheDisksOwnFromThenOn) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const Superblock before = ReadSuperblock();
  ASSERT_EQ(OpenWith(TestSecret(2, 1)), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  EXPECT_EQ(ReadSuperblock().identity, before.identity);
  EXPECT_NE(ReadSuperblock().key_check, before.key_check);
  ASSERT_EQ(OpenWith(TestSecret(2)), absl::OkStatus());
  EXPECT_EQ(rig_.Get(2, kLength), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenWith(TestSecret(1))));
}

TEST_P(SealedDiskTest, ADiskInTheClearStartsEmptyUnderASecret) {
  DiskRig disk(GetParam(), {}, directory_ + "/other", [](const BlockKey&) {});
  ASSERT_EQ(disk.Open(), absl::OkStatus());
  ASSERT_EQ(disk.Put(1, kLength), absl::OkStatus());
  const Superblock before = **SuperblockFile(disk.layout().directory).Read();
  disk.Close();
  disk.Mount(TestSecret(1));
  ASSERT_EQ(disk.Open(), absl::OkStatus());
  EXPECT_EQ(disk.tier->block_count(), 0);
  EXPECT_EQ(FilesThatTell(1), 0);
  const Superblock after = **SuperblockFile(disk.layout().directory).Read();
  EXPECT_EQ(after.identity.disk, before.identity.disk);
  EXPECT_NE(after.identity.incarnation, before.identity.incarnation);
  EXPECT_TRUE(after.key_check.has_value());
}

TEST_P(SealedDiskTest, WithoutItsManifestItStartsEmptyUnderItsSecretAndNoOther) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const Superblock before = ReadSuperblock();
  rig_.Close();
  for (const auto& file : std::filesystem::directory_iterator(directory_ + "/manifest")) {
    if (file.path().filename().string().starts_with("MANIFEST-")) {
      std::filesystem::remove(file.path());
    }
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenWith(TestSecret(2))));
  EXPECT_EQ(ReadSuperblock(), before);
  ASSERT_EQ(OpenWith(TestSecret(1)), absl::OkStatus());
  EXPECT_EQ(rig_.tier->block_count(), 0);
  EXPECT_NE(ReadSuperblock().identity.incarnation, before.identity.incarnation);
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  EXPECT_EQ(FilesThatTell(1), 0);
}

// RocksDB's Delete() alone would leave the salt in its log and tables.
TEST_P(SealedDiskTest, TheSaltOfAnErasedTenantIsInNoFile) {
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(rig_.Put(i, 100, {}, i % 2 == 0 ? kOther : kNoTenant), absl::OkStatus());
  }
  rig_.Close();
  auto image = RocksManifest::ReadOffline(rig_.layout().manifest_path());
  ASSERT_EQ(image.status(), absl::OkStatus());
  ASSERT_EQ(image->image.salts.size(), 2);
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    // Salt of "default" or of "other".
    const TenantSalt& erased = image->image.salts[restarted ? 0 : 1];
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    ASSERT_GT(CountWith(Files(), erased.salt.bytes()), 0);
    ASSERT_EQ(rig_.Run(rig_.tier->EraseTenant(erased.tenant)).status(), absl::OkStatus());
    EXPECT_EQ(CountWith(Files(), erased.salt.bytes()), 0);
    if (restarted) continue;
    EXPECT_GT(CountWith(Files(), image->image.salts[0].salt.bytes()), 0);
    ASSERT_EQ(rig_.Get(1, 100), absl::OkStatus());
    rig_.Close();
  }
}

INSTANTIATE_TEST_SUITE_P(Real, SealedDiskTest,
                         ::testing::Values(DiskForm::kUring, DiskForm::kPread),
                         [](const auto& form) { return FormName(form.param); });

}  // namespace
}  // namespace kvtier

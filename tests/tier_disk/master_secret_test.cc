#include "tier_disk/cipher/master_secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvtier {
namespace {

// Fixture with a directory as an operator mounts it, made and removed with the test.
class MasterSecretTest : public ::testing::Test {
 protected:
  MasterSecretTest() {
    directory_ = ::testing::TempDir() + "kvtier-secret-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }
  ~MasterSecretTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string Path(absl::string_view name) const { return absl::StrCat(directory_, "/", name); }
  void Write(absl::string_view name, const std::string& content, mode_t mode = 0400) {
    const std::string path = Path(name);
    std::ofstream(path, std::ios::binary) << content;
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  absl::Status StatusOfRead() const { return MasterSecret::Read(directory_).status(); }

  std::string directory_;
};

std::string TextOf(const KeyMaterial& material) {
  return {material.bytes().begin(), material.bytes().end()};
}

// The secret is binary: neither a zero byte nor a line's end may end it.
const std::string kMaster = std::string("\0\n\r ", 4) + std::string(28, '\x9c');
const std::string kOther(33, 'o');

TEST_F(MasterSecretTest, ReadsItsFilesByteForByte) {
  Write("master", kMaster);
  Write("master.previous", kOther, 0440);
  const auto secret = MasterSecret::Read(directory_);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(TextOf(secret->current), kMaster);
  ASSERT_TRUE(secret->previous.has_value());
  EXPECT_EQ(TextOf(*secret->previous), kOther);
}

TEST_F(MasterSecretTest, APreviousOneIsOptional) {
  Write("master", kMaster);
  const auto secret = MasterSecret::Read(directory_);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_FALSE(secret->previous.has_value());
}

TEST_F(MasterSecretTest, WithoutAMasterItIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(StatusOfRead()));
  Write("master.previous", kMaster);
  EXPECT_TRUE(absl::IsNotFound(StatusOfRead()));
  EXPECT_TRUE(absl::IsNotFound(MasterSecret::Read(Path("gone")).status()));
}

TEST_F(MasterSecretTest, TheBoundsOfItsLengthAreKept) {
  for (const auto& [bytes, good] :
       {std::pair{0, false}, {31, false}, {32, true}, {4096, true}, {4097, false}}) {
    std::filesystem::remove(Path("master"));
    Write("master", std::string(static_cast<size_t>(bytes), 'm'));
    const absl::Status read = StatusOfRead();
    EXPECT_EQ(read.code(), good ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
        << bytes << ": " << read;
  }
}

TEST_F(MasterSecretTest, FilesThatOthersReachAreRefused) {
  for (const mode_t mode : {0444, 0644, 0402, 0401, 0460, 0420}) {
    std::filesystem::remove(Path("master"));
    Write("master", kMaster, mode);
    EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfRead())) << std::oct << mode;
  }
  for (const mode_t mode : {0400, 0600, 0440, 0640}) {
    std::filesystem::remove(Path("master"));
    Write("master", kMaster, mode);
    EXPECT_EQ(StatusOfRead(), absl::OkStatus()) << std::oct << mode;
  }
  Write("master.previous", kOther, 0644);
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfRead()));
}

TEST_F(MasterSecretTest, WhatIsNoPlainFileIsRefusedAndDoesNotBlock) {
  ASSERT_EQ(mkfifo(Path("master").c_str(), 0400), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfRead()));
  std::filesystem::remove(Path("master"));
  ASSERT_EQ(mkdir(Path("master").c_str(), 0700), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfRead()));
}

TEST_F(MasterSecretTest, AnythingElseTheFileSystemSaysIsUnavailable) {
  std::filesystem::create_symlink("master", Path("master"));  // Gives ELOOP.
  EXPECT_TRUE(absl::IsUnavailable(StatusOfRead()));
}

TEST_F(MasterSecretTest, TheSameSecretTwiceIsNoRotation) {
  Write("master", kMaster);
  Write("master.previous", kMaster);
  EXPECT_TRUE(absl::IsInvalidArgument(StatusOfRead()));
}

// Kubernetes mounts a secret in this way: the files of a version are in a directory of their own,
// ..data is a link to that directory, and links beside ..data lead through it.
TEST_F(MasterSecretTest, ReadsTheVersionThatKubernetesPointsTo) {
  ASSERT_EQ(mkdir(Path("..2026_01").c_str(), 0700), 0);
  ASSERT_EQ(mkdir(Path("..2026_02").c_str(), 0700), 0);
  Write("..2026_01/master", kOther);
  Write("..2026_02/master", kMaster);
  Write("..2026_02/master.previous", kOther);
  std::filesystem::create_directory_symlink("..2026_02", Path("..data"));
  // A replacement is half done: the link `master` names another version than ..data does.
  std::filesystem::create_symlink("..2026_01/master", Path("master"));
  const auto secret = MasterSecret::Read(directory_);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(TextOf(secret->current), kMaster);
  EXPECT_TRUE(secret->previous.has_value());
}

TEST(KeyMaterialTest, MovesWithoutLeavingBytesBehind) {
  KeyMaterial first(std::vector<uint8_t>(32, 1));
  KeyMaterial second(std::vector<uint8_t>(33, 2));
  first = std::move(second);
  EXPECT_EQ(first.bytes().size(), 33);
  EXPECT_EQ(first.bytes()[0], 2);
}

}  // namespace
}  // namespace kvtier

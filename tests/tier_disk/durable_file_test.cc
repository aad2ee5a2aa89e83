#include "tier_disk/io/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

using testing::FreshDirectory;
using ::testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class DurableFileTest : public ::testing::Test {
 protected:
  DurableFileTest() : directory_(FreshDirectory("durable")) {
    std::filesystem::create_directory(directory_);
  }
  ~DurableFileTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  std::string Content(size_t limit = 100) {
    const auto bytes = ReadFileStart(directory_ + "/f", limit);
    if (!bytes.ok() || !bytes->has_value()) return "nothing";
    return {reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size()};
  }
  const std::string directory_;
};

TEST_F(DurableFileTest, AFileThatIsNotThereIsNone) { EXPECT_EQ(Content(), "nothing"); }

TEST_F(DurableFileTest, AReplacedFileIsTheNewOneAndNothingElse) {
  ASSERT_EQ(ReplaceFile(directory_, "f", Bytes("a longer text")), absl::OkStatus());
  ASSERT_EQ(ReplaceFile(directory_, "f", Bytes("short")), absl::OkStatus());
  EXPECT_EQ(Content(), "short");
  EXPECT_EQ(Content(3), "sho");
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/f.new"));
}

// Once, an agent whose file of lessons or of settings was a pipe never started.
TEST_F(DurableFileTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((directory_ + "/f").c_str(), 0600), 0);
  EXPECT_THAT(ReadFileStart(directory_ + "/f", 100).status().message(),
              HasSubstr("must be a regular file"));
  ASSERT_EQ(mkfifo((directory_ + "/g.new").c_str(), 0600), 0);
  EXPECT_THAT(ReplaceFile(directory_, "g", Bytes("text")).message(), HasSubstr("g.new"));
}

TEST_F(DurableFileTest, APartIsOverwrittenInPlace) {
  ASSERT_EQ(ReplaceFile(directory_, "f", Bytes("0123456789")), absl::OkStatus());
  ASSERT_EQ(OverwriteFile(directory_ + "/f", 3, Bytes("xyz")), absl::OkStatus());
  EXPECT_EQ(Content(), "012xyz6789");
}

TEST_F(DurableFileTest, ErrorsNameThePath) {
  const std::string nowhere = directory_ + "/no/such";
  for (const absl::Status& status :
       {ReplaceFile(nowhere, "f", Bytes("")), OverwriteFile(nowhere, 0, Bytes("")),
        SyncDirectory(nowhere), ReadFileStart(directory_, 1).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory_));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(FileError("cannot write", "/x", ENOSPC)));
}

}  // namespace
}  // namespace kvtier

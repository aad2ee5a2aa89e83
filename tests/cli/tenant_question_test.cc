// Tests how `kvtier tenants set` reads a secret.
#include "cli/tenant_question.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/secret_file.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

// Returns the path of a file with these bytes.
std::string FileOf(const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "kvtier-read-secret";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(chmod(path.c_str(), 0600), 0);
  return path;
}

std::string RefusalOf(const std::string& path) {
  return std::string(ReadSecret(path).status().message());
}

TEST(ReadSecret, LeavesOutOneNewlineAtTheEnd) {
  EXPECT_EQ(*ReadSecret(FileOf("a secret\n")), "a secret");
  EXPECT_EQ(*ReadSecret(FileOf("a secret\n\n")), "a secret\n");
  EXPECT_EQ(*ReadSecret(FileOf("\na secret")), "\na secret");
}

TEST(ReadSecret, TakesTheLongestAndRefusesOneByteMore) {
  const std::string longest(kMaxSecretBytes, 's');
  EXPECT_EQ(*ReadSecret(FileOf(longest)), longest);
  EXPECT_EQ(*ReadSecret(FileOf(longest + "\n")), longest);
  for (const std::string& bytes :
       {longest + "s", longest + "s\n", longest + "\n\n", longest + "\nss\n", longest + longest}) {
    EXPECT_THAT(RefusalOf(FileOf(bytes)), HasSubstr("has more than 65536 bytes"));
  }
  EXPECT_THAT(RefusalOf(FileOf("")), HasSubstr("holds no secret"));
  EXPECT_THAT(RefusalOf(FileOf("\n")), HasSubstr("holds no secret"));
}

TEST(ReadSecret, RefusesAFileThatOthersMayRead) {
  const std::string path = FileOf("a secret");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(RefusalOf(path), HasSubstr("has mode 0644"));
}

// A device that never ends was read until memory ran out.
TEST(ReadSecret, RefusesWhatMayHaveNoEnd) {
  for (const std::string path : {"/dev/zero", "/dev/null", "/"}) {
    EXPECT_EQ(RefusalOf(path), absl::StrCat("--secret_file=", path, ": secret file ", path,
                                            " is no plain file; name a readable file"));
  }
  EXPECT_THAT(RefusalOf("/no/such/secret"), HasSubstr("cannot be read: No such file"));
}

class ReadSecretOfAPipe : public ::testing::Test {
 protected:
  ReadSecretOfAPipe() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~ReadSecretOfAPipe() override {
    close(ends_[0]);
    if (!is_closed_) close(ends_[1]);
  }
  std::string path() const { return absl::StrCat("/dev/fd/", ends_[0]); }
  void Write(const std::string& bytes) {
    ASSERT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void EndWriting() {
    close(ends_[1]);
    is_closed_ = true;
  }

  std::array<int, 2> ends_{};  // Where it is read, and where it is written.
  bool is_closed_ = false;
};

TEST_F(ReadSecretOfAPipe, TakesOneThatEnds) {
  Write("a secret\n");
  EndWriting();
  EXPECT_EQ(*ReadSecret(path()), "a secret");
}

TEST_F(ReadSecretOfAPipe, DoesNotWaitForTheEndOfOneThatIsTooLong) {
  ASSERT_GE(fcntl(ends_[1], F_SETPIPE_SZ, 1 << 18), 1 << 18);
  Write(std::string(2 * kMaxSecretBytes, 's'));
  EXPECT_THAT(RefusalOf(path()), HasSubstr("has more than 65536 bytes"));
}

}  // namespace
}  // namespace kvtier::cli

// Tests that one file is one secret, whichever program reads it, and which files are refused.
#include "core/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/check.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

class SecretFileTest : public ::testing::Test {
 protected:
  SecretFileTest() {
    char pattern[] = "/tmp/kvtier-secret-XXXXXX";
    KVT_CHECK(mkdtemp(pattern) != nullptr);
    directory_ = pattern;
    path_ = directory_ + "/acme";
  }
  ~SecretFileTest() override {
    std::error_code ignored;  // A directory left in /tmp fails no test.
    std::filesystem::remove_all(directory_, ignored);
  }
  void Write(const std::string& content, mode_t mode = 0600) const {
    std::ofstream(path_, std::ios::binary) << content;
    KVT_CHECK(chmod(path_.c_str(), mode) == 0);
  }
  std::string SecretNow() const {
    const absl::StatusOr<SecretFile> file = ReadSecretFileNow(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? file->secret : "";
  }
  std::string Refusal() const {
    const absl::Status refused = ReadSecretFile(path_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(path_));
    return std::string(refused.message());
  }

  std::string directory_;
  std::string path_;
};

// The connector dropped all white space at both ends, the agent one newline, and an example none:
// 4 % of random secrets were two.
TEST_F(SecretFileTest, EachByteCountsButOneNewlineAtTheEnd) {
  for (int last = 0; last < 256; ++last) {
    const std::string secret = std::string(16, 's') + static_cast<char>(last);
    Write(secret);
    const std::string expected = last == '\n' ? std::string(16, 's') : secret;
    EXPECT_EQ(SecretNow(), expected) << "byte " << last;
    Write(secret + "\n");
    EXPECT_EQ(SecretNow(), secret) << "byte " << last;
  }
  for (const std::string secret : {" sixteen and more ", "\nsixteen and more\n", "s\r\n", "\r"}) {
    Write(secret + "\n");
    EXPECT_EQ(SecretNow(), secret);
  }
  Write("sixteen and more\r\n");
  EXPECT_EQ(SecretNow(), "sixteen and more\r") << "a carriage return is a byte of the secret";
}

TEST_F(SecretFileTest, WhatIsWrittenIsReadAgain) {
  for (const std::string secret : {"plain", "with a newline\n", "two\n\n", "\n"}) {
    Write(ContentOf(secret));
    EXPECT_EQ(SecretNow(), secret);
  }
  EXPECT_EQ(ContentOf("plain"), "plain");
}

TEST_F(SecretFileTest, ModesThatLetOthersInAreRefused) {
  for (const mode_t mode : {0400, 0600, 0440, 0640, 0700, 0550}) {
    Write("sixteen and more", mode);
    EXPECT_EQ(SecretNow(), "sixteen and more") << mode;
  }
  for (const mode_t mode : {0644, 0604, 0444, 0601, 0602, 0660, 0620, 0666, 0777}) {
    Write("sixteen and more", mode);
    EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat("has mode 0", absl::Hex(mode >> 6),
                                                  absl::Hex((mode >> 3) & 7), absl::Hex(mode & 7),
                                                  ", which lets others use it or the group")));
  }
}

TEST_F(SecretFileTest, WhatHoldsNoSecretIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(ReadSecretFile(path_).status()));
  for (const std::string nothing : {"", "\n"}) {
    Write(nothing);
    EXPECT_THAT(Refusal(), HasSubstr("holds no secret"));
  }
  const std::string longest(kMaxSecretBytes, 's');
  Write(longest + "\n");
  EXPECT_EQ(SecretNow(), longest);
  Write(longest + "s");
  EXPECT_THAT(Refusal(), HasSubstr("has more than 65536 bytes"));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(), HasSubstr("is no plain file"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(Refusal(), HasSubstr("is no plain file"));
}

// A reader that came between two writes took the first half for the secret.
TEST_F(SecretFileTest, AHalfWrittenFileIsNotTaken) {
  Write("the first half,");
  std::thread writer([this] {
    absl::SleepFor(kSecretSettleTime / 2);
    std::ofstream(path_, std::ios::app) << " and the second";
  });
  EXPECT_EQ(*ReadSecretFile(path_), "the first half, and the second");
  writer.join();
}

TEST_F(SecretFileTest, AFileThatChangesForEverIsGivenUp) {
  Write("sixteen and more");
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    while (!ended) {
      std::ofstream(path_, std::ios::app) << "s";
      absl::SleepFor(kSecretSettleTime / 5);
    }
  });
  const absl::Status late = ReadSecretFile(path_).status();
  ended = true;
  writer.join();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("still changes after 5s"));
}

TEST(EndOfOtherFile, TellsCopiesAndPagesFromSecrets) {
  for (const std::string name :
       {"acme~", "acme.bak", "acme.orig", "acme.swp", "acme.tmp", "README.md"}) {
    EXPECT_NE(EndOfOtherFile(name), "") << name;
  }
  for (const std::string name : {"acme", "md", "acme.v2", "tmp", "acme-bak"}) {
    EXPECT_EQ(EndOfOtherFile(name), "") << name;
  }
}

}  // namespace
}  // namespace kvtier

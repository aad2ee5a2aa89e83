#include "core/flag_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagFilesTest : public ::testing::Test {
 protected:
  FlagFilesTest() : folder_(absl::StrCat(::testing::TempDir(), "/flag_files")) {
    std::filesystem::create_directories(folder_);
  }
  ~FlagFilesTest() override { std::filesystem::remove_all(folder_); }

  // Writes a file; returns its path.
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path) << text;
    return path;
  }

 private:
  const std::string folder_;
};

TEST_F(FlagFilesTest, LinesOfAnyEditorStandForTheirFlags) {
  const std::string file = File("a", "# node\r\n--listen=host:1\r\n\r\n  --host_bytes=1GiB \t\n");
  const auto words = WithFlagFiles({"--a=1", absl::StrCat("--flagfile=", file), "--b", "2"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(*words, ElementsAre("--a=1", "--listen=host:1", "--host_bytes=1GiB", "--b", "2"));
}

TEST_F(FlagFilesTest, SeveralFilesAreReadInTheirOrderAndMayNameOthers) {
  const std::string inner = File("inner", "--b=2\n");
  const std::string first = File("first", absl::StrCat("--a=1\n-flagfile=", inner));
  const std::string last = File("last", "--c=3");
  const auto words = WithFlagFiles({"--flagfile", absl::StrCat(first, ",", last), "d"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(*words, ElementsAre("--a=1", "--b=2", "--c=3", "d"));
}

TEST_F(FlagFilesTest, NamesTheLineThatIsNoFlag) {
  const std::string file = File("a", "--a=1\n\nhost_bytes=1GiB\n");
  EXPECT_THAT(WithFlagFiles({absl::StrCat("--flagfile=", file)}).status().message(),
              AllOf(HasSubstr(absl::StrCat(file, ":3: ")), HasSubstr("'host_bytes=1GiB'")));
}

TEST_F(FlagFilesTest, NamesTheFileThatCannotBeRead) {
  EXPECT_THAT(WithFlagFiles({"--flagfile=/no/such/file"}).status().message(),
              AllOf(HasSubstr("--flagfile=/no/such/file"), HasSubstr("No such file")));
  EXPECT_THAT(WithFlagFiles({"--flagfile"}).status().message(),
              HasSubstr("must be followed by a file"));
}

TEST_F(FlagFilesTest, FilesThatNameEachOtherAreRefused) {
  const std::string file = File("a", "");
  File("a", absl::StrCat("--flagfile=", file));
  EXPECT_THAT(WithFlagFiles({absl::StrCat("--flagfile=", file)}).status().message(),
              HasSubstr("must be at most 64"));
}

}  // namespace
}  // namespace kvtier

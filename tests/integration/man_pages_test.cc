// Tests the manual pages that the daemons print against the lists of flags that Abseil prints for
// --help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"

namespace kvtier::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kWholePage = size_t{1} << 20;

struct ListedFlag {
  std::string name;
  std::string help;
  std::string value;  // Default of the flag.
};

// Returns the text as troff prints it.
std::string Unescaped(absl::string_view page) {
  return absl::StrReplaceAll(page, {{"\\-", "-"},
                                    {"\\(aq", "'"},
                                    {"\\(dq", "\""},
                                    {"\\(ga", "`"},
                                    {"\\(ha", "^"},
                                    {"\\(ti", "~"},
                                    {"\\&", ""},
                                    {"\\e", "\\"}});
}

// Parses "    --name (help); default: value;" of each flag. Abseil breaks these lines anywhere.
std::vector<ListedFlag> FlagsOf(absl::string_view help) {
  const std::vector<std::string> pieces = absl::StrSplit(help, "\n    --");
  std::vector<ListedFlag> flags;
  for (size_t i = 1; i < pieces.size(); ++i) {
    std::string piece = pieces[i];
    absl::RemoveExtraAsciiWhitespace(&piece);
    const size_t opened = piece.find(" (");
    const size_t closed = piece.find("); default: ");
    if (opened == std::string::npos || closed == std::string::npos) {
      ADD_FAILURE() << "no flag: " << piece;
      continue;
    }
    absl::string_view value = absl::string_view(piece).substr(closed + 12);
    value = value.substr(0, value.find(';'));
    if (absl::ConsumePrefix(&value, "\"")) absl::ConsumeSuffix(&value, "\"");
    flags.push_back({.name = piece.substr(0, opened),
                     .help = piece.substr(opened + 2, closed - opened - 2),
                     .value = std::string(value)});
  }
  return flags;
}

class ManPagesTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Runs the program, expects it to end with `status`, and returns what it printed.
  std::string Printed(const std::string& option, int status) {
    const std::string log = absl::StrCat(cluster_.run_dir(), "/page-", runs_++, ".log");
    const absl::StatusOr<std::unique_ptr<ChildProcess>> process =
        ChildProcess::Start({ProgramPath(GetParam()), option}, log);
    EXPECT_EQ(process.status(), absl::OkStatus());
    if (!process.ok()) return "";
    EXPECT_EQ((*process)->Wait(Patience(absl::Seconds(20))), status);
    return FileTail(log, kWholePage);
  }

  int runs_ = 0;
  ProcessCluster cluster_;
};

TEST_P(ManPagesTest, EachFlagThatHelpListsIsInThePageWithItsHelpAndItsDefault) {
  const std::vector<ListedFlag> flags = FlagsOf(Printed("--help", 1));
  EXPECT_GT(flags.size(), 4u);
  const std::string page = Unescaped(Printed("--man", 0));
  for (const ListedFlag& flag : flags) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat(".TP\n.B --", flag.name, "\n", flag.help, " Default: ",
                                             flag.value.empty() ? "empty" : flag.value, ".\n")));
  }
}

TEST_P(ManPagesTest, HelpNamesTheProgramOnceAndNoPathOfItsBuild) {
  const std::string help = Printed("--help", 1);
  EXPECT_THAT(help, StartsWith(absl::StrCat(GetParam(), ": ")));
  EXPECT_THAT(help, Not(StartsWith(absl::StrCat(GetParam(), ": ", GetParam()))));
  EXPECT_THAT(help, HasSubstr(absl::StrCat("Flags from ", GetParam(), ":")));
  EXPECT_THAT(help, Not(HasSubstr("_config.")));
}

TEST_P(ManPagesTest, ManReadsEachLineAsTextOrAsARequestThatItKnows) {
  const std::string page = Printed("--man", 0);
  EXPECT_THAT(page, StartsWith(".TH KVTIER-"));
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    EXPECT_FALSE(absl::StartsWith(line, "'")) << line;
    if (!absl::StartsWith(line, ".")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    EXPECT_THAT((std::vector<absl::string_view>{".TH", ".SH", ".TP", ".PP", ".B", ".BR"}),
                Contains(words[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(Daemons, ManPagesTest,
                         ::testing::Values("kvtier-agent", "kvtier-coordinator"),
                         [](const auto& program) {
                           return absl::StrReplaceAll(program.param, {{"-", "_"}});
                         });

}  // namespace
}  // namespace kvtier::testing

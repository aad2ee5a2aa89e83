#include "cli/help.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Help, EveryVerbIsInItWithWhatItDoes) {
  const std::string help = HelpText();
  for (const VerbEntry& verb : AllVerbs()) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("kvtier ", verb.words))) << verb.words;
    EXPECT_FALSE(verb.summary.empty()) << verb.words;
  }
  EXPECT_THAT(help, HasSubstr("Exit codes:"));
}

TEST(Help, NoLineIsLongerThanATerminal) {
  std::string all = HelpText();
  for (const VerbEntry& verb : AllVerbs()) all += VerbHelpText(verb);
  for (const absl::string_view line : absl::StrSplit(all, '\n')) {
    // An example is one line, however long its digests are.
    if (line.find("--space-digest e3b0") != absl::string_view::npos) continue;
    EXPECT_LE(line.size(), 100) << line;
  }
}

TEST(Help, OfAVerbHasItsOptionsAndAnExampleThatParses) {
  for (const VerbEntry& verb : AllVerbs()) {
    const std::string help = VerbHelpText(verb);
    for (const Option* const option : OptionsOf(verb)) {
      EXPECT_THAT(
          help, AllOf(HasSubstr(std::string(option->name)), HasSubstr(std::string(option->value))))
          << verb.words;
    }
    ASSERT_THAT(help, HasSubstr(absl::StrCat("\n  kvtier ", verb.example, "\n")));
    const std::vector<std::string> words = absl::StrSplit(verb.example, ' ');
    const auto arguments = ParseArguments(words);
    ASSERT_TRUE(arguments.ok()) << verb.example << ": " << arguments.status();
    EXPECT_EQ(arguments->verb, verb.verb) << verb.example;
  }
}

TEST(Help, EveryOptionIsOneOfSomeVerb) {
  std::set<absl::string_view> taken;
  for (const VerbEntry& verb : AllVerbs()) {
    size_t known = 0;
    for (const Option* const option : OptionsOf(verb)) {
      taken.insert(option->name);
      known += option->name != "--output" ? 1 : 0;
    }
    const std::vector<absl::string_view> named =
        absl::StrSplit(verb.options, ' ', absl::SkipEmpty());
    EXPECT_EQ(known, named.size()) << verb.words << " names an option that there is not";
  }
  for (const Option& option : AllOptions()) EXPECT_TRUE(taken.contains(option.name)) << option.name;
}

TEST(Help, OfOneVerbIsAnsweredOnTheCommandLine) {
  const std::vector<std::string> words = {"tenants", "set", "--help"};
  const Outcome outcome = RunCommand(words);
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, StartsWith("kvtier tenants set NAME [OPTION]...\n"));
}

TEST(Help, SaysHowATenantIsMadeAndWhenADropIsNotDone) {
  const auto help = [](absl::string_view verb) {
    return absl::StrReplaceAll(VerbHelpText(*FindVerbEntry(verb)), {{"\n", " "}});
  };
  EXPECT_THAT(help("tenants set"),
              HasSubstr("A tenant is made by --secret_file; settings without"));
  EXPECT_THAT(help("prefix drop"), HasSubstr("The exit code is 1 if blocks are left"));
  EXPECT_THAT(help("pins drop"), HasSubstr("The exit code is 3 if there was no such pin"));
}

TEST(Man, PagesAreWrittenForEachVerb) {
  const std::string dir = absl::StrCat(::testing::TempDir(), "/kvtier_man");
  std::filesystem::create_directories(dir);
  const std::vector<std::string> words = {"man", dir};
  ASSERT_EQ(RunCommand(words).code, ExitCode::kOk);
  EXPECT_THAT(ManPages(), SizeIs(AllVerbs().size() + 1));
  for (const auto& [name, text] : ManPages()) {
    std::ifstream file(absl::StrCat(dir, "/", name));
    const std::string read((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(read, text) << name;
    EXPECT_THAT(text, StartsWith(".TH KVTIER"));
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_FALSE(absl::StartsWith(line, "'")) << name;
    }
  }
  std::filesystem::remove_all(dir);
}

TEST(Man, ADirectoryThatIsNotThereIsNamed) {
  const std::vector<std::string> words = {"man", "/no/such/place"};
  const Outcome outcome = RunCommand(words);
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/place/kvtier.1 was not written"));
}

// Returns what bash completes on this command line, whose last word is being written.
std::string CompletedBy(const std::string& line) {
  const std::string script = absl::StrCat(::testing::TempDir(), "/kvtier_completion.bash");
  std::ofstream(script) << BashCompletion() << "COMP_WORDS=(" << line
                        << "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kvtier; "
                           "echo \"${COMPREPLY[*]}\"\n";
  FILE* const pipe = popen(absl::StrCat("bash '", script, "'").c_str(), "r");
  std::array<char, 4096> read{};
  const size_t count = std::fread(read.data(), 1, read.size(), pipe);
  EXPECT_EQ(pclose(pipe), 0);
  std::filesystem::remove(script);
  return {read.data(), count};
}

TEST(Completion, KnowsVerbsTheirSecondWordsAndTheirOptions) {
  EXPECT_EQ(CompletedBy("kvtier tena"), "tenants tenant\n");
  EXPECT_EQ(CompletedBy("kvtier disk ''"), "info verify\n");
  EXPECT_EQ(CompletedBy("kvtier disk verify --r"), "--rate\n");
  EXPECT_EQ(CompletedBy("kvtier tenants set acme --host_m"), "--host_maximum\n");
  EXPECT_EQ(CompletedBy("kvtier tenants --c"), "--coordinator\n");
  EXPECT_EQ(CompletedBy("kvtier status --agent=/a --t"), "--timeout\n");
}

}  // namespace
}  // namespace kvtier::cli

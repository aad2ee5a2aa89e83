#include "core/program_flags_config.h"

#include <cctype>
#include <cstdio>
#include <map>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/flag_files.h"

ABSL_FLAG(bool, man, false, "Prints the manual page of this program, for man -l, and ends.");

namespace kvtier {
namespace {

constexpr absl::string_view kThisFile = "core/program_flags_config.";

constexpr ManPage::Entry kCommonOptions[] = {
    {.term = "--flagfile=FILE",
     .text = "Reads flags from a file, each on a line of its own; lines that begin with # are "
             "comments. FILE may be a list of files, separated by commas."},
    {.term = "--help", .text = "Lists these flags with their defaults, and ends."},
    {.term = "--version", .text = "Prints the version, and ends."}};

// Returns whether the file defines flags of the program. ParseProgramFlags() lets Abseil call such
// a file by the program's name, so that no path of a build is printed.
bool IsFileOfFlags(absl::string_view file, const ProgramText& program) {
  return file == program.name || absl::StrContains(file, program.flags_file) ||
         absl::StrContains(file, kThisFile);
}

// Returns "keeps blocks" as "Keeps blocks.".
std::string SentenceFrom(absl::string_view summary) {
  std::string sentence = absl::StrCat(summary, ".");
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

// Prints why the program does not start. Returns its exit status.
int Refuse(const ProgramText& program, absl::string_view why) {
  std::fprintf(stderr, "%s: %s\n", std::string(program.name).c_str(), std::string(why).c_str());
  return 1;
}

std::string TextOf(const absl::CommandLineFlag& flag) {
  const std::string value = flag.DefaultValue();
  return absl::StrCat(flag.Help(), " Default: ", value.empty() ? "empty" : value, ".");
}

}  // namespace

std::optional<int> ParseProgramFlags(const ProgramText& program, int argc, char** argv) {
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [program](absl::string_view file) {
    return IsFileOfFlags(file, program);
  };
  usage.normalize_filename = [program](absl::string_view file) {
    return std::string(IsFileOfFlags(file, program) ? program.name : file);
  };
  usage.version_string = [build = absl::StrCat(program.build, "\n")] { return build; };
  absl::SetFlagsUsageConfig(usage);
  // Abseil prints the program's name before it.
  absl::SetProgramUsageMessage(SentenceFrom(program.summary));
  absl::StatusOr<std::vector<std::string>> words = WithFlagFiles({argv + 1, argv + argc});
  if (!words.ok()) return Refuse(program, words.status().message());
  std::vector<char*> pointers = {argv[0]};
  for (std::string& word : *words) pointers.push_back(word.data());
  const std::vector<char*> others =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (others.size() > 1) {
    return Refuse(program,
                  absl::StrCat("'", others[1], "' is no flag; flags are written --name=value"));
  }
  if (!absl::GetFlag(FLAGS_man)) return std::nullopt;
  const bool written =
      std::fputs(ProgramManPage(program).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : 1;
}

std::string ProgramManPage(const ProgramText& program) {
  ManPage page(ManPage::Head{.name = {.page = program.name, .section = 8},
                             .build = program.build,
                             .summary = program.summary});
  page.AddSection("SYNOPSIS");
  page.AddBold(absl::StrCat(program.name, " [--FLAG=VALUE]..."));
  page.AddSection("DESCRIPTION");
  page.AddText(absl::StrCat(SentenceFrom(program.summary), " ", program.details));
  page.AddSection("OPTIONS");
  page.AddText(
      "A flag is written --name=value. A flag whose default is true or false may also be written "
      "--name or --noname.");
  const auto all = absl::GetAllFlags();
  // A map, for the order of their names.
  const std::map<absl::string_view, absl::CommandLineFlag*> flags(all.begin(), all.end());
  for (const auto& [name, flag] : flags) {
    if (!IsFileOfFlags(flag->Filename(), program)) continue;
    page.AddEntry({.term = absl::StrCat("--", name), .text = TextOf(*flag)});
  }
  for (const ManPage::Entry& option : kCommonOptions) page.AddEntry(option);
  if (!program.files.empty()) page.AddSection("FILES");
  for (const ManPage::Entry& file : program.files) page.AddEntry(file);
  page.AddSeeAlso(program.see_also);
  return page.text();
}

}  // namespace kvtier

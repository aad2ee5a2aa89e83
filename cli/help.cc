#include "cli/help.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/man_page.h"

namespace kvtier::cli {
namespace {

constexpr size_t kTextColumn = 36;
constexpr size_t kOptionColumn = 28;
constexpr size_t kColumns = 100;

constexpr absl::string_view kWhatItIs = "looks into kvtier agents and their coordinator";
constexpr absl::string_view kDoors =
    "At HOST:PORT an agent or a coordinator answers status, nodes, tiers, disk info and settings "
    "get. All else is asked on the program's own machine, as root or as its user, at "
    "kvtier-admin.sock or kvtier-coordinator.sock in its --socket_dir.";
constexpr absl::string_view kExitCodes[] = {
    "0: done",
    "1: failed, only partly answered, or to be asked again (prefix drop)",
    "2: nobody answered, or a program is starting",
    "3: everybody answered, and none has it",
    "4: damage was found",
    "5: the request is not answered at that address; the text names the one that does",
    "64: the command line is wrong"};

// Returns the text in lines of kColumns, each of which begins at `column`, the first one without
// its indent.
std::string Wrapped(absl::string_view text, size_t column) {
  std::string wrapped;
  size_t at = column;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (at > column && at + 1 + word.size() > kColumns) {
      absl::StrAppend(&wrapped, "\n", std::string(column, ' '));
      at = column;
    } else if (at > column) {
      wrapped += ' ';
      ++at;
    }
    absl::StrAppend(&wrapped, word);
    at += word.size();
  }
  return wrapped;
}

// Returns an entry of a list: its name, and its text from `column` on, below a name that is longer.
std::string Entry(const std::string& name, absl::string_view text, size_t column) {
  const std::string begin = absl::StrCat("  ", name);
  const std::string gap = begin.size() + 2 <= column ? std::string(column - begin.size(), ' ')
                                                     : absl::StrCat("\n", std::string(column, ' '));
  return absl::StrCat(begin, gap, Wrapped(text, column), "\n");
}

// Returns "tenants set NAME".
std::string UseOf(const VerbEntry& verb) {
  return absl::StrCat(verb.words, verb.arguments.empty() ? "" : " ", verb.arguments);
}

std::string NameOf(const Option& option) {
  return absl::StrCat(option.name, option.value.empty() ? "" : " ", option.value);
}

std::string SentenceOf(absl::string_view summary) {
  std::string sentence = absl::StrCat(summary, ".");
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

// Returns the use of a verb, as the first line of its help.
std::string UseLineOf(const VerbEntry& verb) {
  return absl::StrCat("kvtier ", UseOf(verb), OptionsOf(verb).empty() ? "" : " [OPTION]...");
}

std::string DescriptionOf(const VerbEntry& verb) {
  return absl::StrCat(SentenceOf(verb.summary), verb.details.empty() ? "" : " ", verb.details);
}

std::string OptionList(const std::vector<const Option*>& options) {
  std::string list;
  for (const Option* const option : options) {
    list += Entry(NameOf(*option), option->help, kOptionColumn);
  }
  return list;
}

std::string PageNameOf(const VerbEntry& verb) {
  return absl::StrCat("kvtier-", absl::StrReplaceAll(verb.words, {{" ", "-"}}));
}

ManPage BeginPage(absl::string_view name, absl::string_view summary) {
  return ManPage(ManPage::Head{.name = {.page = name},
                               .build = absl::StrCat("kvtier ", KVTIER_VERSION),
                               .summary = summary});
}

void AddExitCodes(ManPage* page) {
  page->AddSection("EXIT STATUS");
  for (const absl::string_view code : kExitCodes) {
    const std::vector<absl::string_view> parts = absl::StrSplit(code, absl::MaxSplits(": ", 1));
    page->AddEntry({.term = parts[0], .text = parts[1]});
  }
}

std::string VerbPage(const VerbEntry& verb) {
  ManPage page = BeginPage(PageNameOf(verb), verb.summary);
  page.AddSection("SYNOPSIS");
  page.AddBold(UseLineOf(verb));
  page.AddSection("DESCRIPTION");
  page.AddText(DescriptionOf(verb));
  if (const auto options = OptionsOf(verb); !options.empty()) {
    page.AddSection("OPTIONS");
    for (const Option* const option : options) {
      page.AddEntry({.term = NameOf(*option), .text = option->help});
    }
  }
  page.AddSection("EXAMPLE");
  page.AddExample(absl::StrCat("kvtier ", verb.example));
  AddExitCodes(&page);
  page.AddSeeAlso({{.page = "kvtier"}});
  return page.text();
}

std::string MainPage() {
  ManPage page = BeginPage("kvtier", kWhatItIs);
  page.AddSection("SYNOPSIS");
  page.AddBold("kvtier VERB [OPTION]...");
  page.AddSection("VERBS");
  for (const VerbEntry& verb : AllVerbs()) {
    page.AddEntry({.term = UseOf(verb), .text = SentenceOf(verb.summary)});
  }
  page.AddSection("WHERE IT ASKS");
  page.AddText(kDoors);
  AddExitCodes(&page);
  page.AddSeeAlso(
      {{.page = "kvtier-agent", .section = 8}, {.page = "kvtier-coordinator", .section = 8}});
  return page.text();
}

}  // namespace

std::string HelpText() {
  std::string text = absl::StrCat("kvtier: ", kWhatItIs, ".\n\n");
  for (const VerbEntry& verb : AllVerbs()) {
    text += Entry(absl::StrCat("kvtier ", UseOf(verb)), verb.summary, kTextColumn);
  }
  absl::StrAppend(&text, "\nkvtier help VERB shows the options of a verb, with an example.\n\n",
                  Wrapped(kDoors, 0), "\n\nExit codes: ",
                  Wrapped(absl::StrCat(absl::StrJoin(kExitCodes, "; "), "."), 12), "\n");
  return text;
}

std::string VerbHelpText(const VerbEntry& verb) {
  const std::vector<const Option*> options = OptionsOf(verb);
  std::string text = absl::StrCat(UseLineOf(verb), "\n\n", Wrapped(DescriptionOf(verb), 0), "\n");
  if (!options.empty()) absl::StrAppend(&text, "\nOptions\n", OptionList(options));
  absl::StrAppend(&text, "\nExample\n  kvtier ", verb.example, "\n");
  return text;
}

std::vector<std::pair<std::string, std::string>> ManPages() {
  std::vector<std::pair<std::string, std::string>> pages = {{"kvtier.1", MainPage()}};
  for (const VerbEntry& verb : AllVerbs()) {
    pages.emplace_back(absl::StrCat(PageNameOf(verb), ".1"), VerbPage(verb));
  }
  return pages;
}

std::string BashCompletion() {
  std::vector<absl::string_view> first;
  std::string by_family;
  // Verbs of two words, looked at first, because "tenants" also begins "tenants set".
  std::string by_two_words;
  std::string by_one_word;
  for (const VerbEntry& verb : AllVerbs()) {
    const absl::string_view family = *absl::StrSplit(verb.words, ' ').begin();
    if (std::find(first.begin(), first.end(), family) == first.end()) {
      first.push_back(family);
      if (const auto second = SecondWordsOf(family); !second.empty()) {
        absl::StrAppend(&by_family, "      ", family, ") words=\"", absl::StrJoin(second, " "),
                        "\" ;;\n");
      }
    }
    std::vector<absl::string_view> names;
    for (const Option* const option : OptionsOf(verb)) names.push_back(option->name);
    absl::StrAppend(family == verb.words ? &by_one_word : &by_two_words, "      \"", verb.words,
                    " \"*) words=\"", absl::StrJoin(names, " "), "\" ;;\n");
  }
  return absl::StrCat(R"(# Completion of kvtier for bash: source <(kvtier completion bash)
_kvtier() {
  local word="${COMP_WORDS[COMP_CWORD]}" words="" verb="${COMP_WORDS[1]:-}"
  if [[ $COMP_CWORD -eq 1 ]]; then
    words=")",
                      absl::StrJoin(first, " "), R"("
  elif [[ $COMP_CWORD -eq 2 && "$word" != -* ]]; then
    case "$verb" in
)",
                      by_family, R"(    esac
  elif [[ "$word" == -* ]]; then
    case "$verb ${COMP_WORDS[2]:-} " in
)",
                      by_two_words, by_one_word, R"(    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _kvtier kvtier
)");
}

Outcome RunHelp(const Arguments& arguments) {
  return {.out = arguments.helped == nullptr ? HelpText() : VerbHelpText(*arguments.helped)};
}

Outcome RunMan(const Arguments& arguments) {
  const std::vector<std::pair<std::string, std::string>> pages = ManPages();
  for (const auto& [name, text] : pages) {
    const std::string path = absl::StrCat(arguments.man_dir, "/", name);
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) {
      return {.code = ExitCode::kFailed,
              .err = absl::StrCat("kvtier: ", path, " was not written: ", std::strerror(errno),
                                  ". Name a directory that is there and may be written.\n")};
    }
  }
  return {.out = absl::StrCat(pages.size(), " pages are in ", arguments.man_dir, "; read one by ",
                              "man -l ", arguments.man_dir, "/kvtier.1\n")};
}

Outcome RunCompletion(const Arguments& /*arguments*/) { return {.out = BashCompletion()}; }

}  // namespace kvtier::cli

#include "core/man_page.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kvtier {
namespace {

// Returns the text so that troff prints each character as it is: unescaped, it would print some as
// typographic quotes and hyphens, and read a period at the start of a line as a request.
std::string Escaped(absl::string_view text) {
  return absl::StrCat(absl::StartsWith(text, ".") ? "\\&" : "",
                      absl::StrReplaceAll(text, {{"\\", "\\e"},
                                                 {"-", "\\-"},
                                                 {"'", "\\(aq"},
                                                 {"\"", "\\(dq"},
                                                 {"`", "\\(ga"},
                                                 {"^", "\\(ha"},
                                                 {"~", "\\(ti"}}));
}

}  // namespace

ManPage::ManPage(const Head& head)
    : text_(absl::StrCat(".TH ", absl::AsciiStrToUpper(head.name.page), " ", head.name.section,
                         " \"\" \"", head.build, "\" \"kvtier\"\n.SH NAME\n",
                         Escaped(head.name.page), " \\- ", Escaped(head.summary), "\n")) {}

void ManPage::AddSection(absl::string_view title) {
  absl::StrAppend(&text_, ".SH ", Escaped(title), "\n");
  begins_section_ = true;
}

void ManPage::AddBold(absl::string_view line) {
  absl::StrAppend(&text_, ".B ", Escaped(line), "\n");
  begins_section_ = false;
}

void ManPage::AddText(absl::string_view text) {
  absl::StrAppend(&text_, begins_section_ ? "" : ".PP\n", Escaped(text), "\n");
  begins_section_ = false;
}

void ManPage::AddExample(absl::string_view line) {
  absl::StrAppend(&text_, ".nf\n", Escaped(line), "\n.fi\n");
  begins_section_ = false;
}

void ManPage::AddEntry(const Entry& entry) {
  absl::StrAppend(&text_, ".TP\n.B ", Escaped(entry.term), "\n", Escaped(entry.text), "\n");
  begins_section_ = false;
}

void ManPage::AddSeeAlso(const std::vector<Name>& pages) {
  AddSection("SEE ALSO");
  for (size_t i = 0; i < pages.size(); ++i) {
    absl::StrAppend(&text_, ".BR ", Escaped(pages[i].page), " (", pages[i].section, ")",
                    i + 1 < pages.size() ? "," : "", "\n");
  }
}

}  // namespace kvtier

#include "core/man_page.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

ManPage Page() {
  return ManPage(ManPage::Head{.name = {.page = "kvtier-agent", .section = 8},
                               .build = "kvtier 1.2.3",
                               .summary = "keeps a node's blocks"});
}

TEST(ManPageTest, BeginsWithItsNameItsSectionAndItsSummary) {
  EXPECT_EQ(Page().text(),
            ".TH KVTIER-AGENT 8 \"\" \"kvtier 1.2.3\" \"kvtier\"\n"
            ".SH NAME\n"
            "kvtier\\-agent \\- keeps a node\\(aqs blocks\n");
}

TEST(ManPageTest, PartsStandInTheOrderOfTheCalls) {
  ManPage page = Page();
  page.AddSection("SYNOPSIS");
  page.AddBold("kvtier-agent [OPTION]...");
  page.AddSection("OPTIONS");
  page.AddText("First.");
  page.AddText("Second.");
  page.AddEntry({.term = "--listen", .text = "Address."});
  page.AddExample("kvtier-agent --listen x");
  page.AddSeeAlso({{.page = "kvtier"}, {.page = "kvtier-coordinator", .section = 8}});
  EXPECT_THAT(page.text(), EndsWith(".SH SYNOPSIS\n"
                                    ".B kvtier\\-agent [OPTION]...\n"
                                    ".SH OPTIONS\n"
                                    "First.\n"
                                    ".PP\n"
                                    "Second.\n"
                                    ".TP\n"
                                    ".B \\-\\-listen\n"
                                    "Address.\n"
                                    ".nf\n"
                                    "kvtier\\-agent \\-\\-listen x\n"
                                    ".fi\n"
                                    ".SH SEE ALSO\n"
                                    ".BR kvtier (1),\n"
                                    ".BR kvtier\\-coordinator (8)\n"));
}

TEST(ManPageTest, EscapesEachCharacterThatTroffWouldPrintAsAnother) {
  ManPage page = Page();
  page.AddEntry({.term = "-\\'\"`^~", .text = "-\\'\"`^~"});
  const std::string escaped = "\\-\\e\\(aq\\(dq\\(ga\\(ha\\(ti";
  EXPECT_THAT(page.text(), HasSubstr(".B " + escaped + "\n" + escaped + "\n"));
}

TEST(ManPageTest, NoTextIsReadAsARequest) {
  for (const char* text : {".TH of nothing", "'TH of nothing"}) {
    ManPage page = Page();
    page.AddText(text);
    page.AddExample(text);
    page.AddEntry({.term = text, .text = text});
    for (const absl::string_view line : absl::StrSplit(page.text(), '\n')) {
      EXPECT_FALSE(absl::StartsWith(line, text)) << line;
      EXPECT_FALSE(absl::StartsWith(line, "'")) << line;
    }
  }
}

}  // namespace
}  // namespace kvtier

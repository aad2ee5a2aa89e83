#include "core/program_flags_config.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

ABSL_FLAG(std::string, test_zone, "", "Zone of the test's node; \"\": the default's.");
ABSL_FLAG(int, test_age, 42, ".5 is no age.");

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string PageOf(absl::string_view flags_file) {
  return ProgramManPage({.name = "kvtier-test",
                         .build = "kvtier-test 1.2.3",
                         .summary = "keeps a promise",
                         .details = "Nobody runs it.",
                         .flags_file = flags_file,
                         .files = {{.term = "test.sock", .text = "Its socket."}},
                         .see_also = {{.page = "kvtier"}}});
}

TEST(ProgramManPageTest, HasEachFlagOfItsFileByNameWithItsDefault) {
  const std::string page = PageOf("core/program_flags_config_test.");
  EXPECT_THAT(page, HasSubstr(".TP\n.B \\-\\-test_age\n\\&.5 is no age. Default: 42.\n"
                              ".TP\n.B \\-\\-test_zone\nZone of the test\\(aqs node; \\(dq\\(dq: "
                              "the default\\(aqs. Default: empty.\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-\\-man\n"));
}

TEST(ProgramManPageTest, HasNoFlagOfAnotherFile) {
  EXPECT_THAT(PageOf("core/another_file."), Not(HasSubstr("test_age")));
}

TEST(ProgramManPageTest, SaysWhatTheProgramIsAndWhichFilesItHas) {
  const std::string page = PageOf("core/program_flags_config_test.");
  EXPECT_THAT(page, StartsWith(".TH KVTIER-TEST 8 \"\" \"kvtier-test 1.2.3\" \"kvtier\"\n"
                               ".SH NAME\nkvtier\\-test \\- keeps a promise\n"));
  EXPECT_THAT(page, HasSubstr(".SH DESCRIPTION\nKeeps a promise. Nobody runs it.\n"));
  EXPECT_THAT(page, HasSubstr(".SH FILES\n.TP\n.B test.sock\nIts socket.\n.SH SEE ALSO\n"));
}

}  // namespace
}  // namespace kvtier

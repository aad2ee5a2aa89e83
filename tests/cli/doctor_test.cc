// Tests the output of `kvtier doctor` from fixed findings; and a run of it on the real machine.
#include "cli/doctor.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Findings SomeFindings() {
  return {{.check = "kernel", .detail = "Linux 6.1"},
          {.check = "uid", .health = Health::kFail, .detail = "uid 5", .remedy = "do \"this\""},
          {.check = "memlock", .health = Health::kWarn, .detail = "8 KiB", .remedy = "raise it"}};
}

TEST(DoctorTable, EachFindingIsALineAndWhatToDoAnother) {
  EXPECT_EQ(DoctorTable(SomeFindings()), R"(RESULT  CHECK    FINDING
ok      kernel   Linux 6.1
fail    uid      uid 5
                 -> do "this"
warn    memlock  8 KiB
                 -> raise it

1 fail, 1 warn, 1 ok
)");
}

TEST(DoctorJson, HasEveryFindingAndWhetherAllIsWell) {
  EXPECT_EQ(DoctorJson(SomeFindings()), R"({
  "schema_version": 1,
  "healthy": false,
  "findings": [
    {
      "check": "kernel",
      "result": "ok",
      "what": "Linux 6.1",
      "todo": ""
    },
    {
      "check": "uid",
      "result": "fail",
      "what": "uid 5",
      "todo": "do \"this\""
    },
    {
      "check": "memlock",
      "result": "warn",
      "what": "8 KiB",
      "todo": "raise it"
    }
  ]
}
)");
}

// The digest was shown with 8 of its 64 digits, and `kvtier lookup` takes no fewer than all.
TEST(DoctorTable, ShowsTheWholeDigestOfEachShardAsOtherVerbsTakeIt) {
  const std::string digest(64, 'a');
  Findings findings = {{.check = "spaces", .detail = "space", .spaces = {{.digest = digest}}}};
  EXPECT_EQ(DoctorTable(findings), absl::StrCat("RESULT  CHECK   FINDING\n"
                                                "ok      spaces  space\n"
                                                "                --space-digest ",
                                                digest, "\n\n0 fail, 0 warn, 1 ok\n"));
  findings[0].spaces.push_back({.digest = std::string(64, 'b'), .tensor_rank = 1});
  EXPECT_THAT(DoctorTable(findings),
              AllOf(HasSubstr(digest + "  tensor rank 0, pipeline rank 0\n"),
                    HasSubstr(std::string(64, 'b') + "  tensor rank 1, pipeline rank 0\n")));
}

TEST(DoctorJson, HasTheWholeDigestOfEachShard) {
  const Findings findings = {
      {.check = "spaces", .spaces = {{.digest = std::string(64, 'a'), .tensor_rank = 1}}}};
  EXPECT_THAT(DoctorJson(findings), HasSubstr(absl::StrCat(R"(
      "spaces": [
        {
          "space_digest": ")",
                                                           std::string(64, 'a'), R"(",
          "tensor_rank": 1,
          "pipeline_rank": 0
        }
      ]
)")));
}

TEST(DoctorFindings, AreOfSocketsThenMachineThenSpaces) {
  NodeFacts facts{.socket_dir = "/run/kvtier"};
  facts.status = v1::AgentStatusResponse();
  facts.sharing = v1::DescribeSharingResponse();
  const Findings findings = DoctorFindings(facts);
  EXPECT_EQ(findings.front().check, "socket directory");
  EXPECT_EQ(findings.back().check, "spaces");
}

class DoctorCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/kvtier-doctor-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static Outcome Doctor(std::vector<std::string> words) {
    words.insert(words.begin(), "doctor");
    return RunCommand(words);
  }
  std::string directory_;
};

TEST_F(DoctorCommandTest, WithoutAnAgentItFailsAndSaysWhatToDo) {
  const Outcome outcome = Doctor({"--socket-dir", directory_ + "/none"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("No such file"), HasSubstr("start kvtier-agent"),
                                 HasSubstr("kernel   ")));
}

TEST_F(DoctorCommandTest, EachMissingSocketIsNamed) {
  const Outcome outcome = Doctor({"--socket-dir", directory_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  for (const char* name : {"kvtier.sock", "kvtier-fd.sock", "kvtier-admin.sock"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("socket ") + name));
  }
}

TEST_F(DoctorCommandTest, DisksAreTriedAndNothingIsLeftThere) {
  const Outcome outcome = Doctor({"--socket-dir", directory_, "--disk-dir", directory_,
                                  "--disk-dir", directory_ + "/none", "-o", "json"});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\"disk " + directory_ + "\""),
                    HasSubstr("\"disk " + directory_ + "/none\""), HasSubstr("No such file")));
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

}  // namespace
}  // namespace kvtier::cli

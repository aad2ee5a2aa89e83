// Tests what kvtier says where nobody answers: who is not there, why, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/command.h"

namespace kvtier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string SaidOf(const std::string& words, const std::string& noun = "agent") {
  const AskedProgram asked = {.noun = noun, .address = "unix:/a.sock", .timeout = absl::Seconds(2)};
  return FailureText(ErrorOf(absl::UnavailableError(words), asked));
}

TEST(ErrorOf, SaysWhoIsNotThereInPlaceOfWhatGrpcSays) {
  EXPECT_EQ(SaidOf("failed to connect to all addresses; last error: UNKNOWN: unix:/a.sock: No such "
                   "file or directory"),
            "no agent answers at unix:/a.sock (No such file or directory); start kvtier-agent, or "
            "give its address by --agent");
  EXPECT_EQ(SaidOf("connections to all backends failing; last error: UNKNOWN: ipv4:10.0.0.1:7300: "
                   "Failed to connect to remote host: Connection refused",
                   "coordinator"),
            "no coordinator answers at unix:/a.sock (Connection refused); start "
            "kvtier-coordinator, or give its address by --coordinator");
  EXPECT_EQ(SaidOf("failed to connect to all addresses"),
            "no agent answers at unix:/a.sock; start kvtier-agent, or give its address by --agent");
  EXPECT_THAT(SaidOf("DNS resolution failed for node:7301: C-ares status is not ARES_SUCCESS "
                     "qtype=A name=node is_balancer=0: Domain name not found"),
              HasSubstr("(Domain name not found); start"));
}

TEST(ErrorOf, OfASocketThatIsNotForThisUserSaysWhoMayAsk) {
  EXPECT_EQ(SaidOf("failed to connect to all addresses; last error: UNKNOWN: unix:/a.sock: "
                   "Permission denied"),
            "no agent answers at unix:/a.sock (Permission denied); run kvtier as root or as the "
            "user of kvtier-agent");
}

TEST(ErrorOf, LeavesTheWordsOfAProgramThatAnswered) {
  EXPECT_EQ(SaidOf("disk 1 is not open: call again when it is"),
            "unreachable (disk 1 is not open: call again when it is)");
  EXPECT_EQ(SaidOf("node a is starting: it opens the disks; ask again when it is ready"),
            "node a is starting: it opens the disks; ask again when it is ready");
  const absl::Status other = absl::NotFoundError("failed to connect to all addresses: x");
  EXPECT_EQ(ErrorOf(other, {.noun = "agent", .address = "a:1"}), other);
}

TEST(Unreachable, AgentsAndCoordinatorsAreNamedOnce) {
  const std::vector<std::string> agent = {"status", "--agent", "/nowhere/kvtier-admin.sock"};
  EXPECT_THAT(RunCommand(agent).out,
              AllOf(HasSubstr("health  no agent answers at unix:/nowhere/kvtier-admin.sock"),
                    HasSubstr("; start kvtier-agent, or give its address by --agent\n"),
                    Not(HasSubstr("last error"))));
  EXPECT_EQ(RunCommand(agent).code, ExitCode::kUnreachable);
  const std::vector<std::string> coordinator = {"nodes", "--coordinator", "/nowhere/c.sock"};
  EXPECT_THAT(
      RunCommand(coordinator).err,
      AllOf(::testing::StartsWith("kvtier: no coordinator answers at unix:/nowhere/c.sock"),
            HasSubstr("; start kvtier-coordinator, or give its address by --coordinator\n")));
  EXPECT_EQ(RunCommand(coordinator).code, ExitCode::kUnreachable);
}

// An address with a '/' was taken for a name to look up.
TEST(Unreachable, ARelativePathIsAPath) {
  const std::vector<std::string> words = {"status", "--agent", "nowhere/kvtier-admin.sock"};
  EXPECT_THAT(RunCommand(words).out,
              AllOf(HasSubstr("no agent answers at unix:nowhere/kvtier-admin.sock"),
                    Not(HasSubstr("DNS"))));
}

}  // namespace
}  // namespace kvtier::cli

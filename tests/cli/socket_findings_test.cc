#include "cli/socket_findings.h"

#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

SocketFacts Answered(const char* name, mode_t mode) {
  return {
      .name = name, .exists = true, .is_socket = true, .owner = 100, .group = 200, .mode = mode};
}

// Returns facts of a worker with uid 1000, which the agent serves.
NodeFacts Well() {
  NodeFacts facts{.socket_dir = "/run/kvtier"};
  facts.sockets = {Answered("kvtier.sock", 0660), Answered("kvtier-fd.sock", 0660),
                   Answered("kvtier-admin.sock", 0600)};
  facts.uid = facts.own_uid = 1000;
  facts.uid_map = {{.inside = 0, .outside = 0, .count = 4294967295}};
  facts.session = absl::PermissionDeniedError("the agent knows no tenant \"-\" with this secret");
  v1::AgentStatusResponse status;
  *status.mutable_version() = convert::OurVersion("kvtier-agent 0.1.0");
  facts.status = status;
  v1::DescribeSharingResponse sharing;
  sharing.add_worker_uids(100);
  sharing.add_worker_uids(1000);
  facts.sharing = sharing;
  return facts;
}

Finding Of(const std::string& check, const NodeFacts& facts) {
  for (const Finding& finding : SocketFindings(facts)) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding of " << check;
  return {};
}

void ExpectFails(const Finding& finding, const std::string& detail, const std::string& remedy) {
  EXPECT_EQ(finding.health, Health::kFail) << finding.detail;
  EXPECT_THAT(finding.detail, HasSubstr(detail));
  EXPECT_THAT(finding.remedy, HasSubstr(remedy));
}

TEST(SocketFindings, AWellNodeHasNothingToDo) {
  const Findings findings = SocketFindings(Well());
  EXPECT_THAT(findings, SizeIs(7));
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.check << ": " << finding.detail;
    EXPECT_THAT(finding.remedy, IsEmpty()) << finding.check;
  }
  EXPECT_THAT(Of("socket kvtier.sock", Well()).detail, HasSubstr("owner 100:200, mode 0660"));
}

TEST(SocketFindings, OfAMissingDirectoryOnlyThatIsSaid) {
  NodeFacts facts = Well();
  facts.directory_error = ENOENT;
  EXPECT_THAT(SocketFindings(facts), SizeIs(1));
  ExpectFails(Of("socket directory", facts), "/run/kvtier: No such file", "start kvtier-agent");
  facts.directory_error = EACCES;
  ExpectFails(Of("socket directory", facts), "Permission denied", "group");
}

TEST(SocketFindings, AMissingSocketFails) {
  NodeFacts facts = Well();
  facts.sockets[0].exists = false;
  ExpectFails(Of("socket kvtier.sock", facts), "not in /run/kvtier", "start kvtier-agent");
}

TEST(SocketFindings, OfAnAgentThatStartsSayToWait) {
  NodeFacts facts = Well();
  facts.sockets[0].exists = false;
  facts.status = absl::UnavailableError("node a is starting: it opens the disks; ask again");
  ExpectFails(Of("socket kvtier.sock", facts), "not in /run/kvtier", "wait until the agent is");
  ExpectFails(Of("agent", facts), "node a is starting", "wait until the agent is ready");
}

TEST(SocketFindings, AFileInTheSocketsPlaceFails) {
  NodeFacts facts = Well();
  facts.sockets[0].is_socket = false;
  ExpectFails(Of("socket kvtier.sock", facts), "not a socket", "remove the file");
}

TEST(SocketFindings, AStaleSocketFails) {
  NodeFacts facts = Well();
  facts.sockets[1].connect_error = ECONNREFUSED;
  ExpectFails(Of("socket kvtier-fd.sock", facts), "nobody listens", "start kvtier-agent");
}

TEST(SocketFindings, AWorkerWithoutTheGroupIsToldWhichOne) {
  NodeFacts facts = Well();
  facts.sockets[0].connect_error = EACCES;
  ExpectFails(Of("socket kvtier.sock", facts), "may not write", "group 200");
}

TEST(SocketFindings, AnyOtherErrorIsNamed) {
  NodeFacts facts = Well();
  facts.sockets[0].connect_error = ETIMEDOUT;
  ExpectFails(Of("socket kvtier.sock", facts), "Connection timed out", "log");
}

TEST(SocketFindings, TheOperatorsSocketIsNotForWorkersAndThatOnlyWarns) {
  NodeFacts facts = Well();
  facts.sockets[2].connect_error = EACCES;
  const Finding finding = Of("socket kvtier-admin.sock", facts);
  EXPECT_EQ(finding.health, Health::kWarn);
  EXPECT_THAT(finding.remedy, HasSubstr("root or as uid 100"));
  for (const Finding& other : SocketFindings(facts)) {
    EXPECT_THAT(other.check, AllOf(Not("agent"), Not("uid"))) << "it was not asked";
  }
}

TEST(SocketFindings, AnAgentThatDoesNotAnswerFails) {
  NodeFacts facts = Well();
  facts.status = absl::DeadlineExceededError("late");
  ExpectFails(Of("agent", facts), "no answer in time", "restart");
  facts.status = absl::FailedPreconditionError("layouts differ: 1 and 2");
  ExpectFails(Of("agent", facts), "layouts differ", "same build");
}

TEST(SocketFindings, AUidThatTheAgentDoesNotServeFailsWithTheFlagToGive) {
  NodeFacts facts = Well();
  facts.uid = facts.own_uid = 1234;
  ExpectFails(Of("uid", facts), "uid 1234; the agent has --allow_uids=100,1000",
              "--allow_uids=100,1000,1234");
}

TEST(SocketFindings, AUidOfAUserNamespaceIsTheOneOutsideOfIt) {
  NodeFacts facts = Well();
  facts.uid = facts.own_uid = 5;
  facts.uid_map = {{.inside = 0, .outside = 995, .count = 10}};
  EXPECT_EQ(Of("uid", facts).health, Health::kOk);
  EXPECT_THAT(Of("uid", facts).detail, HasSubstr("uid 5 here, 1000 outside"));
  facts.uid_map = {{.inside = 0, .outside = 200000, .count = 10}};
  ExpectFails(Of("uid", facts), "200005 outside", "--allow_uids=100,1000,200005");
  facts.uid_map = {};
  ExpectFails(Of("uid", facts), "no uid of the host", "uid_map");
}

TEST(SocketFindings, WithinOneUserNamespaceUidsAreAsTheyAre) {
  NodeFacts facts = Well();
  facts.uid_map = {{.inside = 0, .outside = 200000, .count = 65536}};
  EXPECT_EQ(Of("uid", facts).health, Health::kFail);
  facts.same_user_namespace = true;
  EXPECT_EQ(Of("uid", facts).health, Health::kOk);
}

TEST(SocketFindings, RootWhoIsNoWorkerIsToldToNameOne) {
  NodeFacts facts = Well();
  facts.uid = facts.own_uid = 0;
  facts.session = absl::UnavailableError("the agent hung up");
  EXPECT_EQ(Of("uid", facts).health, Health::kWarn);
  EXPECT_THAT(Of("uid", facts).remedy, HasSubstr("--uid"));
  EXPECT_EQ(Of("session", facts).health, Health::kWarn);
  facts.uid_named = true;
  facts.uid = 1234;
  EXPECT_EQ(Of("uid", facts).health, Health::kFail);
}

TEST(SocketFindings, ARefusedHandshakeFailsWithItsReason) {
  NodeFacts facts = Well();
  facts.session = absl::FailedPreconditionError("layout mismatch: a and b");
  ExpectFails(Of("session", facts), "layout mismatch", "same build");
  facts.session = absl::PermissionDeniedError("the agent does not serve this user");
  ExpectFails(Of("session", facts), "does not serve", "--allow_uids");
  facts.session = absl::ResourceExhaustedError("the agent has no session free for this tenant");
  ExpectFails(Of("session", facts), "no session free", "end workers");
  facts.session = absl::DeadlineExceededError("late");
  ExpectFails(Of("session", facts), "late", "log");
}

TEST(OutsideUid, RangesAreHalfOpen) {
  const std::vector<UidRange> map = {{.inside = 0, .outside = 1000, .count = 1},
                                     {.inside = 1, .outside = 100000, .count = 9}};
  EXPECT_EQ(OutsideUid(0, map), 1000);
  EXPECT_EQ(OutsideUid(1, map), 100000);
  EXPECT_EQ(OutsideUid(9, map), 100008);
  EXPECT_EQ(OutsideUid(10, map), std::nullopt);
}

}  // namespace
}  // namespace kvtier::cli

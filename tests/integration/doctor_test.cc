// Tests `kvtier doctor` beside a real agent and real workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DoctorTest : public ::testing::Test {
 protected:
  struct Ended {
    int status = -1;
    std::string text;
  };
  Ended Doctor(std::vector<std::string> words = {}) {
    words.insert(words.begin(),
                 {ProgramPath("kvtier"), "doctor", "--socket-dir", agent_.socket_dir()});
    const std::string log = absl::StrCat(cluster_.run_dir(), "/doctor-", runs_++, ".log");
    const auto process = ChildProcess::Start(words, log);
    EXPECT_EQ(process.status(), absl::OkStatus());
    if (!process.ok()) return {};
    return {(*process)->Wait(Patience(absl::Seconds(20))).value_or(-1), FileTail(log, 16000)};
  }
  // Returns another worker, whose space differs from TestWorker's in one field.
  std::unique_ptr<Client> WorkerWith(const SpaceSpec& spec) {
    auto client = *Client::Open({.socket_dir = agent_.socket_dir()});
    EXPECT_TRUE(client->RegisterSpace(spec).ok());
    return client;
  }

  int runs_ = 0;
  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
};

TEST_F(DoctorTest, TheFieldInWhichTwoWorkersDifferIsNamedWithBothValues) {
  TestWorker worker({.socket_dir = agent_.socket_dir()});
  ASSERT_TRUE(worker.AwaitConnected());
  SpaceSpec other = worker.spec();
  other.tokens_per_block = 2 * worker.spec().tokens_per_block;
  const std::unique_ptr<Client> client = WorkerWith(other);
  const Ended ended = Doctor();
  EXPECT_EQ(ended.status, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr(absl::StrCat("do not share: tokens_per_block is ",
                                                 worker.spec().tokens_per_block, " and ",
                                                 other.tokens_per_block)));
  EXPECT_THAT(ended.text, HasSubstr("--block-size"));
}

TEST_F(DoctorTest, WorkersOfOneSpaceShare) {
  TestWorker one({.socket_dir = agent_.socket_dir()});
  TestWorker two({.socket_dir = agent_.socket_dir()});
  ASSERT_TRUE(one.AwaitConnected() && two.AwaitConnected());
  const Ended ended = Doctor();
  EXPECT_EQ(ended.status, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("(2 sessions): these share"));
}

TEST_F(DoctorTest, AUidThatTheAgentDoesNotServeFails) {
  const Ended ended = Doctor({"--uid", "54321", "-o", "json"});
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_THAT(ended.text, AllOf(HasSubstr("\"healthy\": false"), HasSubstr("uid 54321"),
                                HasSubstr("54321, or run the worker")));
}

// Once, the agent's refusal was lost behind an EPIPE, and the worker was told only of a broken
// pipe.
TEST_F(DoctorTest, AWorkerOfAnotherUserIsToldWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  AgentProcess& strict = cluster_.StartAgent("node-b", {{"allow_uids", "54321"}});
  const auto client = *Client::Open({.socket_dir = strict.socket_dir()});
  EXPECT_THAT(client->Stats().last_error, HasSubstr("does not serve this user"));
}

TEST_F(DoctorTest, TheSocketsOfAKilledAgentAreStale) {
  agent_.Kill();
  const Ended ended = Doctor();
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("nobody listens"));
}

}  // namespace
}  // namespace kvtier::testing

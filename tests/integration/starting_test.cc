// Tests a real agent while its start takes host memory: it answers what it is doing, ends when it
// is told to, and serves those who came meanwhile as soon as it is ready.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kLimit = absl::Seconds(60);
// An agent that is told to stop while it starts ends within this.
constexpr absl::Duration kStopLimit = absl::Seconds(2);
constexpr char kServing = 1;  // Health answers of gRPC.
constexpr char kNotServing = 2;

// Returns a channel that knows of no earlier failure to connect.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Returns what the address answers to a health check of the service; 0: nothing.
char HealthOf(const std::string& address, const std::string& service) {
  grpc::GenericStub stub(ChannelTo(address));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(Patience(kLimit)));
  // The messages have one field each: 1, a string, and 1, a number.
  const grpc::Slice request(
      absl::StrCat("\n", std::string(1, static_cast<char>(service.size())), service));
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&request, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  grpc::Slice bytes;
  const bool answered = queue.Next(&tag, &ok) && ok && status.ok() &&
                        answer.DumpToSingleSlice(&bytes).ok() && bytes.size() == 2;
  return answered ? static_cast<char>(bytes.begin()[1]) : '\0';
}

class StartingTest : public ::testing::Test {
 protected:
  // Has the agent take its memory on one processor, which takes long enough to be seen.
  void SetUp() override {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    agent_.RunAs({"/usr/bin/taskset", "-c", std::to_string(first), ProgramPath("kvtier-agent")});
  }
  static grpc::Status StatusAt(const std::string& address) {
    const auto stub = v1::AgentAdmin::NewStub(ChannelTo(address));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoNanoseconds(Patience(kLimit)));
    v1::AgentStatusResponse response;
    return stub->Status(&context, {}, &response);
  }
  // Starts the agent, and waits until it says at `address` that it takes its memory.
  void SpawnAndSeeItTakeMemory(const std::string& address) {
    ASSERT_EQ(agent_.Spawn(), absl::OkStatus());
    const absl::Time limit = absl::Now() + Patience(kLimit);
    grpc::Status status;
    while (!absl::StrContains(status.error_message(), "takes host memory")) {
      ASSERT_LT(absl::Now(), limit) << agent_.LogText();
      ASSERT_TRUE(agent_.process().Running()) << agent_.LogText();
      status = StatusAt(address);
      ASSERT_FALSE(status.ok()) << "the start was too quick to be seen";
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr("node node-a is starting"), HasSubstr(" of 2048 MiB")));
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.AddAgent(
      "node-a", {{"host_bytes", "2GiB"}, {"slab_bytes", "64MiB"}, {"disk_dir", ""}});
};

// Once, nothing listened before all memory was taken: a probe gave up on 600 GiB.
TEST_F(StartingTest, AnswersWhatItDoesAndIsAliveAndNotReady) {
  SpawnAndSeeItTakeMemory(agent_.address());
  EXPECT_EQ(HealthOf(agent_.address(), "liveness"), kServing);
  EXPECT_EQ(HealthOf(agent_.address(), "readiness"), kNotServing);
  // Calls of all kinds are told so, at operators' door too.
  EXPECT_THAT(StatusAt(agent_.admin_address()).error_message(), HasSubstr("is starting"));
  const absl::Time limit = absl::Now() + Patience(kLimit);
  while (HealthOf(agent_.address(), "readiness") != kServing) {
    ASSERT_LT(absl::Now(), limit) << agent_.LogText();
    ASSERT_TRUE(agent_.process().Running()) << agent_.LogText();
  }
  EXPECT_EQ(HealthOf(agent_.address(), "liveness"), kServing);
  EXPECT_THAT(agent_.LogText(), HasSubstr("2048 MiB taken, threads: 1, in "));
  EXPECT_TRUE(StatusAt(agent_.address()).ok());
}

TEST_F(StartingTest, AWorkerThatComesMeanwhileIsServedWhenItIsReady) {
  SpawnAndSeeItTakeMemory(agent_.admin_address());
  TestWorker worker({.socket_dir = agent_.socket_dir()});
  EXPECT_THAT(worker.Get({.first = 1, .count = 1}), IsEmpty()) << "a miss, at once";
  ASSERT_TRUE(worker.AwaitConnected());
  EXPECT_EQ(worker.Put({.first = 1, .count = 8}), 8);
  EXPECT_THAT(worker.Get({.first = 1, .count = 8}), SizeIs(8));
  EXPECT_EQ(agent_.Stop(Patience(kLimit)), 0);
}

// Once, the signal waited until all memory was taken.
TEST_F(StartingTest, ASignalEndsItAtOnce) {
  SpawnAndSeeItTakeMemory(agent_.admin_address());
  EXPECT_EQ(agent_.Stop(Patience(kStopLimit)), 0);
  EXPECT_THAT(agent_.LogText(),
              HasSubstr("stopping on Terminated while the start takes host memory"));
  EXPECT_EQ(agent_.Start().status(), absl::OkStatus()) << "nothing is in the way of the next";
}

}  // namespace
}  // namespace kvtier::testing

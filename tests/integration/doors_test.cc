// Tests the doors of real programs: who may connect, and which RPC is answered where. The table in
// docs/design/wire.md is held against the programs, RPC by RPC.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "proto/session_wire.h"
#include "proto/socket_names.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Words of the table in docs/design/wire.md.
constexpr char kAnswers[] = "answers";
constexpr char kNamesTheSocket[] = "names the socket";
constexpr char kAbsent[] = "-";
constexpr size_t kDoors = 5;

using Row = std::vector<std::string>;  // Answers of the doors, in the order of the columns.

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the table under "## Doors", by RPC ("Worker.Match").
std::map<std::string, Row> DocumentedDoors() {
  std::map<std::string, Row> table;
  bool inside = false;
  std::ifstream page(absl::StrCat(KVTIER_SOURCE_DIR, "/docs/design/wire.md"));
  for (std::string line; std::getline(page, line);) {
    if (absl::StartsWith(line, "## ")) inside = line == "## Doors";
    if (!inside || !absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != kDoors + 3) continue;
    const std::string rpc(absl::StripAsciiWhitespace(cells[1]));
    for (size_t i = 2; i < 2 + kDoors; ++i) {
      table[rpc.substr(1, rpc.size() - 2)].emplace_back(absl::StripAsciiWhitespace(cells[i]));
    }
  }
  return table;
}

// Returns every RPC of every service in proto/kvtier/v1, as "/kvtier.v1.Worker/Match" by
// "Worker.Match", and gRPC's health checks.
std::map<std::string, std::string> EveryRpc() {
  google::protobuf::FileDescriptorSet files;
  EXPECT_TRUE(files.ParseFromString(FileText(KVTIER_DESCRIPTORS)));
  std::map<std::string, std::string> rpcs = {{"Health.Check", "/grpc.health.v1.Health/Check"},
                                             {"Health.Watch", "/grpc.health.v1.Health/Watch"}};
  for (const auto& file : files.file()) {
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        rpcs[absl::StrCat(service.name(), ".", method.name())] =
            absl::StrCat("/", file.package(), ".", service.name(), "/", method.name());
      }
    }
  }
  return rpcs;
}

// Returns the status of a call with an empty request, without a look at the answers.
grpc::Status CallWithNothing(const std::string& address, const std::string& path) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(Patience(absl::Seconds(20))));
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  grpc::Status status;
  if (await()) {
    const grpc::Slice nothing;
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    await();
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    if (await()) context.TryCancel();  // Some calls answer and do not end by themselves.
  }
  call->Finish(&status, nullptr);
  await();
  return status;
}

std::string WhatItDoes(const grpc::Status& status, const std::string& socket) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return kAbsent;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("does not answer: ", status.error_message());
  }
  if (status.error_code() != grpc::StatusCode::PERMISSION_DENIED) return kAnswers;
  EXPECT_THAT(status.error_message(), HasSubstr(socket));
  return kNamesTheSocket;
}

class DoorsTest : public ::testing::Test {
 protected:
  v1::LookupRequest LookupOfAlpha() const {
    v1::LookupRequest request;
    request.set_tenant("alpha");
    request.set_space_digest(std::string(32, 's'));
    request.set_engine_key("an engine's key");
    return request;
  }
  std::string WorkersAddress() const {
    return absl::StrCat("unix:", agent_.socket_dir(), "/", wire::kControlSocketName);
  }
  std::string AdminSocket() const {
    return absl::StrCat(agent_.socket_dir(), "/", kAgentAdminSocketName);
  }
  static std::unique_ptr<v1::AgentAdmin::Stub> AdminAt(const std::string& address) {
    return v1::AgentAdmin::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }
  grpc::Status LookUp(const std::string& address) const {
    grpc::ClientContext context;
    v1::LookupResponse response;
    return AdminAt(address)->Lookup(&context, LookupOfAlpha(), &response);
  }

  ProcessCluster cluster_;
  const std::string tenants_dir_ =
      cluster_.WriteTenants({{"alpha", "the secret of alpha"}, {"bravo", "the secret of bravo"}});
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& agent_ = cluster_.AddAgent("node-a", {{"tenants_dir", tenants_dir_},
                                                      {"device", "emulated"},
                                                      {"gpu_bytes", "1MiB"},
                                                      {"gpu_block_bytes", "64KiB"},
                                                      {"gpu_tenants", "alpha"}});
  void SetUp() override { ASSERT_EQ(agent_.Start().status(), absl::OkStatus()); }
};

// A new RPC has no row in the page's table, so this fails until somebody adds one.
TEST_F(DoorsTest, EveryRpcIsAnsweredAtTheDoorsOfItsRowAndAtNoOther) {
  const std::string coordinator_socket =
      absl::StrCat(cluster_.run_dir(), "/", kCoordinatorAdminSocketName);
  const std::array<std::pair<std::string, std::string>, kDoors> doors = {
      {{WorkersAddress(), AdminSocket()},
       {agent_.admin_address(), AdminSocket()},
       {agent_.address(), AdminSocket()},
       {coordinator_.admin_address(), coordinator_socket},
       {coordinator_.address(), coordinator_socket}}};
  std::map<std::string, Row> seen;
  for (const auto& [rpc, path] : EveryRpc()) {
    for (const auto& [address, socket] : doors) {
      seen[rpc].push_back(WhatItDoes(CallWithNothing(address, path), socket));
    }
  }
  EXPECT_EQ(seen, DocumentedDoors());
}

// Once, any caller of the workers' socket or the TCP port was told the BlockKey of any tenant's
// block, and could fetch the block from a peer with it.
TEST_F(DoorsTest, AWorkerOrAPeerCannotHaveAnyTenantsBlockNamed) {
  EXPECT_EQ(LookUp(WorkersAddress()).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  const grpc::Status remote = LookUp(agent_.address());
  EXPECT_EQ(remote.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(remote.error_message(), AllOf(HasSubstr("Lookup"), HasSubstr(AdminSocket())));
  EXPECT_TRUE(LookUp(agent_.admin_address()).ok());
}

TEST_F(DoorsTest, TheStatusOverTcpNamesNoTenant) {
  const auto status_at = [](const std::string& address) {
    grpc::ClientContext context;
    v1::AgentStatusResponse response;
    EXPECT_TRUE(AdminAt(address)->Status(&context, {}, &response).ok());
    return response;
  };
  const v1::AgentStatusResponse local = status_at(agent_.admin_address());
  const v1::AgentStatusResponse remote = status_at(agent_.address());
  EXPECT_THAT(local.SerializeAsString(), HasSubstr("alpha"));
  EXPECT_THAT(remote.SerializeAsString(), AllOf(Not(HasSubstr("alpha")), Not(HasSubstr("bravo"))));
  EXPECT_EQ(remote.node_id(), "node-a");
  EXPECT_EQ(remote.gpus(0).slots(), local.gpus(0).slots());
}

TEST_F(DoorsTest, TheAdminSocketsAreForTheirOwnerAlone) {
  for (const std::string& path :
       {AdminSocket(), absl::StrCat(cluster_.run_dir(), "/", kCoordinatorAdminSocketName)}) {
    struct stat file{};
    ASSERT_EQ(stat(path.c_str(), &file), 0) << path;
    EXPECT_EQ(file.st_mode & 0777, 0600) << path;
    EXPECT_EQ(file.st_uid, geteuid()) << path;
  }
}

// Returns whether a child process of another user can connect, and the agent does not hang up.
bool AnotherUserMayConnect(const std::string& path) {
  const pid_t child = fork();
  if (child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  constexpr uid_t kNobody = 65534;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = 5};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte = 0;
  // gRPC sends the first bytes; a caller that is hung up on reads the end of the stream.
  const bool kept = setuid(kNobody) == 0 &&
                    connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                    read(fd, &byte, 1) == 1;
  _exit(kept ? 0 : 1);
}

TEST_F(DoorsTest, AnotherUserIsHungUpOnEvenWhereTheFileLetsItIn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string workers = absl::StrCat(agent_.socket_dir(), "/", wire::kControlSocketName);
  std::filesystem::permissions(cluster_.run_dir(), std::filesystem::perms::all);
  std::filesystem::permissions(agent_.socket_dir(), std::filesystem::perms::all);
  EXPECT_FALSE(AnotherUserMayConnect(AdminSocket())) << "by the file's mode";
  for (const std::string& path : {AdminSocket(), workers}) {
    std::filesystem::permissions(path, std::filesystem::perms::all);
    EXPECT_FALSE(AnotherUserMayConnect(path)) << path;
  }
  EXPECT_TRUE(agent_.TryStatus().ok());
}

TEST_F(DoorsTest, TheSocketOfADeadAgentIsReplacedAndThatOfALiveOneIsNotStolen) {
  agent_.Kill();
  ASSERT_TRUE(std::filesystem::exists(AdminSocket()));
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  EXPECT_TRUE(agent_.TryStatus().ok());
  AgentProcess& thief = cluster_.AddAgent("node-b", {{"socket_dir", agent_.socket_dir()}});
  ASSERT_EQ(thief.Spawn(), absl::OkStatus());
  EXPECT_EQ(thief.process().Wait(Patience(absl::Seconds(20))), 1);
  EXPECT_TRUE(LookUp(agent_.admin_address()).ok());
}

TEST_F(DoorsTest, ASecondCoordinatorOnTheSameSocketDirectoryFailsAndSaysSo) {
  const std::string log = absl::StrCat(cluster_.run_dir(), "/second.log");
  auto second = ChildProcess::Start({ProgramPath("kvtier-coordinator"), "--listen=127.0.0.1:0",
                                     absl::StrCat("--data_dir=", cluster_.run_dir(), "/second"),
                                     absl::StrCat("--socket_dir=", cluster_.run_dir())},
                                    log);
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_EQ((*second)->Wait(Patience(absl::Seconds(20))), 1);
  EXPECT_THAT(FileTail(log, 800),
              AllOf(HasSubstr(cluster_.run_dir()), HasSubstr("another coordinator")));
  EXPECT_TRUE(coordinator_.TryStatus().ok());
}

}  // namespace
}  // namespace kvtier::testing

// Tests the link over real gRPC, with coordinators of one name that a name server of the test moves
// from one address of loopback to another.
#include "agent/peers/grpc_coordinator_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/thread_executor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

// NameServer answers every question for an IPv4 address with the one that was set last.
class NameServer {
 public:
  NameServer() : socket_(socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in address = Loopback(0);
    KVT_CHECK(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    socklen_t length = sizeof(address);
    KVT_CHECK(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
    const timeval patience{.tv_usec = 50'000};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    thread_ = std::thread([this] { Serve(); });
  }
  ~NameServer() {
    stopping_ = true;
    thread_.join();
    close(socket_);
  }
  void Set(const std::string& address) { address_ = inet_addr(address.c_str()); }
  int port() const { return port_; }

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void Serve() {
    std::array<char, 512> bytes;
    while (!stopping_) {
      sockaddr_in from{};
      socklen_t length = sizeof(from);
      const ssize_t size = recvfrom(socket_, bytes.data(), bytes.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from), &length);
      if (size <= 0) continue;
      const std::string reply = ReplyTo(std::string(bytes.data(), static_cast<size_t>(size)));
      sendto(socket_, reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), length);
    }
  }
  // Returns the answer by RFC 1035, section 4: a header, the question, and one record or none.
  std::string ReplyTo(const std::string& question) const {
    const size_t name_end = question.find('\0', 12) + 1;
    const bool asks_v4 = question.substr(name_end, 2) == std::string("\0\1", 2);
    std::string reply = question.substr(0, 2) + std::string("\x81\x80\0\1\0", 5) +
                        std::string(1, asks_v4 ? '\1' : '\0') + std::string(4, '\0') +
                        question.substr(12, name_end + 4 - 12);
    if (!asks_v4) return reply;
    const uint32_t address = address_;
    reply += std::string("\xc0\x0c\0\1\0\1\0\0\0\0\0\4", 12);
    return reply + std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  }

  const int socket_;
  int port_ = 0;
  std::atomic<uint32_t> address_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// OneCoordinator answers reports, but none while it hangs.
class OneCoordinator final : public v1::Coordinator::Service {
 public:
  OneCoordinator(const std::string& host, int port, uint64_t epoch) : epoch_(epoch) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat(host, ":", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KVT_CHECK(server_ != nullptr);
  }
  ~OneCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }
  int port() const { return port_; }
  void Hang(bool hangs) { hangs_ = hangs; }

  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* /*request*/,
                      v1::ReportResponse* response) override {
    while (hangs_ && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    *response = convert::ToWire(ReportReply{.coordinator_epoch = {epoch_}}, "test");
    return grpc::Status::OK;
  }

 private:
  const uint64_t epoch_;
  int port_ = 0;
  std::atomic<bool> hangs_{false};
  std::unique_ptr<grpc::Server> server_;
};

class GrpcCoordinatorLinkTest : public ::testing::Test {
 protected:
  GrpcCoordinatorLinkTest() {
    names_.Set("127.0.0.2");
    first_.emplace("127.0.0.2", 0, 1);
    link_ = std::make_unique<GrpcCoordinatorLink>(
        &executor_,
        absl::StrCat("dns://127.0.0.1:", names_.port(), "/coordinator.test:", first_->port()),
        "test");
  }
  ~GrpcCoordinatorLinkTest() override {
    executor_.Stop();
    link_.reset();
  }
  // Returns the epoch of the coordinator that answered; 0: none did.
  uint64_t Answered(absl::Duration patience) {
    const Report report{
        .node = *NodeId::FromString("node-a"), .node_epoch = {1}, .address = "10.0.0.1:7301"};
    const auto reply = AwaitOn(&executor_, link_->Send(report, executor_.Now() + patience));
    return reply.ok() ? reply->coordinator_epoch.value : 0;
  }
  // Reports as an agent does, once a second, until the second coordinator answers. Returns how long
  // that took.
  absl::Duration TimeUntilFound() {
    const absl::Time start = executor_.Now();
    while (Answered(absl::Seconds(1)) != 2 && executor_.Now() - start < absl::Seconds(60)) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return executor_.Now() - start;
  }

  NameServer names_;
  ThreadExecutor executor_{"link-test"};
  std::optional<OneCoordinator> first_;
  std::unique_ptr<GrpcCoordinatorLink> link_;
};

constexpr absl::Duration kFoundWithin = absl::Seconds(10);

// Once, this took 28 s: gRPC asks for a name again half a minute after it asked before.
TEST_F(GrpcCoordinatorLinkTest, ACoordinatorThatMovedIsFoundInSeconds) {
  ASSERT_EQ(Answered(absl::Seconds(10)), 1u);
  OneCoordinator second("127.0.0.3", first_->port(), 2);
  names_.Set("127.0.0.3");
  first_.reset();
  EXPECT_LT(TimeUntilFound(), kFoundWithin);
}

// Its machine was lost, for example: nobody says that the connection has ended.
TEST_F(GrpcCoordinatorLinkTest, ACoordinatorThatMovedWithoutAWordIsFoundInSeconds) {
  ASSERT_EQ(Answered(absl::Seconds(10)), 1u);
  OneCoordinator second("127.0.0.3", first_->port(), 2);
  names_.Set("127.0.0.3");
  first_->Hang(true);
  EXPECT_LT(TimeUntilFound(), kFoundWithin);
}

TEST_F(GrpcCoordinatorLinkTest, ACoordinatorThatMissesOneReportKeepsItsConnection) {
  ASSERT_EQ(Answered(absl::Seconds(10)), 1u);
  OneCoordinator second("127.0.0.3", first_->port(), 2);
  names_.Set("127.0.0.3");
  for (int i = 0; i < 2; ++i) {
    first_->Hang(true);
    EXPECT_EQ(Answered(absl::Milliseconds(50)), 0u);
    first_->Hang(false);
    EXPECT_EQ(Answered(absl::Seconds(10)), 1u);
  }
}

}  // namespace
}  // namespace kvtier

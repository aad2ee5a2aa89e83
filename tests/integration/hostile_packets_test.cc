// Tests a worker that sends garbage on every socket: the agent answers with errors or hangs up, and
// a worker of another tenant notices nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/reuse_hint.h"
#include "grpcpp/generic/generic_stub.h"
#include "proto/convert.h"
#include "tests/integration/hostile_worker.h"

namespace kvtier::testing {
namespace {

TEST_F(HostileWorkerTest, GarbageInsteadOfAHelloIsHungUpOn) {
  for (size_t i = 0; i < Tries(); ++i) {
    RawSession session(agent_.socket_dir());
    ASSERT_TRUE(session.connected());
    session.SendBytes(AsBytes(Noise(1 + random_() % 300)));
    session.AwaitHangup();
  }
}

TEST_F(HostileWorkerTest, AHelloWithAnyByteChangedOpensNothing) {
  for (size_t i = 0; i < sizeof(wire::Hello); ++i) {
    RawSession session(agent_.socket_dir());
    wire::Hello hello = session.GoodHello("hostile", kHostileSecret);
    std::as_writable_bytes(std::span(&hello, 1))[i] ^= static_cast<std::byte>(1 + random_() % 255);
    const auto welcome = session.Say(hello);
    // The changed version may be another one that the agent speaks.
    const bool is_version =
        i >= offsetof(wire::Hello, version) && i < offsetof(wire::Hello, tenant);
    EXPECT_TRUE(is_version || !welcome || welcome->code != wire::WelcomeCode::kOk) << "byte " << i;
  }
}

TEST_F(HostileWorkerTest, AProofOfAnotherChallengeIsNoProof) {
  RawSession overheard(agent_.socket_dir());
  const wire::Hello hello = overheard.GoodHello("hostile", kHostileSecret);
  for (size_t i = 0; i < 10; ++i) {
    RawSession session(agent_.socket_dir());
    const auto welcome = session.Say(hello);
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->code, wire::WelcomeCode::kUnknownTenant);
  }
}

TEST_F(HostileWorkerTest, GarbageInAnOpenSessionIsRefusedAndHandsOutNothing) {
  for (size_t i = 0; i < Tries(); ++i) {
    wire::DescriptorRequest request{.kind = static_cast<wire::DescriptorKind>(random_() % 300 + 8),
                                    .index = static_cast<uint32_t>(random_()),
                                    .reserved = static_cast<uint32_t>(random_())};
    if (random_() % 2 == 0) request.magic = static_cast<uint32_t>(random_());
    const auto reply = session_->Ask(request);
    ASSERT_TRUE(reply.has_value());
    EXPECT_NE(reply->code, wire::DescriptorCode::kOk);
  }
  // This worker reads no answers. The agent may hang up, but must not wait.
  RawSession deaf(agent_.socket_dir());
  ASSERT_TRUE(SayHello(&deaf));
  for (size_t i = 0; i < 10'000 && deaf.SendBytes(AsBytes(Noise(16))); ++i) continue;
}

TEST_F(HostileWorkerTest, TheMemoryThatItIsHandedCanNeitherShrinkNorBeWrittenUnasked) {
  int arena = -1;
  const auto reply = session_->Ask({.kind = wire::DescriptorKind::kArenaWrite}, &arena);
  ASSERT_TRUE(reply.has_value() && arena >= 0);
  EXPECT_NE(ftruncate(arena, 0), 0);
  EXPECT_NE(ftruncate(arena, static_cast<off_t>(reply->bytes * 2)), 0);
  EXPECT_NE(fallocate(arena, 0, 0, static_cast<off_t>(reply->bytes * 2)), 0);
  close(arena);
  for (const wire::DescriptorKind kind :
       {wire::DescriptorKind::kArenaRead, wire::DescriptorKind::kResidency}) {
    int readable = -1;
    ASSERT_TRUE(session_->Ask({.kind = kind}, &readable).has_value());
    ASSERT_GE(readable, 0);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, readable, 0), MAP_FAILED);
    EXPECT_NE(ftruncate(readable, 0), 0);
    close(readable);
  }
}

TEST_F(HostileWorkerTest, GarbageOnTheControlSocketHurtsNobody) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  absl::StrCat(agent_.socket_dir(), "/", wire::kControlSocketName)
      .copy(address.sun_path, sizeof(address.sun_path) - 1);
  for (size_t i = 0; i < Tries() / 3; ++i) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    std::string noise = Noise(1 + random_() % 5000);
    if (i % 2 == 0) noise = absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", noise);
    send(fd, noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
  }
}

// Calls with these bytes for a message, and returns the status alone.
grpc::Status CallWithBytes(grpc::GenericStub* stub, const std::string& path,
                           const std::string& message) {
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  SetCallDeadline(&context);
  grpc::CompletionQueue queue;
  const auto call = stub->PrepareUnaryCall(&context, path, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

// The message is noise, or a good one with some of its bytes changed.
TEST_F(HostileWorkerTest, GarbageInsteadOfAMessageIsAnsweredByEveryCall) {
  grpc::GenericStub stub(channel_);
  auto onboard = RequestOf<v1::OnboardRequest>(1, 4);
  *onboard.mutable_sequences(0)->mutable_reuse_hint() = convert::ToWire(
      ReuseHint{.conversation = 7, .turn = 1, .finish = FinishReason::kStop, .priority = 9});
  const std::string good = onboard.SerializeAsString();
  for (const char* const method :
       {"RegisterSpace", "Match", "Onboard", "OnboardParts", "TakeTicket", "RedeemTicket",
        "Prefetch", "Advise", "Reserve", "Commit", "TakeSlots", "SwapOut", "SwapIn", "Release",
        "Delete", "Ping", "NoSuchCall"}) {
    for (size_t i = 0; i < Tries() / 6; ++i) {
      std::string message = i % 2 == 0 ? Noise(random_() % 600) : good;
      for (size_t changes = random_() % 4; i % 2 == 1 && changes > 0; --changes) {
        message[random_() % message.size()] = static_cast<char>(random_());
      }
      const grpc::Status status =
          CallWithBytes(&stub, absl::StrCat("/kvtier.v1.Worker/", method), message);
      EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << method;
      EXPECT_NE(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
    }
  }
}

}  // namespace
}  // namespace kvtier::testing

// Tests PacketSocket against the kernel's ways of ending a conversation.
#include "client/packet_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/unix_listener.h"

namespace kvtier {
namespace {

constexpr std::array<std::byte, 4> kTheirs{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

class PacketSocketTest : public ::testing::Test {
 protected:
  PacketSocketTest() {
    directory_ = ::testing::TempDir() + "kvtier-packets-XXXXXX";
    KVT_CHECK(mkdtemp(directory_.data()) != nullptr);
    path_ = directory_ + "/socket";
    listening_.emplace(*UnixListener::Listen(path_, SOCK_SEQPACKET, 0600));
    socket_.emplace(*PacketSocket::Connect(path_));
    accepted_ = FileDescriptor(accept(listening_->fd(), nullptr, nullptr));
  }
  ~PacketSocketTest() override {
    listening_.reset();
    rmdir(directory_.c_str());
  }
  static absl::Time Soon() { return MonotonicClock().Now() + absl::Seconds(10); }

  std::string directory_;
  std::string path_;
  std::optional<UnixListener> listening_;
  std::optional<PacketSocket> socket_;
  FileDescriptor accepted_;
};

TEST_F(PacketSocketTest, TheLastWordOfWhoHangsUpWithOurPacketUnreadIsReceived) {
  ASSERT_TRUE(socket_->Send(kTheirs, Soon()).ok());
  ASSERT_EQ(send(accepted_.get(), kTheirs.data(), kTheirs.size(), 0), 4);
  accepted_ = FileDescriptor();
  std::array<std::byte, 4> packet{};
  EXPECT_EQ(socket_->Receive(packet, Soon()).status(), absl::OkStatus());
  EXPECT_EQ(packet, kTheirs);
  EXPECT_EQ(socket_->Receive(packet, Soon()).status().code(), absl::StatusCode::kUnavailable);
}

// Once, the client said that no agent listens.
TEST_F(PacketSocketTest, AUserOutsideTheSocketsGroupIsToldSo) {
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  const uid_t user = geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);  // Root may use every socket.
  }
  const absl::Status refused = PacketSocket::Connect(path_).status();
  if (user == 0) {
    ASSERT_EQ(seteuid(user), 0);
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("may not use the agent's socket"));
  EXPECT_THAT(refused.message(), ::testing::Not(::testing::HasSubstr("no agent listens")));
}

TEST_F(PacketSocketTest, WhoHangsUpWithoutAWordIsUnavailable) {
  ASSERT_TRUE(socket_->Send(kTheirs, Soon()).ok());
  accepted_ = FileDescriptor();
  std::array<std::byte, 4> packet{};
  EXPECT_EQ(socket_->Receive(packet, Soon()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kvtier

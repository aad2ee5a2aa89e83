// PacketSocket against the kernel's own ways of ending a conversation.
#include "client/packet_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "core/clock.h"
#include "core/listening_socket.h"
#include "tests/testing/temp_dir.h"

namespace kvtier {
namespace {

constexpr std::array<std::byte, 4> kTheirs{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

class PacketSocketTest : public ::testing::Test {
 protected:
  PacketSocketTest() : path_(directory_.path() + "/socket") {
    listening_ = FileDescriptor(*ListenUnix(path_, SOCK_SEQPACKET, 0600));
    socket_.emplace(*PacketSocket::Connect(path_));
    accepted_ = FileDescriptor(accept(listening_.get(), nullptr, nullptr));
  }
  static absl::Time Soon() { return MonotonicClock().Now() + absl::Seconds(10); }

  testing::TempDir directory_;
  const std::string path_;
  FileDescriptor listening_;
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

TEST_F(PacketSocketTest, WhoHangsUpWithoutAWordIsUnavailable) {
  ASSERT_TRUE(socket_->Send(kTheirs, Soon()).ok());
  accepted_ = FileDescriptor();
  std::array<std::byte, 4> packet{};
  EXPECT_EQ(socket_->Receive(packet, Soon()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kvtier

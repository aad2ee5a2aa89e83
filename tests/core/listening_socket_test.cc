#include "core/listening_socket.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ListeningSocketTest : public ::testing::Test {
 protected:
  ListeningSocketTest() {
    std::string name = "/tmp/kvtier-listen-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    directory_ = name;
  }
  ~ListeningSocketTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

bool Connects(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

void CloseAll(const TcpListeners& listeners) {
  for (const int fd : listeners.sockets) close(fd);
}

TEST_F(ListeningSocketTest, ADirectoryIsLockedOnceAndTheSecondIsToldSo) {
  const std::string directory = directory_ + "/made";
  EXPECT_TRUE(LockSocketDir(directory, "a.lock", "agent").ok());
  const absl::Status second = LockSocketDir(directory, "a.lock", "agent");
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.message(), AllOf(HasSubstr(directory), HasSubstr("another agent")));
  EXPECT_TRUE(LockSocketDir(directory, "b.lock", "coordinator").ok());
}

TEST_F(ListeningSocketTest, APortThatIsInUseIsRefusedByAddress) {
  const auto first = ListenTcp({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(first->port, 0);
  EXPECT_TRUE(Connects(first->port));
  const auto second = ListenTcp({.host = "127.0.0.1", .port = first->port});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1:" + std::to_string(first->port)));
  CloseAll(*first);
}

TEST_F(ListeningSocketTest, ANameAndAWildcardTakeIpv4) {
  for (const char* host : {"localhost", "0.0.0.0", "[::]"}) {
    const auto listeners = ListenTcp({.host = host, .port = 0});
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    EXPECT_TRUE(Connects(listeners->port)) << host;
    CloseAll(*listeners);
  }
}

TEST_F(ListeningSocketTest, AHostThatNobodyKnowsIsRefusedByName) {
  EXPECT_THAT(ListenTcp({.host = "no.such.host.invalid", .port = 0}).status().message(),
              HasSubstr("no.such.host.invalid"));
}

}  // namespace
}  // namespace kvtier

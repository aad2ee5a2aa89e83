#include "core/socket_peer.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace kvtier {
namespace {

// A listening socket, and processes that connect to it and stay.
class SocketPeerTest : public ::testing::Test {
 protected:
  SocketPeerTest() : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    // No path: the kernel chooses a name.
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address_), sizeof(sa_family_t)), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &size_), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
  }
  ~SocketPeerTest() override {
    for (const pid_t process : processes_) {
      if (process <= 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    close(listener_);
  }
  // Starts the next process, which connects twice.
  void Connect() {
    const pid_t process = fork();
    if (process == 0) {
      for (int i = 0; i < 2; ++i) {
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<const sockaddr*>(&address_), size_) != 0) _exit(1);
      }
      pause();
      _exit(1);
    }
    processes_[started_++] = process;
  }
  SocketPeer Accept() const {
    const int fd = accept(listener_, nullptr, nullptr);
    const auto peer = PeerOf(fd);
    close(fd);
    return peer.value_or(SocketPeer());
  }
  // Returns whether the two connections of each of two processes are one caller's, and the two
  // processes are two.
  bool TellsTwoProcessesApart(bool with_pids) {
    std::array<SocketPeer, 4> peers;
    for (SocketPeer& peer : peers) peer = Accept();
    std::ranges::sort(peers, {}, &SocketPeer::caller);  // The processes may connect in turn.
    bool right = peers[0].caller == peers[1].caller && peers[2].caller == peers[3].caller &&
                 peers[1].caller != peers[2].caller;
    for (const SocketPeer& peer : peers) right = right && (peer.pid > 0) == with_pids;
    return right;
  }

  const int listener_;
  sockaddr_un address_{};
  socklen_t size_ = sizeof(address_);
  std::array<pid_t, 2> processes_{};
  int started_ = 0;
};

TEST_F(SocketPeerTest, EachProcessIsOneCaller) {
  Connect();
  Connect();
  EXPECT_TRUE(TellsTwoProcessesApart(/*with_pids=*/true));
}

// Once, all callers of other PID namespaces were one, with the pid 0.
TEST_F(SocketPeerTest, ProcessesOfAnotherPidNamespaceAreCallersOfTheirOwn) {
  Connect();
  Connect();
  const pid_t agent = fork();
  if (agent == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
    const pid_t inner = fork();  // The first process in the new namespace, which sees no other.
    if (inner == 0) _exit(TellsTwoProcessesApart(/*with_pids=*/false) ? 0 : 1);
    int status = 0;
    _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(agent, &status, 0), agent);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this machine lets nobody make a PID namespace";
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address_), size_), 0);
  const bool has_process_files = (Accept().caller >> 62) == 0;
  close(fd);
  if (!has_process_files) GTEST_SKIP() << "this kernel (before 6.9) has no file of each process";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kvtier

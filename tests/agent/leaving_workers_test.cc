// Tests workers that hung up, watched by a socket pair and a pidfd: what is reported of a byte that
// the worker sends, of its hangup and of its process's end.
#include "agent/sessions/leaving_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A forked process that does nothing and has copies of what we had open.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    pause();
    _exit(0);
  }
  ~Child() {
    siginfo_t ended{};
    kill(pid_, SIGKILL);
    waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

class LeavingWorkersTest : public ::testing::Test {
 protected:
  LeavingWorkersTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_.data()), 0);
  }
  ~LeavingWorkersTest() override {
    CloseEnd();
    close(epoll_fd_);
  }
  void CloseEnd() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void Say(uint8_t byte) { EXPECT_EQ(send(ends_[1], &byte, 1, 0), 1); }
  int Process() const { return static_cast<int>(syscall(SYS_pidfd_open, worker_->pid(), 0)); }
  // Handles all events, sweeps, and returns all reports so far.
  const std::vector<std::string>& Said() {
    std::array<epoll_event, 4> events{};
    for (int round = 0; round < 3; ++round) {
      const int count = epoll_wait(epoll_fd_, events.data(), events.size(), 0);
      for (int i = 0; i < count; ++i) EXPECT_TRUE(leaving_.OnReadable(events[i].data.fd, now_));
      leaving_.Sweep(now_);
    }
    return said_;
  }

  const SessionId session_{7};
  const int epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  absl::Time now_ = absl::UnixEpoch();
  std::optional<Child> worker_{std::in_place};
  std::array<int, 2> ends_{};  // The agent's end, and the worker's, which the test holds.
  std::vector<std::string> said_;
  LeavingWorkers leaving_{
      epoll_fd_,
      {.over = [this](SessionId id) { said_.push_back(absl::StrCat("over ", uint64_t(id))); },
       .gone = [this](SessionId id) { said_.push_back(absl::StrCat("gone ", uint64_t(id))); }}};
};

TEST_F(LeavingWorkersTest, AWordEndsTheWaitThoughItsProcessLives) {
  leaving_.Add({.session = session_, .process = Process(), .lifeline = ends_[0]}, now_);
  EXPECT_THAT(Said(), IsEmpty());
  Say(0);
  EXPECT_THAT(Said(), IsEmpty()) << "it is not the word";
  Say(wire::kOverByte);
  EXPECT_THAT(Said(), ElementsAre("over 7"));
  EXPECT_EQ(leaving_.size(), 0u);
}

TEST_F(LeavingWorkersTest, AWordOfBeforeTheHangupCounts) {
  Say(wire::kOverByte);
  CloseEnd();
  leaving_.Add({.session = session_, .process = Process(), .lifeline = ends_[0]}, now_);
  EXPECT_THAT(Said(), ElementsAre("over 7"));
}

TEST_F(LeavingWorkersTest, WhoHasStepsIsWaitedForAfterItsWord) {
  leaving_.Add({.session = session_, .process = Process(), .lifeline = ends_[0], .has_steps = true},
               now_);
  Say(wire::kOverByte);
  EXPECT_THAT(Said(), ElementsAre("over 7"));
  worker_.reset();
  EXPECT_THAT(Said(), ElementsAre("over 7", "gone 7"));
  EXPECT_EQ(leaving_.size(), 0u);
}

TEST_F(LeavingWorkersTest, ALifelineThatIsClosedWithoutAWordSaysNothingOfALivingProcess) {
  leaving_.Add({.session = session_, .process = Process(), .lifeline = ends_[0]}, now_);
  CloseEnd();
  now_ += absl::Hours(1);
  EXPECT_THAT(Said(), IsEmpty());
  worker_.reset();
  EXPECT_THAT(Said(), ElementsAre("gone 7"));
}

TEST_F(LeavingWorkersTest, AProcessWithoutALifelineIsWatched) {
  leaving_.Add({.session = session_, .process = Process()}, now_);
  now_ += absl::Hours(1);
  EXPECT_THAT(Said(), IsEmpty());
  worker_.reset();
  EXPECT_THAT(Said(), ElementsAre("gone 7"));
  close(ends_[0]);
}

// A process that the worker forked maps the memory, too.
TEST_F(LeavingWorkersTest, AProcessIsNotGoneWhileOneThatItForkedLives) {
  std::optional<Child> forked(std::in_place);
  CloseEnd();
  leaving_.Add({.session = session_, .process = Process(), .lifeline = ends_[0]}, now_);
  worker_.reset();
  now_ += absl::Hours(1);
  EXPECT_THAT(Said(), IsEmpty());
  forked.reset();
  EXPECT_THAT(Said(), ElementsAre("gone 7"));
}

TEST_F(LeavingWorkersTest, AProcessThatCannotBeWatchedIsGoneAGraceAfterItsLifeline) {
  leaving_.Add({.session = session_, .lifeline = ends_[0]}, now_);
  now_ += 2 * kProcessGoneGrace;
  EXPECT_THAT(Said(), IsEmpty()) << "it has its lifeline";
  CloseEnd();
  EXPECT_THAT(Said(), IsEmpty());
  now_ += kProcessGoneGrace;
  EXPECT_THAT(Said(), IsEmpty());
  now_ += absl::Milliseconds(1);
  EXPECT_THAT(Said(), ElementsAre("gone 7"));
}

TEST_F(LeavingWorkersTest, OneThatCanNeitherSpeakNorBeWatchedIsGoneAGraceAfterItsHangup) {
  leaving_.Add({.session = session_}, now_);
  now_ += kProcessGoneGrace;
  EXPECT_THAT(Said(), IsEmpty());
  now_ += absl::Milliseconds(1);
  EXPECT_THAT(Said(), ElementsAre("gone 7"));
  close(ends_[0]);
}

// Watches the process that, as the kernel says, has connected; so does DescriptorSocket.
TEST(WatchPeerTest, AConnectedProcessIsWatchedUntilItEnds) {
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // No path: the kernel chooses a name.
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const pid_t worker = fork();
  if (worker == 0) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) pause();
    _exit(1);
  }
  const int fd = accept(listener, nullptr, nullptr);
  const int process = WatchPeer(fd, worker);
  ASSERT_GE(process, 0);
  pollfd ended{.fd = process, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  kill(worker, SIGKILL);
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
  siginfo_t status{};
  waitid(P_PID, static_cast<id_t>(worker), &status, WEXITED);
  for (const int open : {process, fd, listener}) close(open);
}

}  // namespace
}  // namespace kvtier

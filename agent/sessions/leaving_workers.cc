#include "agent/sessions/leaving_workers.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/check.h"
#include "core/socket_peer.h"
#include "proto/session_wire.h"

namespace kvtier {

int WatchPeer(int socket_fd, pid_t pid) {
  const int fd = PeerPidfd(socket_fd);
  if (fd >= 0) return fd;
  return pid <= 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

LeavingWorkers::~LeavingWorkers() {
  for (const auto& [fd, session] : by_descriptor_) close(fd);
}

void LeavingWorkers::Add(const Worker& worker, absl::Time now) {
  Leaving& leaving = workers_[worker.session];
  leaving.worker = worker;
  if (worker.process >= 0) Watch(worker.process, worker.session);
  if (worker.lifeline >= 0) Watch(worker.lifeline, worker.session);
  if (worker.process < 0 && worker.lifeline < 0) leaving.gone_by = now + kProcessGoneGrace;
}

void LeavingWorkers::Watch(int fd, SessionId session) {
  by_descriptor_[fd] = session;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  KVT_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
}

void LeavingWorkers::Drop(int* fd) {
  if (*fd < 0) return;
  by_descriptor_.erase(*fd);
  close(*fd);  // Leaves the epoll set with it.
  *fd = -1;
}

bool LeavingWorkers::OnReadable(int fd, absl::Time now) {
  const auto watched = by_descriptor_.find(fd);
  if (watched == by_descriptor_.end()) return false;
  const auto found = workers_.find(watched->second);
  Leaving& leaving = found->second;
  if (fd == leaving.worker.process) {
    // The event may be of a descriptor that had the same number.
    pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&state, 1, 0) <= 0) return true;
    leaving.ended = true;
    Drop(&leaving.worker.process);
  } else {
    ReadLifeline(&leaving, now);
  }
  EndIfGone(found);
  return true;
}

void LeavingWorkers::ReadLifeline(Leaving* leaving, absl::Time now) {
  std::array<uint8_t, 64> said{};
  const ssize_t bytes = recv(leaving->worker.lifeline, said.data(), said.size(), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto end = said.begin() + std::max<ssize_t>(bytes, 0);
  leaving->over = std::find(said.begin(), end, wire::kOverByte) != end;
  if (bytes > 0 && !leaving->over) return;
  Drop(&leaving->worker.lifeline);
  if (leaving->over) calls_.over(leaving->worker.session);
  const bool watched = leaving->ended || leaving->worker.process >= 0;
  if (!watched) leaving->gone_by = now + kProcessGoneGrace;
}

void LeavingWorkers::EndIfGone(Workers::iterator found) {
  Leaving& leaving = found->second;
  const bool all_said = leaving.over && !leaving.worker.has_steps;
  const bool gone = leaving.ended && leaving.worker.lifeline < 0;
  if (!all_said && !gone) return;
  if (!all_said) calls_.gone(found->first);
  Drop(&leaving.worker.process);
  workers_.erase(found);
}

void LeavingWorkers::Sweep(absl::Time now) {
  std::erase_if(workers_, [&](const auto& leaving) {
    if (leaving.second.gone_by >= now) return false;
    calls_.gone(leaving.first);
    return true;
  });
}

}  // namespace kvtier

// LeavingWorkers watches workers whose session hung up while their process may still use what the
// session had. It watches a worker until the worker's process is gone or, if the worker has no
// steps, until the worker says on its lifeline that its writes are over.
//
// A process is gone when the kernel says so (a pidfd) and nobody has its lifeline any more: a
// child that it forked has a copy of the lifeline, and of the memory. A worker that has no
// lifeline, and whose process cannot be watched, is given kProcessGoneGrace.
//
// LeavingWorkers runs on one thread, which waits for the descriptors on an epoll set of its own.
#ifndef KVTIER_AGENT_SESSIONS_LEAVING_WORKERS_H_
#define KVTIER_AGENT_SESSIONS_LEAVING_WORKERS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "agent/sessions/sessions.h"

namespace kvtier {

// Time for which a process that cannot be watched counts as alive, from the close of its lifeline,
// or from its hangup if it has none. It is longer than the kernel takes to end a process with a
// context on a GPU.
inline constexpr absl::Duration kProcessGoneGrace = absl::Seconds(30);

// Returns a pidfd of the process that connected the other end of a Unix socket. Kernels from 6.5 on
// return one for a process in any PID namespace. With older ones it is opened by `pid`, the
// socket's SO_PEERCRED, as long as the process certainly lives. Returns -1 if the process cannot be
// watched.
int WatchPeer(int socket_fd, pid_t pid);

class LeavingWorkers {
 public:
  struct Calls {
    // Called when the session's process no longer writes to slots that the session had reserved.
    absl::AnyInvocable<void(SessionId)> over;
    // Called when the process is gone, which ends its writes, too. It is the last call for the
    // session.
    absl::AnyInvocable<void(SessionId)> gone;
  };
  struct Worker {
    SessionId session{};
    int process = -1;   // A pidfd; -1: it cannot be watched.
    int lifeline = -1;  // Agent's end of the lifeline; -1: the worker has none.
    // Whether to wait for the end of the process, even if its lifeline is closed.
    bool has_steps = false;
  };

  // Does not own `epoll_fd`; the thread that waits on it calls OnReadable().
  LeavingWorkers(int epoll_fd, Calls calls) : epoll_fd_(epoll_fd), calls_(std::move(calls)) {}
  ~LeavingWorkers();
  LeavingWorkers(const LeavingWorkers&) = delete;
  LeavingWorkers& operator=(const LeavingWorkers&) = delete;

  // Takes over the worker's descriptors. Calls come from OnReadable() and Sweep() only.
  void Add(const Worker& worker, absl::Time now);
  // Takes an event of a watched descriptor. Returns false if `fd` is none of those.
  bool OnReadable(int fd, absl::Time now);
  // Treats processes whose grace is over as gone.
  void Sweep(absl::Time now);

  size_t size() const { return workers_.size(); }

 private:
  struct Leaving {
    Worker worker;
    bool over = false;
    bool ended = false;  // Whether the process has ended, as its pidfd says.
    absl::Time gone_by =
        absl::InfiniteFuture();  // Time at which a process that cannot be watched counts as gone.
  };
  using Workers = std::map<SessionId, Leaving>;
  void Watch(int fd, SessionId session);
  // Closes a worker's descriptor, and sets it to -1.
  void Drop(int* fd);
  void ReadLifeline(Leaving* leaving, absl::Time now);
  void EndIfGone(Workers::iterator found);

  const int epoll_fd_;
  Calls calls_;
  Workers workers_;
  std::map<int, SessionId> by_descriptor_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_LEAVING_WORKERS_H_

// Lifeline tells the agent when nothing of this process writes any more what a session had
// reserved: its destructor says so. If the process dies instead, the kernel closes it.
#ifndef KVTIER_CLIENT_LIFELINE_H_
#define KVTIER_CLIENT_LIFELINE_H_

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "client/packet_socket.h"

namespace kvtier {

// Thread-compatible. A forked child's copy says nothing: its parent may still write. (Its
// descriptor is inert; the process is for children that no handler saw, fork_guard.h.)
class Lifeline {
 public:
  // `fd`: what the agent hands out as DescriptorKind::kLifeline.
  explicit Lifeline(FileDescriptor fd) : fd_(std::move(fd)) {}
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  const FileDescriptor fd_;
  const pid_t process_ = getpid();
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LIFELINE_H_

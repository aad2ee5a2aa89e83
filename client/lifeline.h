// Lifeline tells the agent, by its destructor, that this process writes no more to slots that a
// session had reserved. If the process dies instead, the kernel closes the descriptor.
#ifndef KVTIER_CLIENT_LIFELINE_H_
#define KVTIER_CLIENT_LIFELINE_H_

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "client/packet_socket.h"

namespace kvtier {

// Thread-compatible. A forked child's copy says nothing, since its parent may still write: its
// descriptor is inert (fork_guard.h). `process_` detects a child that ran no fork handler.
class Lifeline {
 public:
  // `fd`: the descriptor that the agent hands out as DescriptorKind::kLifeline.
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

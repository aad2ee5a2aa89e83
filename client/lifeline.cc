#include "client/lifeline.h"

#include <sys/socket.h>

#include <cstdint>

#include "proto/session_wire.h"

namespace kvtier {

Lifeline::~Lifeline() {
  if (getpid() != process_) return;
  const uint8_t over = wire::kOverByte;
  // If the send fails, the agent is gone, or waits until this process is gone: both are safe.
  const ssize_t ignored = send(fd_.get(), &over, sizeof(over), MSG_NOSIGNAL | MSG_DONTWAIT);
  static_cast<void>(ignored);
}

}  // namespace kvtier

// Sockets that listen at a TCP address, and the lock of the directory that a program's Unix sockets
// lie in (core/unix_listener.h).
#ifndef KVTIER_CORE_LISTENING_SOCKET_H_
#define KVTIER_CORE_LISTENING_SOCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/address.h"

namespace kvtier {

// Locks `directory` for the life of this process, through the file `lock_name` in it, and makes it
// if it is missing. The holder of the lock may replace the sockets that it finds there, which
// belong to a dead process. Errors: kUnavailable, naming the directory and `owner` when another one
// ("agent") uses it.
absl::Status LockSocketDir(const std::string& directory, absl::string_view lock_name,
                           absl::string_view owner);

// TCP sockets that listen at every address that a host stands for (a wildcard: IPv4 and
// IPv6), all on one port. They do not block, and are the caller's to close.
struct TcpListeners {
  std::vector<int> sockets;
  uint16_t port = 0;  // Port of the sockets, also if 0 was asked for.
};
// Errors: kUnavailable, with the address and the reason; a port in use is one.
absl::StatusOr<TcpListeners> ListenTcp(const HostPort& address);

}  // namespace kvtier

#endif  // KVTIER_CORE_LISTENING_SOCKET_H_

// "host:port" as flags and messages carry it.
#ifndef KVTIER_CORE_ADDRESS_H_
#define KVTIER_CORE_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

struct HostPort {
  std::string host;   // A name, an IPv4 address, or an IPv6 address in its brackets.
  uint16_t port = 0;  // Port; for an address to listen at, 0 means any free port.

  std::string ToString() const;
  // Returns whether only this machine can reach the host: 127.0.0.0/8, [::1] or "localhost". Other
  // names are not resolved, and count as reachable from elsewhere.
  bool IsLoopback() const;
  // Returns whether the host stands for all addresses of the machine that listens, 0.0.0.0 or [::],
  // and so for none that others can connect to.
  bool IsWildcard() const;
};

// Parses "host:port". Errors: kInvalidArgument, with the text: it is longer than kMaxAddressBytes
// (node.h), has no host, has no number from 0 to 65535 after the last colon, or is a bare IPv6
// address.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

}  // namespace kvtier

#endif  // KVTIER_CORE_ADDRESS_H_

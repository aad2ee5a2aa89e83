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
  // Returns whether nothing beyond this machine can reach it: 127.0.0.0/8, [::1] and "localhost". A
  // name is not resolved.
  bool IsLoopback() const;
};

// Errors: kInvalidArgument, with the text: longer than kMaxAddressBytes (node.h),
// no host, no number from 0 to 65535 after the last colon, a bare IPv6 address.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

}  // namespace kvtier

#endif  // KVTIER_CORE_ADDRESS_H_

#include "core/address.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/node.h"

namespace kvtier {
namespace {

constexpr uint32_t kLoopbackNetwork = 127;  // 127.0.0.0/8, RFC 1122.

bool IsHost(absl::string_view host) {
  const bool printable =
      std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c <= '~'; });
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool plain = !host.empty() && host.find_first_of(":[]") == absl::string_view::npos;
  return printable && (bracketed || plain);
}

bool ParsePort(absl::string_view text, uint16_t* port) {
  // SimpleAtoi alone would take signs and blanks.
  const bool digits =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  uint32_t number = 0;
  if (!digits || !absl::SimpleAtoi(text, &number) || number > 65535) return false;
  *port = static_cast<uint16_t>(number);
  return true;
}

}  // namespace

std::string HostPort::ToString() const { return absl::StrCat(host, ":", port); }

bool HostPort::IsLoopback() const {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == kLoopbackNetwork;
  }
  return host == "localhost" || host == "[::1]";
}

bool HostPort::IsWildcard() const {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6{};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed && inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1 &&
         IN6_IS_ADDR_UNSPECIFIED(&v6);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (text.size() > kMaxAddressBytes || colon == absl::string_view::npos ||
      !IsHost(text.substr(0, colon)) || !ParsePort(text.substr(colon + 1), &parsed.port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", absl::CHexEscape(text.substr(0, kMaxAddressBytes)), "\" of ",
                     text.size(), " bytes; must be \"host:port\" of at most ", kMaxAddressBytes));
  }
  parsed.host = std::string(text.substr(0, colon));
  return parsed;
}

}  // namespace kvtier

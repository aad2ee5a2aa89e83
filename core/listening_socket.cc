#include "core/listening_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr int kTcpBacklog = 1024;

absl::Status CannotListen(absl::string_view where, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", where, ": ", why));
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "[::]"; }

// TcpAddress is one address that a TCP socket can be bound to.
struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
};

absl::StatusOr<std::vector<TcpAddress>> Resolve(const HostPort& address) {
  std::string host = address.host;
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return CannotListen(address.ToString(), gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<TcpAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    TcpAddress& next = addresses.emplace_back();
    memcpy(&next.storage, each->ai_addr, each->ai_addrlen);
    next.size = each->ai_addrlen;
  }
  return addresses;
}

enum class Families { kOne, kBoth };  // kBoth: a wildcard of IPv6 takes IPv4, too.

// Returns a socket that listens; -1: errno says why.
int ListenAt(const TcpAddress& address, Families families) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int only_ipv6 = families == Families::kOne ? 1 : 0;
  // Accepted sockets inherit TCP_NODELAY. A port whose last owner is gone is free at once;
  // one that another process listens at is not.
  const bool listens =
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
      (address.family() != AF_INET6 ||
       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof(only_ipv6)) == 0) &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
      listen(fd, kTcpBacklog) == 0;
  if (listens) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

in_port_t* PortIn(sockaddr_storage* address) {
  return address->ss_family == AF_INET6 ? &reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : &reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

void SetPort(uint16_t port, TcpAddress* address) { *PortIn(&address->storage) = htons(port); }

uint16_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(*PortIn(&bound));
}

TcpAddress Wildcard(int family, uint16_t port) {
  TcpAddress address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  SetPort(port, &address);
  return address;
}

}  // namespace

absl::Status LockSocketDir(const std::string& directory, absl::string_view lock_name,
                           absl::string_view owner) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path = absl::StrCat(directory, "/", lock_name);
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::UnavailableError(absl::StrCat("--socket_dir=", directory, ": another ", owner,
                                               " uses it; stop it or name another directory"));
  }
  return absl::OkStatus();  // The descriptor stays open for life.
}

absl::StatusOr<TcpListeners> ListenTcp(const HostPort& address) {
  TcpListeners listeners{.port = address.port};
  if (IsWildcard(address.host)) {
    int fd = ListenAt(Wildcard(AF_INET6, address.port), Families::kBoth);
    if (fd < 0 && errno == EAFNOSUPPORT) {
      fd = ListenAt(Wildcard(AF_INET, address.port), Families::kOne);
    }
    if (fd < 0) return CannotListen(address.ToString(), strerror(errno));
    return TcpListeners{.sockets = {fd}, .port = PortOf(fd)};
  }
  KVT_ASSIGN_OR_RETURN(std::vector<TcpAddress> resolved, Resolve(address));
  int error = 0;
  for (TcpAddress& each : resolved) {
    SetPort(listeners.port, &each);  // All sockets get the port that the first one was given.
    const int fd = ListenAt(each, Families::kOne);
    if (fd >= 0) {
      listeners.sockets.push_back(fd);
      listeners.port = PortOf(fd);
      error = 0;
      continue;
    }
    error = errno;
    // A name may stand for an address of a family that this machine does not have.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
    if (!listeners.sockets.empty()) error = 0;
  }
  if (error == 0) return listeners;
  for (const int fd : listeners.sockets) close(fd);
  return CannotListen(address.ToString(), strerror(error));
}

}  // namespace kvtier

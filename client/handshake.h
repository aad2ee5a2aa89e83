// The handshake begins a conversation on the descriptor socket: the agent sends a challenge, the
// worker proves its tenant, and the agent welcomes it or says why not.
#ifndef KVTIER_CLIENT_HANDSHAKE_H_
#define KVTIER_CLIENT_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/packet_socket.h"
#include "client/session.h"
#include "proto/session_wire.h"

namespace kvtier {

template <typename Packet>
struct Received {
  Packet packet;
  FileDescriptor fd;
};

// Errors: PacketSocket::Receive()'s; kFailedPrecondition also when the packet has not our magic.
template <typename Packet>
absl::StatusOr<Received<Packet>> ReceivePacket(PacketSocket* socket, absl::Time deadline) {
  Received<Packet> received;
  absl::StatusOr<FileDescriptor> fd =
      socket->Receive(std::as_writable_bytes(std::span(&received.packet, 1)), deadline);
  if (!fd.ok()) return fd.status();
  received.fd = *std::move(fd);
  if (received.packet.magic != wire::kMagic) {
    return absl::FailedPreconditionError(absl::StrCat("descriptor socket: magic is 0x",
                                                      absl::Hex(received.packet.magic),
                                                      "; this is no kvtier agent"));
  }
  return received;
}

template <typename Packet>
absl::Status SendPacket(PacketSocket* socket, const Packet& packet, absl::Time deadline) {
  return socket->Send(std::as_bytes(std::span(&packet, 1)), deadline);
}

struct Welcomed {
  std::string token;                   // Token of the session, 16 bytes.
  std::optional<TenantKey> group_key;  // Session::group_key().
  bool may_write = true;
};

// Proves our tenant, and asks for its session. Errors: kUnavailable and kDeadlineExceeded, the
// socket's; kFailedPrecondition, kPermissionDenied and kResourceExhausted,
// as Session::Open().
absl::StatusOr<Welcomed> ShakeHands(PacketSocket* socket, const SessionOptions& options,
                                    absl::Time deadline);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HANDSHAKE_H_

#include "client/session.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

template <typename Packet>
struct Received {
  Packet packet;
  FileDescriptor fd;
};

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

absl::Status VersionMismatch(uint16_t version, uint16_t min_version) {
  return absl::FailedPreconditionError(
      absl::StrCat("version mismatch: the agent speaks session versions ", min_version, " to ",
                   version, ", this client ", wire::kMinSessionVersion, " to ",
                   wire::kSessionVersion, "; upgrade the older of the two"));
}

absl::Status WelcomeStatus(const wire::Welcome& welcome, const std::string& tenant) {
  switch (welcome.code) {
    case wire::WelcomeCode::kOk:
      return absl::OkStatus();
    case wire::WelcomeCode::kVersionMismatch:
      return VersionMismatch(welcome.version, welcome.min_version);
    case wire::WelcomeCode::kUnknownTenant:
      return absl::PermissionDeniedError(
          absl::StrCat("the agent knows no tenant \"", tenant, "\" with this secret"));
    case wire::WelcomeCode::kTooManySessions:
      return absl::ResourceExhaustedError("the agent has too many sessions");
    case wire::WelcomeCode::kMalformed:
      return absl::FailedPreconditionError("the agent could not read our Hello");
    case wire::WelcomeCode::kForbiddenUser:
      return absl::PermissionDeniedError("the agent does not serve this user (SO_PEERCRED)");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the agent refused with unknown code ", static_cast<uint16_t>(welcome.code)));
}

// Asks for one piece of shared memory. Null: the agent does not hand it out.
absl::StatusOr<std::shared_ptr<const Mapping>> RequestMapping(PacketSocket* socket,
                                                              wire::DescriptorKind kind,
                                                              absl::Time deadline) {
  KVT_RETURN_IF_ERROR(SendPacket(socket, wire::DescriptorRequest{.kind = kind}, deadline));
  KVT_ASSIGN_OR_RETURN(const Received<wire::DescriptorReply> reply,
                       ReceivePacket<wire::DescriptorReply>(socket, deadline));
  if (reply.packet.code != wire::DescriptorCode::kOk) return std::shared_ptr<const Mapping>();
  if (!reply.fd.is_open()) {
    return absl::FailedPreconditionError(absl::StrCat("the agent granted descriptor kind ",
                                                      static_cast<uint32_t>(kind),
                                                      " and sent no descriptor"));
  }
  const Mapping::Access access = kind == wire::DescriptorKind::kArenaRead
                                     ? Mapping::Access::kRead
                                     : Mapping::Access::kReadWrite;
  return Mapping::Map(reply.fd.get(), reply.packet.bytes, access);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Session>> Session::Open(const SessionOptions& options,
                                                             absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(
      PacketSocket socket,
      PacketSocket::Connect(absl::StrCat(options.socket_dir, "/", wire::kDescriptorSocketName)));
  std::shared_ptr<Session> session(new Session(std::move(socket)));
  KVT_RETURN_IF_ERROR(session->ShakeHands(options, deadline));
  KVT_RETURN_IF_ERROR(session->MapMemory(deadline));
  return std::shared_ptr<const Session>(std::move(session));
}

absl::Status Session::ShakeHands(const SessionOptions& options, absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(const Received<wire::Challenge> challenge,
                       ReceivePacket<wire::Challenge>(&socket_, deadline));
  const wire::Challenge& theirs = challenge.packet;
  if (!wire::VersionsOverlap(theirs.version, theirs.min_version)) {
    return VersionMismatch(theirs.version, theirs.min_version);
  }
  wire::Hello hello;
  KVT_CHECK(options.tenant.size() <= wire::kMaxTenantBytes);
  std::copy(options.tenant.begin(), options.tenant.end(), hello.tenant.begin());
  hello.proof = wire::SessionProof(options.tenant_key, theirs.nonce);
  KVT_RETURN_IF_ERROR(SendPacket(&socket_, hello, deadline));

  KVT_ASSIGN_OR_RETURN(const Received<wire::Welcome> welcome,
                       ReceivePacket<wire::Welcome>(&socket_, deadline));
  KVT_RETURN_IF_ERROR(WelcomeStatus(welcome.packet, options.tenant));
  const auto& token = welcome.packet.session_token;
  token_.assign(token.begin(), token.end());
  return absl::OkStatus();
}

absl::Status Session::MapMemory(absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(arena_read_,
                       RequestMapping(&socket_, wire::DescriptorKind::kArenaRead, deadline));
  if (arena_read_ == nullptr) {
    return absl::UnavailableError("the agent has no arena for this tenant yet");
  }
  KVT_ASSIGN_OR_RETURN(arena_write_,
                       RequestMapping(&socket_, wire::DescriptorKind::kArenaWrite, deadline));
  absl::StatusOr<std::shared_ptr<const Mapping>> gpu_pool =
      RequestMapping(&socket_, wire::DescriptorKind::kGpuPool, deadline);
  // A pool in a GPU's own memory cannot be mapped by mmap: this session then serves
  // target gpu as a miss. Anything wrong with the socket itself shows at HasEnded().
  if (gpu_pool.ok()) gpu_pool_ = *std::move(gpu_pool);
  if (HasEnded()) return absl::UnavailableError("descriptor socket: the agent hung up");
  return absl::OkStatus();
}

}  // namespace kvtier

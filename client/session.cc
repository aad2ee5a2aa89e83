#include "client/session.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/handshake.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

// What the agent hands out, when it does.
struct Handed {
  FileDescriptor fd;
  uint64_t bytes = 0;
  uint32_t handles = 0;
  uint32_t max_handles = 0;
};

absl::StatusOr<wire::DescriptorReply> CheckReply(const wire::DescriptorRequest& request,
                                                 const wire::DescriptorReply& reply, bool has_fd) {
  const auto kind = static_cast<uint32_t>(request.kind);
  if (reply.code == wire::DescriptorCode::kOk && !has_fd) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent granted descriptor kind ", kind, " and sent no descriptor"));
  }
  if (reply.max_handles == 0 || reply.max_handles > wire::kMaxHandles ||
      reply.handles > reply.max_handles) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent says descriptor kind ", kind, " has ", reply.handles, " of ",
                     reply.max_handles, " handles; at most ", wire::kMaxHandles, " can be"));
  }
  return reply;
}

// Asks for one piece of shared memory, in the form of `version`. nullopt: the agent does
// not hand it out.
absl::StatusOr<std::optional<Handed>> Request(PacketSocket* socket, uint16_t version,
                                              const wire::DescriptorRequest& request,
                                              absl::Time deadline) {
  wire::DescriptorReply reply;
  FileDescriptor fd;
  if (version == 1) {
    const wire::DescriptorRequestV1 old{.kind = request.kind};
    KVT_RETURN_IF_ERROR(SendPacket(socket, old, deadline));
    KVT_ASSIGN_OR_RETURN(Received<wire::DescriptorReplyV1> received,
                         ReceivePacket<wire::DescriptorReplyV1>(socket, deadline));
    reply.code = received.packet.code;
    reply.bytes = received.packet.bytes;
    fd = std::move(received.fd);
  } else {
    KVT_RETURN_IF_ERROR(SendPacket(socket, request, deadline));
    KVT_ASSIGN_OR_RETURN(Received<wire::DescriptorReply> received,
                         ReceivePacket<wire::DescriptorReply>(socket, deadline));
    reply = received.packet;
    fd = std::move(received.fd);
  }
  KVT_RETURN_IF_ERROR(CheckReply(request, reply, fd.is_open()).status());
  if (reply.code != wire::DescriptorCode::kOk) return std::optional<Handed>();
  return Handed{.fd = std::move(fd),
                .bytes = reply.bytes,
                .handles = reply.handles,
                .max_handles = reply.max_handles};
}

// Null: the agent does not hand it out.
absl::StatusOr<std::shared_ptr<const Mapping>> RequestArena(PacketSocket* socket, uint16_t version,
                                                            wire::DescriptorKind kind,
                                                            absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(const std::optional<Handed> handed,
                       Request(socket, version, {.kind = kind}, deadline));
  if (!handed) return std::shared_ptr<const Mapping>();
  const Mapping::Access access = kind == wire::DescriptorKind::kArenaRead
                                     ? Mapping::Access::kRead
                                     : Mapping::Access::kReadWrite;
  return Mapping::Map(handed->fd.get(), handed->bytes, access);
}

// Says that the use of a session's pool is over when nobody has it any more.
class PoolUse {
 public:
  PoolUse(std::shared_ptr<const Mapping> mapping, std::shared_ptr<const StepPage> page)
      : mapping_(std::move(mapping)), page_(std::move(page)) {}
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;
  ~PoolUse() { page_->SetOver(); }

 private:
  const std::shared_ptr<const Mapping> mapping_;
  const std::shared_ptr<const StepPage> page_;
};

// All handles that the pool has now. Null: there is none for us.
absl::StatusOr<std::shared_ptr<GpuMemory>> RequestPool(PacketSocket* socket, uint16_t version,
                                                       absl::Time deadline) {
  auto pool = std::make_shared<GpuMemory>();
  uint32_t handles = 1;
  for (uint32_t i = 0; i < handles; ++i) {
    const wire::DescriptorRequest request{.kind = wire::DescriptorKind::kGpuPool, .index = i};
    KVT_ASSIGN_OR_RETURN(std::optional<Handed> handed, Request(socket, version, request, deadline));
    if (!handed) return std::shared_ptr<GpuMemory>();
    if (i == 0) {
      handles = handed->handles;
      pool->handle_bytes = handed->bytes;
      pool->max_handles = handed->max_handles;
    }
    pool->handles.push_back(std::move(handed->fd));
  }
  return pool;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Session>> Session::Open(const SessionOptions& options,
                                                             absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(
      PacketSocket socket,
      PacketSocket::Connect(absl::StrCat(options.socket_dir, "/", wire::kDescriptorSocketName)));
  std::shared_ptr<Session> session(new Session(std::move(socket)));
  KVT_ASSIGN_OR_RETURN(const Greeting greeting, ShakeHands(&session->socket_, options, deadline));
  session->version_ = greeting.version;
  session->token_ = greeting.token;
  KVT_RETURN_IF_ERROR(session->MapMemory(deadline));
  return std::shared_ptr<const Session>(std::move(session));
}

absl::Status Session::MapMemory(absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(
      arena_read_, RequestArena(&socket_, version_, wire::DescriptorKind::kArenaRead, deadline));
  if (arena_read_ == nullptr) {
    return absl::UnavailableError("the agent has no arena for this tenant yet");
  }
  KVT_ASSIGN_OR_RETURN(
      arena_write_, RequestArena(&socket_, version_, wire::DescriptorKind::kArenaWrite, deadline));
  KVT_RETURN_IF_ERROR(MapGpu(deadline));
  if (HasEnded()) return absl::UnavailableError("descriptor socket: the agent hung up");
  return absl::OkStatus();
}

absl::Status Session::MapGpu(absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<GpuMemory> pool, RequestPool(&socket_, version_, deadline));
  if (pool == nullptr) return absl::OkStatus();
  std::vector<int> handles;
  handles.reserve(pool->handles.size());
  for (const FileDescriptor& handle : pool->handles) handles.push_back(handle.get());
  // A pool in a GPU's own memory is not mapped by mmap: who has no other way to map the
  // handles is served target gpu as a miss.
  absl::StatusOr<std::shared_ptr<const Mapping>> mapping =
      Mapping::MapHandles(handles, pool->handle_bytes, pool->max_handles);
  if (mapping.ok()) pool->mapping = *std::move(mapping);
  if (version_ > 1) {
    KVT_ASSIGN_OR_RETURN(
        std::optional<Handed> page,
        Request(&socket_, version_, {.kind = wire::DescriptorKind::kSignalPage}, deadline));
    // Without one, what we let go of is free as soon as we say so.
    if (page) {
      KVT_ASSIGN_OR_RETURN(pool->steps, StepPage::Map(std::move(page->fd)));
      pool->incarnation = pool->steps->incarnation();
      const auto in_use = std::make_shared<const PoolUse>(pool->mapping, pool->steps);
      pool->in_use = in_use;
      // All who were handed it keep the use from being over.
      if (pool->mapping != nullptr) {
        pool->mapping = std::shared_ptr<const Mapping>(in_use, pool->mapping.get());
      }
    }
  }
  gpu_ = std::move(pool);
  return absl::OkStatus();
}

}  // namespace kvtier

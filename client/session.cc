#include "client/session.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/handshake.h"
#include "client/lifeline.h"
#include "core/clock.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

// Number of tries to read all handles of a pool that changes meanwhile, before that is a failure.
constexpr int kMaxPoolRounds = 8;

// The descriptor socket after the handshake, on which each request has a reply.
struct Conversation {
  PacketSocket* socket;
  size_t* unanswered;  // Number of earlier requests whose replies are still to come.
};

// A descriptor that the agent handed out, and its description.
struct Handed {
  FileDescriptor fd;
  wire::DescriptorReply about;
};

absl::StatusOr<wire::DescriptorReply> CheckReply(const wire::DescriptorRequest& request,
                                                 const wire::DescriptorReply& reply, bool has_fd) {
  const auto kind = static_cast<uint32_t>(request.kind);
  if (reply.code == wire::DescriptorCode::kOk && !has_fd) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent granted descriptor kind ", kind, " and sent no descriptor"));
  }
  const bool is_pool = request.kind == wire::DescriptorKind::kGpuPool;
  if (reply.code == wire::DescriptorCode::kOk && is_pool && reply.version == 0) {
    return absl::FailedPreconditionError("the agent says its GPU pool has version 0");
  }
  if (reply.max_handles == 0 || reply.max_handles > wire::kMaxHandles ||
      reply.handles > reply.max_handles) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent says descriptor kind ", kind, " has ", reply.handles, " of ",
                     reply.max_handles, " handles; at most ", wire::kMaxHandles, " can be"));
  }
  return reply;
}

// Returns one descriptor from the agent; nullopt: the agent does not hand it out.
absl::StatusOr<std::optional<Handed>> Request(const Conversation& with,
                                              const wire::DescriptorRequest& request,
                                              absl::Time deadline) {
  // Replies that came too late for earlier requests are read and dropped.
  for (; *with.unanswered > 0; --*with.unanswered) {
    KVT_RETURN_IF_ERROR(ReceivePacket<wire::DescriptorReply>(with.socket, deadline).status());
  }
  KVT_RETURN_IF_ERROR(SendPacket(with.socket, request, deadline));
  ++*with.unanswered;
  KVT_ASSIGN_OR_RETURN(Received<wire::DescriptorReply> reply,
                       ReceivePacket<wire::DescriptorReply>(with.socket, deadline));
  --*with.unanswered;
  KVT_RETURN_IF_ERROR(CheckReply(request, reply.packet, reply.fd.is_open()).status());
  if (reply.packet.code != wire::DescriptorCode::kOk) return std::optional<Handed>();
  return Handed{.fd = std::move(reply.fd), .about = reply.packet};
}

struct HandedMemory {
  std::shared_ptr<const Mapping> mapping;  // The mapping; null: the agent does not hand it out.
  bool moves = false;                      // Same as HostMemory::moves.
};

absl::StatusOr<HandedMemory> RequestMemory(const Conversation& with, wire::DescriptorKind kind,
                                           absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(const std::optional<Handed> handed, Request(with, {.kind = kind}, deadline));
  if (!handed) return HandedMemory();
  const bool to_write =
      kind == wire::DescriptorKind::kArenaWrite || kind == wire::DescriptorKind::kStaging;
  const Mapping::Access access = to_write ? Mapping::Access::kReadWrite : Mapping::Access::kRead;
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> mapping,
                       Mapping::Map(handed->fd.get(), handed->about.bytes, access));
  return HandedMemory{.mapping = std::move(mapping), .moves = handed->about.moves != 0};
}

// Returns the residency table; null: the agent does not hand it out.
absl::StatusOr<std::shared_ptr<const ResidencyView>> RequestResidency(const Conversation& with,
                                                                      absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(HandedMemory table,
                       RequestMemory(with, wire::DescriptorKind::kResidency, deadline));
  if (table.mapping == nullptr) return std::shared_ptr<const ResidencyView>();
  return ResidencyView::Open(std::move(table.mapping));
}

// ArenaUse shares the arena that a session writes. When nobody holds it any more, its Lifeline
// tells the agent that the writes are over.
struct ArenaUse {
  ArenaUse(FileDescriptor fd, std::shared_ptr<const Mapping> arena)
      : lifeline(std::move(fd)), mapping(std::move(arena)) {}
  const Lifeline lifeline;
  const std::shared_ptr<const Mapping> mapping;  // Declared last, so it is unmapped first.
};

// Returns the pool of that GPU, or of any GPU where `device` is all 0, with all its handles, or
// with none if the pool still has version `known` (0: none is known). Null: there is no pool for
// this session.
absl::StatusOr<std::shared_ptr<GpuMemory>> RequestPool(const Conversation& with,
                                                       const DeviceUuid& device, uint64_t known,
                                                       absl::Time deadline) {
  for (int round = 0; round < kMaxPoolRounds; ++round) {
    auto pool = std::make_shared<GpuMemory>();
    uint32_t handles = 1;
    bool whole = true;
    for (uint32_t i = 0; whole && i < handles; ++i) {
      const wire::DescriptorRequest request{
          .kind = wire::DescriptorKind::kGpuPool, .index = i, .device = device.bytes};
      KVT_ASSIGN_OR_RETURN(std::optional<Handed> handed, Request(with, request, deadline));
      if (!handed && i == 0) return std::shared_ptr<GpuMemory>();
      // The handles are whole only if the pool did not change meanwhile.
      whole = handed && (i == 0 || handed->about.version == pool->version);
      if (!whole) break;
      if (i == 0) {
        handles = handed->about.handles;
        pool->handle_bytes = handed->about.bytes;
        pool->max_handles = handed->about.max_handles;
        pool->version = handed->about.version;
        pool->device = {handed->about.device};
        if (known > 0 && pool->version == known) return pool;
      }
      pool->handles.push_back(std::move(handed->fd));
      pool->since.push_back(handed->about.since);
    }
    if (whole) return pool;
  }
  return absl::UnavailableError(
      "the GPU pool changed again and again while it was mapped; try again");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Session>> Session::Open(const SessionOptions& options,
                                                             absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(
      PacketSocket socket,
      PacketSocket::Connect(absl::StrCat(options.socket_dir, "/", wire::kDescriptorSocketName)));
  std::shared_ptr<Session> session(new Session(std::move(socket), options));
  KVT_ASSIGN_OR_RETURN(Welcomed welcomed, ShakeHands(&session->socket_, options, deadline));
  session->token_ = std::move(welcomed.token);
  session->group_key_ = welcomed.group_key;
  session->may_write_ = welcomed.may_write;
  KVT_RETURN_IF_ERROR(session->MapMemory(deadline));
  return std::shared_ptr<const Session>(std::move(session));
}

std::string Session::GroupText() const {
  if (group_.empty()) return "";
  return absl::StrCat(may_write_ ? ", in share group " : ", to read share group ", group_);
}

absl::Status Session::MapMemory(absl::Time deadline) {
  const Conversation with{.socket = &socket_, .unanswered = &unanswered_};
  KVT_ASSIGN_OR_RETURN(HandedMemory arena,
                       RequestMemory(with, wire::DescriptorKind::kArenaRead, deadline));
  arena_read_ = std::move(arena.mapping);
  arena_moves_ = arena.moves;
  if (arena_read_ == nullptr) {
    return absl::UnavailableError("the agent has no host memory for this tenant yet; try again");
  }
  KVT_RETURN_IF_ERROR(MapWriteMemory(deadline));
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<const ResidencyView> residency,
                       RequestResidency(with, deadline));
  {
    const absl::MutexLock lock(&mu_);
    residency_ = std::move(residency);
  }
  KVT_RETURN_IF_ERROR(MapGpu(deadline));
  if (HasEnded()) {
    return absl::UnavailableError("descriptor socket: the agent hung up; connect again");
  }
  return absl::OkStatus();
}

absl::Status Session::MapWriteMemory(absl::Time deadline) {
  const Conversation with{.socket = &socket_, .unanswered = &unanswered_};
  KVT_ASSIGN_OR_RETURN(HandedMemory memory,
                       RequestMemory(with, wire::DescriptorKind::kArenaWrite, deadline));
  write_memory_ = std::move(memory.mapping);
  if (write_memory_ == nullptr) {
    // A staging region is this session's own: a late write in it changes nobody else's block.
    KVT_ASSIGN_OR_RETURN(memory, RequestMemory(with, wire::DescriptorKind::kStaging, deadline));
    write_memory_ = std::move(memory.mapping);
    staged_ = write_memory_ != nullptr;
    return absl::OkStatus();
  }
  KVT_ASSIGN_OR_RETURN(std::optional<Handed> lifeline,
                       Request(with, {.kind = wire::DescriptorKind::kLifeline}, deadline));
  if (lifeline) {
    // The writes are over when the session and all that it handed the arena to have let go of it.
    const auto use = std::make_shared<const ArenaUse>(std::move(lifeline->fd), write_memory_);
    write_memory_ = std::shared_ptr<const Mapping>(use, use->mapping.get());
  }
  return absl::OkStatus();
}

absl::Status Session::MapGpu(absl::Time deadline) {
  const Conversation with{.socket = &socket_, .unanswered = &unanswered_};
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<GpuMemory> pool,
                       RequestPool(with, gpu_device_, 0, deadline));
  if (pool == nullptr) return absl::OkStatus();
  if (!gpu_by_device_) MapHandles(*pool);
  pool->mapping = pool_mapping_;
  KVT_ASSIGN_OR_RETURN(std::optional<Handed> page,
                       Request(with, {.kind = wire::DescriptorKind::kSignalPage}, deadline));
  // Without a signal page, slots are free as soon as this session releases them.
  if (page) {
    KVT_ASSIGN_OR_RETURN(pool->steps, StepPage::Map(page->fd.get()));
    pool->by_device = gpu_by_device_;
  }
  const absl::MutexLock lock(&mu_);
  gpu_ = std::move(pool);
  return absl::OkStatus();
}

void Session::MapHandles(const GpuMemory& pool) {
  std::vector<int> handles;
  handles.reserve(pool.handles.size());
  for (const FileDescriptor& handle : pool.handles) handles.push_back(handle.get());
  // A pool in a GPU's own memory cannot be mapped by mmap(), and target GPU is then a miss.
  absl::StatusOr<std::shared_ptr<Mapping>> mapping =
      Mapping::MapHandles(handles, pool.handle_bytes, pool.max_handles);
  if (mapping.ok()) pool_mapping_ = *std::move(mapping);
}

std::shared_ptr<const GpuMemory> Session::gpu() const {
  if (InForkedChild()) return nullptr;
  const absl::MutexLock lock(&mu_);
  return gpu_;
}

std::shared_ptr<const ResidencyView> Session::residency() const {
  if (InForkedChild()) return nullptr;
  const absl::MutexLock lock(&mu_);
  return residency_;
}

absl::Status Session::RenewResidency(absl::Time deadline) const {
  if (!BeginLook(deadline))
    return absl::DeadlineExceededError(
        "another call was asking the agent for memory until the deadline; try again");
  const Conversation with{.socket = &socket_, .unanswered = &unanswered_};
  absl::StatusOr<std::shared_ptr<const ResidencyView>> seen = RequestResidency(with, deadline);
  EndLook();
  if (!seen.ok()) return seen.status();
  if (*seen == nullptr) {
    return absl::UnavailableError("the agent hands out no residency table any more");
  }
  const absl::MutexLock lock(&mu_);
  residency_ = *std::move(seen);
  return absl::OkStatus();
}

bool Session::pool_changes() const {
  const absl::MutexLock lock(&mu_);
  return gpu_ != nullptr && gpu_->max_handles > 1;
}

absl::Status Session::FollowPool(uint64_t version, absl::Time deadline) const {
  const auto follows = [version](const GpuMemory& gpu) { return gpu.version >= version; };
  const std::shared_ptr<const GpuMemory> known = gpu();
  if (known == nullptr) return absl::UnavailableError("the agent has no GPU pool for this session");
  if (follows(*known)) return absl::OkStatus();
  KVT_RETURN_IF_ERROR(LookAtPool(deadline));
  const std::shared_ptr<const GpuMemory> seen = gpu();
  if (follows(*seen)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the agent answers for version ", version,
                                             " of its GPU pool, and hands out ", seen->version));
}

absl::Status Session::LookAtPool(absl::Time deadline) const {
  if (!BeginLook(deadline))
    return absl::DeadlineExceededError(
        "another call was mapping the GPU pool until the deadline; try again");
  const std::shared_ptr<const GpuMemory> known = gpu();
  absl::StatusOr<std::shared_ptr<const GpuMemory>> seen =
      known == nullptr ? absl::UnavailableError("the agent has no GPU pool for this session")
                       : Look(*known, deadline);
  EndLook();
  if (!seen.ok()) return seen.status();
  const absl::MutexLock lock(&mu_);
  if (*seen != nullptr) gpu_ = *std::move(seen);
  return absl::OkStatus();
}

bool Session::BeginLook(absl::Time deadline) const {
  const absl::MutexLock lock(&mu_);
  const auto nobody_looks = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !looking_; };
  const absl::Duration timeout = deadline - MonotonicClock().Now();
  if (!mu_.AwaitWithTimeout(absl::Condition(&nobody_looks), timeout)) return false;
  looking_ = true;
  return true;
}

void Session::EndLook() const {
  const absl::MutexLock lock(&mu_);
  looking_ = false;
}

absl::StatusOr<std::shared_ptr<const GpuMemory>> Session::Look(const GpuMemory& known,
                                                               absl::Time deadline) const {
  const Conversation with{.socket = &socket_, .unanswered = &unanswered_};
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<GpuMemory> pool,
                       RequestPool(with, gpu_device_, known.version, deadline));
  if (pool == nullptr) {
    return absl::UnavailableError("the agent hands out no GPU pool any more");
  }
  if (pool->handle_bytes != known.handle_bytes || pool->max_handles != known.max_handles) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent says its GPU pool has ", pool->max_handles, " handles of ", pool->handle_bytes,
        " bytes at most; before it was ", known.max_handles, " of ", known.handle_bytes));
  }
  const size_t handles = pool->handles.size();
  if (handles == 0) return std::shared_ptr<const GpuMemory>();  // Nothing has changed.
  pool->mapping = known.mapping;
  pool->by_device = known.by_device;
  pool->steps = known.steps;
  if (pool_mapping_ == nullptr) return pool;
  if (pool_mapping_->size() > handles * pool->handle_bytes) {
    pool_mapping_->CutHandles(handles, pool->handle_bytes);
  }
  for (size_t i = 0; i < handles; ++i) {
    if (i < known.since.size() && known.since[i] == pool->since[i]) continue;
    KVT_RETURN_IF_ERROR(pool_mapping_->PutHandle(i, pool->handles[i].get(), pool->handle_bytes));
  }
  return pool;
}

}  // namespace kvtier

#include "agent/services/session_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/call_on_executor.h"
#include "core/status_macros.h"
#include "tier_gpu/step_words.h"

namespace kvtier {
namespace {

// The agent and the worker use the same layout of the signal page.
static_assert(wire::kSignalPageBytes == kSignalPageBytes);
static_assert(wire::kSignalStride * kSignalWords == kSignalPageBytes);
static_assert(wire::kBegunWord == static_cast<size_t>(StepWord::kBegun));
static_assert(wire::kRetiredWord == static_cast<size_t>(StepWord::kRetired));
static_assert(wire::kUnusedBytesWord == static_cast<size_t>(StepWord::kUnusedBytes));
static_assert(wire::kMaxHandles == kMaxRegionHandles);

// Returns the tenants of the session, on the executor. Errors: kNotFound, it is closed, though its
// worker may not have noticed.
absl::StatusOr<SessionTenants> TenantsOf(Agent* agent, SessionId session) {
  const SessionTable& table = agent->sessions().table();
  if (!table.IsOpen(session)) return absl::NotFoundError("the session is closed");
  return table.TenantsOf(session);
}

// Runs on the executor. The descriptor is a duplicate: the pool may lose the handle before the
// answer is sent.
absl::StatusOr<DescriptorSocket::Shared> ShareGpuPool(Agent* agent,
                                                      const DescriptorSocket::Wish& wish) {
  KVT_ASSIGN_OR_RETURN(const SessionTenants of, TenantsOf(agent, wish.session));
  // A process that maps a pool can write all of it, so it serves its own tenant alone.
  if (of.in_group()) {
    return absl::NotFoundError(
        "members of a share group have no GPU pool; open a session without the group");
  }
  const DomainId domain = of.home->domain;
  if (wish.device) {
    KVT_RETURN_IF_ERROR(agent->gpus().Choose(wish.session, domain, wish.device));
  }
  const GpuTier* const gpu = agent->gpus().Of(wish.session, domain);
  if (gpu == nullptr) return absl::NotFoundError("this node has no GPU pool for this tenant");
  const GpuPool* const pool = &gpu->pool();
  const std::vector<PoolHandle>& handles = pool->handles();
  if (wish.index >= handles.size()) {
    return absl::NotFoundError(absl::StrCat("index: ", wish.index, "; the pool has ",
                                            handles.size(), " handles, it may have shrunk since"));
  }
  const int fd = fcntl(handles[wish.index].descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot duplicate the descriptor of the GPU pool: ", strerror(errno)));
  }
  return DescriptorSocket::Shared{.fd = fd,
                                  .bytes = pool->handle_bytes(),
                                  .handles = static_cast<uint32_t>(handles.size()),
                                  .max_handles = static_cast<uint32_t>(pool->max_handles()),
                                  .version = pool->version(),
                                  .since = handles[wish.index].since,
                                  .device = gpu->device().uuid(),
                                  .duplicated = true};
}

// Runs on the executor; a duplicate as above: a larger table may take this one's place.
absl::StatusOr<DescriptorSocket::Shared> ShareResidency(Agent* agent, SessionId session) {
  KVT_ASSIGN_OR_RETURN(const SessionTenants of, TenantsOf(agent, session));
  const ResidencyTable* const table = agent->residency().table(of.home->domain);
  if (table == nullptr) return absl::NotFoundError("this node has no residency table");
  const int fd = fcntl(table->memory().read_only_fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot duplicate the descriptor of the residency table: ", strerror(errno)));
  }
  return DescriptorSocket::Shared{
      .fd = fd, .bytes = table->memory().bytes().size(), .duplicated = true};
}

// Duplicates the descriptor of the session's staging region, because the session may end before the
// answer is sent. Runs on the executor.
absl::StatusOr<DescriptorSocket::Shared> ShareStaging(Agent* agent, SessionId session) {
  KVT_ASSIGN_OR_RETURN(const SessionTenants of, TenantsOf(agent, session));
  if (!of.may_write) return absl::NotFoundError("the session may only read");
  const absl::StatusOr<const SealedMemory*> region =
      agent->sessions().staging().RegionOf(session, of.payer->domain);
  if (!region.ok()) return region.status();
  const int fd = fcntl((*region)->read_write_fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot duplicate the descriptor of the staging region: ", strerror(errno)));
  }
  return DescriptorSocket::Shared{.fd = fd, .bytes = (*region)->bytes().size(), .duplicated = true};
}

// Duplicates the descriptor, because the tenant may be dropped before the answer is sent: its arena
// is closed then, and the number may be a descriptor of another tenant's. Runs on the executor.
absl::StatusOr<DescriptorSocket::Shared> ShareArena(Agent* agent,
                                                    const DescriptorSocket::Wish& wish) {
  KVT_ASSIGN_OR_RETURN(const SessionTenants of, TenantsOf(agent, wish.session));
  const DomainId domain = of.home->domain;
  const bool to_write = wish.kind == wire::DescriptorKind::kArenaWrite;
  if (to_write && !of.may_write) return absl::NotFoundError("the session may only read");
  if (to_write && agent->sessions().staging().enabled()) {
    return absl::NotFoundError(
        "workers of this node write into staging regions, not into the arena (--worker_memory)");
  }
  const Arena& arena = agent->host().arena(domain);
  const int fd = fcntl(to_write ? arena.read_write_fd() : arena.read_only_fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot duplicate the descriptor of the arena: ", strerror(errno)));
  }
  return DescriptorSocket::Shared{.fd = fd,
                                  .bytes = arena.bytes().size(),
                                  .moves = agent->HostMemoryMoves(domain) ? 1U : 0U,
                                  .duplicated = true};
}

absl::StatusOr<DescriptorSocket::Shared> Share(Agent* agent, const DescriptorSocket::Wish& wish) {
  switch (wish.kind) {
    case wire::DescriptorKind::kArenaRead:
    case wire::DescriptorKind::kArenaWrite:
      return CallOn(agent->executor(), [&] { return ShareArena(agent, wish); });
    case wire::DescriptorKind::kGpuPool:
      return CallOn(agent->executor(), [&] { return ShareGpuPool(agent, wish); });
    case wire::DescriptorKind::kResidency:
      return CallOn(agent->executor(), [&] { return ShareResidency(agent, wish.session); });
    case wire::DescriptorKind::kStaging:
      return CallOn(agent->executor(), [&] { return ShareStaging(agent, wish.session); });
    case wire::DescriptorKind::kLifeline:
      return absl::NotFoundError("lifeline: the descriptor socket makes it itself");
    case wire::DescriptorKind::kSignalPage:
      break;
  }
  KVT_ASSIGN_OR_RETURN(const SignalPage* page, CallOn(agent->executor(), [&] {
                         return agent->sessions().AttachToGpu(wish.session);
                       }));
  return DescriptorSocket::Shared{.fd = page->descriptor(), .bytes = kSignalPageBytes};
}

}  // namespace

DescriptorSocket::Calls SessionCalls(Agent* agent) {
  Executor* const executor = agent->executor();
  return {.open =
              [agent, executor](const SessionTenants& of, const SessionToken& token) {
                return CallOn(executor, [&]() -> absl::StatusOr<SessionId> {
                  // Since the worker proved its tenant, the tenant or the group may have been
                  // dropped, or the tenant may no longer be a member.
                  const absl::string_view group =
                      of.in_group() ? absl::string_view(of.home->name) : "";
                  if (agent->options().tenants.Admitted(of.payer->name, group) != of) {
                    return absl::NotFoundError(
                        "the tenant was dropped, or may no longer use the share group");
                  }
                  return agent->sessions().Open(of, token);
                });
              },
          .close =
              [agent, executor](SessionId id) {
                return CallOn(executor, [&] { return agent->CloseSession(id); });
              },
          .over =
              [agent, executor](SessionId id) {
                executor->Post([agent, id] { agent->sessions().WritesOver(id); });
              },
          .gone =
              [agent, executor](SessionId id) {
                executor->Post([agent, id] { agent->sessions().ProcessGone(id); });
              },
          .share = [agent](const DescriptorSocket::Wish& wish) { return Share(agent, wish); }};
}

}  // namespace kvtier

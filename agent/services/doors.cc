#include "agent/services/doors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/call_on_executor.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"
#include "proto/socket_names.h"

namespace kvtier {
namespace {

// Threads of the workers' door: its services are callbacks and need no thread for each call.
constexpr int kMaxRpcThreads = 16;

constexpr RpcDoor::Limits kWorkerLimits = {.connections = kMaxWorkerConnections,
                                           .calls = kMaxCallsPerConnection,
                                           .intake_bytes = kWorkerIntakeBytes,
                                           .threads = kMaxRpcThreads};

}  // namespace

Doors::Doors(const AgentConfig& config, Agent* agent, AdminService::About about)
    : admin_socket_(absl::StrCat(config.socket_dir, "/", kAgentAdminSocketName)),
      worker_service_(agent),
      peer_service_(agent),
      admin_service_(agent, std::move(about)),
      remote_admin_service_(agent, &admin_service_, admin_socket_),
      memory_(kMaxMemoryGrowth + config.disk_dirs.size() * kMaxMemoryPerDisk),
      blocks_at_start_(CallOn(agent->executor(), [agent] { return agent->index().copies(); })),
      agent_(agent) {}

bool Doors::MemoryIsShort() {
  // The memory of dropped blocks is not given back to the system, so the largest number of blocks
  // so far counts.
  size_t most = most_blocks_.load(std::memory_order_relaxed);
  const size_t now = agent_->block_count();
  while (now > most && !most_blocks_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  most = std::max({most, now, blocks_at_start_});
  return memory_.IsOverLimit((most - blocks_at_start_) * kMaxIndexBytesPerBlock);
}

absl::StatusOr<std::unique_ptr<Doors>> Doors::Open(const AgentConfig& config, Agent* agent,
                                                   AdminService::About about, Before before) {
  auto doors = absl::WrapUnique(new Doors(config, agent, std::move(about)));
  const auto memory_is_short = [self = doors.get()] { return self->MemoryIsShort(); };
  const auto has_proven = [proven = before.proven](uint64_t caller) { return proven->Has(caller); };
  const std::array<grpc::Service*, 1> for_workers = {&doors->worker_service_};
  KVT_ASSIGN_OR_RETURN(
      doors->workers_,
      RpcDoor::Open({.name = "workers",
                     .address = absl::StrCat(config.socket_dir, "/", wire::kControlSocketName),
                     .mode = kWorkerSocketMode,
                     .uids = config.allow_uids,
                     .limits = kWorkerLimits,
                     .has_proven = has_proven,
                     .is_memory_short = memory_is_short},
                    for_workers));
  const std::array<grpc::Service*, 1> for_operators = {&doors->admin_service_};
  KVT_ASSIGN_OR_RETURN(doors->admin_, RpcDoor::Follow(before.starting->TakeAdmin(),
                                                      AdminDoor(config), for_operators));
  const std::array<grpc::Service*, 2> for_peers = {&doors->peer_service_,
                                                   &doors->remote_admin_service_};
  RpcDoor::Options remote = RemoteDoor(config);
  remote.is_memory_short = memory_is_short;
  KVT_ASSIGN_OR_RETURN(
      doors->remote_, RpcDoor::Follow(before.starting->TakeRemote(), std::move(remote), for_peers));
  return doors;
}

void Doors::Shutdown(absl::Time deadline) {
  remote_->Shutdown(deadline);
  workers_->Shutdown(deadline);
  admin_->Shutdown(deadline);
}

}  // namespace kvtier

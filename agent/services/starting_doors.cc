#include "agent/services/starting_doors.h"

#include <unistd.h>

#include <cstdint>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/status_macros.h"
#include "proto/socket_names.h"

namespace kvtier {
namespace {

constexpr uint32_t kRoot = 0;
// Threads of a door: its services are callbacks and need no thread for each call, except for each
// peer's stream at the TCP port.
constexpr int kMaxAdminThreads = 16;
constexpr int kMaxRemoteThreads = static_cast<int>(kMaxPeerStreamsServed) + kMaxAdminThreads;

}  // namespace

RpcDoor::Options AdminDoor(const AgentConfig& config) {
  return {.name = "admin",
          .address = absl::StrCat(config.socket_dir, "/", kAgentAdminSocketName),
          .mode = kAdminSocketMode,
          .uids = {kRoot, geteuid()},
          .health = true,
          .limits = {.connections = kMaxAdminConnections,
                     .calls = kMaxCallsPerConnection,
                     .intake_bytes = kAdminIntakeBytes,
                     .threads = kMaxAdminThreads}};
}

RpcDoor::Options RemoteDoor(const AgentConfig& config) {
  return {.name = "tcp",
          .address = config.listen,
          .health = true,
          .limits = {.connections = kMaxRemoteConnections,
                     .calls = kMaxCallsPerConnection,
                     .intake_bytes = kRemoteIntakeBytes,
                     .threads = kMaxRemoteThreads}};
}

absl::StatusOr<std::unique_ptr<StartingDoors>> StartingDoors::Open(const AgentConfig& config,
                                                                   const StartProgress* progress) {
  auto doors = absl::WrapUnique(new StartingDoors(config, progress));
  RpcDoor::Options admin = AdminDoor(config);
  admin.starting = &doors->admin_service_;
  KVT_ASSIGN_OR_RETURN(doors->admin_, RpcDoor::Open(std::move(admin), {}));
  RpcDoor::Options remote = RemoteDoor(config);
  remote.starting = &doors->remote_service_;
  KVT_ASSIGN_OR_RETURN(doors->remote_, RpcDoor::Open(std::move(remote), {}));
  return doors;
}

}  // namespace kvtier

// StartingDoors answer at the doors of operators and of TCP while the agent starts: health checks
// say that it lives and is not ready, and every call is answered with what the start is doing.
// Doors take their places. Workers find no door before there is something to answer them.
#ifndef KVTIER_AGENT_SERVICES_STARTING_DOORS_H_
#define KVTIER_AGENT_SERVICES_STARTING_DOORS_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "agent/agent_config.h"
#include "core/start_progress.h"
#include "proto/rpc_door.h"
#include "proto/starting_service.h"

namespace kvtier {

// Return what the doors of operators and of TCP are, whoever answers at them.
RpcDoor::Options AdminDoor(const AgentConfig& config);
RpcDoor::Options RemoteDoor(const AgentConfig& config);

// Thread-safe.
class StartingDoors {
 public:
  // `progress` outlives them. REQUIRES: config.socket_dir is locked. Errors: kUnavailable, one of
  // the doors cannot be opened.
  static absl::StatusOr<std::unique_ptr<StartingDoors>> Open(const AgentConfig& config,
                                                             const StartProgress* progress);
  // Return a door, to be followed while these are there. REQUIRES: each is called once.
  std::unique_ptr<RpcDoor> TakeAdmin() { return std::move(admin_); }
  std::unique_ptr<RpcDoor> TakeRemote() { return std::move(remote_); }

 private:
  StartingDoors(const AgentConfig& config, const StartProgress* progress)
      : admin_service_(config.node_id, progress), remote_service_(config.node_id, progress) {}

  // gRPC takes one of them for one server.
  StartingService admin_service_;
  StartingService remote_service_;
  std::unique_ptr<RpcDoor> admin_;
  std::unique_ptr<RpcDoor> remote_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_STARTING_DOORS_H_

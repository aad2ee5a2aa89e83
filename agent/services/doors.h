// Doors are the places where an agent answers gRPC: a Unix socket for workers, another one for
// operators, and the TCP port for peers, health checks and callers that only want a status.
// docs/design/wire.md says which door answers which RPC.
#ifndef KVTIER_AGENT_SERVICES_DOORS_H_
#define KVTIER_AGENT_SERVICES_DOORS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/agent_config.h"
#include "agent/services/admin_service.h"
#include "agent/services/peer_service.h"
#include "agent/services/remote_admin_service.h"
#include "agent/services/starting_doors.h"
#include "agent/services/worker_service.h"
#include "agent/sessions/proven_callers.h"
#include "core/memory_watch.h"
#include "proto/rpc_door.h"

namespace kvtier {

// Thread-safe. REQUIRES: the agent outlives it.
class Doors {
 public:
  struct Before {
    const ProvenCallers* proven = nullptr;    // Outlives the doors.
    std::unique_ptr<StartingDoors> starting;  // Doors that answered so far.
  };
  // Opens the workers' door, and answers at the others in place of those before. Errors:
  // kUnavailable, one of them cannot be opened.
  static absl::StatusOr<std::unique_ptr<Doors>> Open(const AgentConfig& config, Agent* agent,
                                                     AdminService::About about, Before before);
  // Accepts no more connections, and cuts the calls that are still in progress at `deadline`.
  void Shutdown(absl::Time deadline);

 private:
  Doors(const AgentConfig& config, Agent* agent, AdminService::About about);
  // Returns whether the agent has grown by more than it may beside its index. Any thread.
  bool MemoryIsShort();

  const std::string admin_socket_;
  WorkerService worker_service_;
  PeerService peer_service_;
  AdminService admin_service_;
  RemoteAdminService remote_admin_service_;
  MemoryWatch memory_;
  const size_t blocks_at_start_;
  std::atomic<size_t> most_blocks_{0};  // Most blocks so far; only reported.
  Agent* const agent_;
  std::unique_ptr<RpcDoor> workers_;
  std::unique_ptr<RpcDoor> admin_;
  std::unique_ptr<RpcDoor> remote_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_DOORS_H_

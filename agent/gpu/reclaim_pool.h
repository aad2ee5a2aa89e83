// ReclaimPool asks the workers that outlived the agent before this one for its GPU pool.
#ifndef KVTIER_AGENT_GPU_RECLAIM_POOL_H_
#define KVTIER_AGENT_GPU_RECLAIM_POOL_H_

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/agent_config.h"
#include "agent/sessions/pool_socket.h"
#include "agent/sessions/tenants.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/pool_ledger.h"

namespace kvtier {

// How long the start waits for a worker to offer the pool, if one of those that the ledger
// names lives. Twice the longest time between two tries of a client to connect.
inline constexpr absl::Duration kPoolOfferWindow = absl::Seconds(2);
// In --socket_dir.
inline constexpr char kPoolLedgerName[] = "gpu-pool.ledger";

struct PoolReclaim {
  // Of the pool to be, an old one or a new one; null: it cannot be written down.
  std::unique_ptr<PoolLedger> ledger;
  std::optional<Agent::TakenPool> taken;  // nullopt: the pool begins anew.
  std::unique_ptr<PoolSocket> socket;     // Null when nothing was taken.
};

// REQUIRES: config has a GPU pool, and this process has the socket directory's lock;
// `device` outlives what is returned. Takes kPoolOfferWindow at most. What
// cannot be taken back is logged, and why.
PoolReclaim ReclaimPool(const AgentConfig& config, const TenantTable& tenants, Device* device);

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_RECLAIM_POOL_H_

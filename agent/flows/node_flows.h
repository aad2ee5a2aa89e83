// NodeFlows are the flows of one node, each in a file of its own: what the services call.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_NODE_FLOWS_H_
#define KVTIER_AGENT_FLOWS_NODE_FLOWS_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_load.h"
#include "agent/disk/node_disks.h"
#include "agent/disk/offload.h"
#include "agent/flows/delete_blocks.h"
#include "agent/flows/erase_tenant.h"
#include "agent/flows/fetch.h"
#include "agent/flows/host_scrub.h"
#include "agent/flows/keep_prefix.h"
#include "agent/flows/match.h"
#include "agent/flows/onboard.h"
#include "agent/flows/put.h"
#include "agent/flows/swap.h"
#include "agent/flows/tickets.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/host_prover.h"
#include "agent/index/load_table.h"
#include "agent/peers/coordinator_reporter.h"
#include "agent/peers/peer_transport.h"
#include "agent/peers/serve_peer.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/kept_prefixes.h"
#include "agent/sessions/worker_sessions.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/node.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// The rooms of the agent that the flows work in; not owned.
struct NodeRooms {
  Executor* executor = nullptr;
  ByteThreads* byte_threads = nullptr;
  TaskScope* scope = nullptr;
  Waits* waits = nullptr;
  AgentStats* stats = nullptr;
  const TenantTable* tenants = nullptr;
  HostTier* host = nullptr;
  const HostShares* shares = nullptr;
  BlockChanges* changes = nullptr;
  BlockIndex* index = nullptr;
  Evictor* evictor = nullptr;
  NodeDisks* disks = nullptr;
  NodeGpus* gpus = nullptr;
  WorkerSessions* sessions = nullptr;
  FairTurns* turns = nullptr;
  const CoordinatorReporter* reporter = nullptr;  // Null: the agent runs alone.
  PeerTransport* transport = nullptr;
};

struct NodeFlows {
  struct Options {
    NodeId self;
    absl::Duration locate_grace;  // Shortest wait for a coordinator's answer.
    // Rate of the scrub of host memory; 0: it is not scrubbed.
    uint64_t host_scrub_bytes_per_second = 0;
  };
  NodeFlows(const Options& options, const NodeRooms& rooms);
  NodeFlows(const NodeFlows&) = delete;
  NodeFlows& operator=(const NodeFlows&) = delete;

  // Ends what is past its deadline, and begins loads and writes that a disk which has left the
  // service no longer holds up. Returns whether it is to be called again at once, because there is
  // more to end.
  bool Sweep(absl::Time now);
  void Audit() const;

  KeptPrefixes kept_prefixes;
  LoadTable host_loads;  // Loads into host memory.
  HostProver host_prover;
  HostScrub host_scrub;
  Fetcher fetcher;
  Matcher matcher;
  std::unique_ptr<DiskLoader> disk_loader;  // Null: no disk.
  std::unique_ptr<Offloader> offloader;     // Null: no disk.
  Onboarder onboarder;
  Tickets tickets;
  PrefixKeeper prefix_keeper;
  Putter putter;
  SequenceSwapper swapper;
  PeerServer peer_server;
  TenantEraser tenant_eraser;
  BlockDeleter block_deleter;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_NODE_FLOWS_H_

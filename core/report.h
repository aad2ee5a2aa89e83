// Reports of an agent to the coordinator and their answers: the stream of deltas,
// its sequence numbers and the snapshot that repairs it.
#ifndef KVTIER_CORE_REPORT_H_
#define KVTIER_CORE_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster_tenants.h"
#include "core/node.h"
#include "core/peer_name.h"
#include "core/tier.h"

namespace kvtier {

// NamedDelta is a Delta of a block as a report names it.
struct NamedDelta {
  Delta::Kind kind = Delta::Kind::kAdd;
  Tier tier = Tier::kHost;
  PeerName name;
  friend bool operator==(const NamedDelta&, const NamedDelta&) = default;
};

struct TierUsage {
  Tier tier = Tier::kHost;
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t blocks = 0;
};

// Report is one message of a node to the coordinator. Deltas are numbered first_sequence,
// first_sequence + 1, ...; a report without deltas is a heartbeat. Within one node_epoch a number
// is never given to two different deltas, not even by a snapshot, because a report that arrives
// late would then be taken for a new one.
struct Report {
  NodeId node;
  Epoch node_epoch;
  Epoch coordinator_epoch;  // Epoch that the coordinator's last answer had; 0: none known.
  std::string address;      // Address of the node's peer service.
  uint64_t first_sequence = 0;
  std::vector<NamedDelta> deltas;
  bool snapshot_begin = false;  // Forget the node's blocks first; the stream restarts here.
  bool snapshot_end = false;    // With this report the snapshot is complete.
  std::vector<TierUsage> tiers;
  SettingsStamp tenants{};  // Stamp of the cluster's settings of tenants that the node follows.
};

struct ReportReply {
  Epoch coordinator_epoch;
  uint64_t next_sequence = 0;               // The first delta the coordinator does not have.
  bool resync = false;                      // Deltas are missing; the agent sends a snapshot.
  std::optional<ClusterTenants> tenants{};  // nullopt: the node knows them, or does not take them.
  // The node follows settings that are not the coordinator's, and does not take those.
  bool tenants_differ = false;
};

// LocateScope says which names of a question are answered: the leading ones up to the first that no
// node holds, or all.
enum class LocateScope : uint8_t { kLeading, kEach };

// Maximum number of nodes that one question says are avoided.
inline constexpr size_t kMaxAvoidedNodes = 64;

// LocateQuery asks which nodes hold these blocks.
struct LocateQuery {
  NodeId asker;  // Node that asks, which is never among the holders.
  std::vector<PeerName> names;
  LocateScope scope = LocateScope::kLeading;
  // Nodes that did not serve the asker lately, kMaxAvoidedNodes at most: they come after all other
  // holders, the first one last.
  std::vector<NodeId> avoided{};
};

// Maximum number of holders in a reply for one block: one to ask, and others in case it is gone.
inline constexpr size_t kMaxHoldersPerReply = 4;

// LocateReply says for each name, in order, the other live nodes that hold its block, the best
// holder first, kMaxHoldersPerReply at most. For kLeading it ends at the first block that no node
// holds; for kEach such a block has an empty list.
using LocateReply = std::vector<std::vector<Holder>>;

}  // namespace kvtier

#endif  // KVTIER_CORE_REPORT_H_

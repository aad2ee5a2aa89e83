// NodeTable knows the nodes: their ids, which incarnation speaks, when its last report came and how
// far its stream has been followed.
#ifndef KVTIER_COORDINATOR_NODE_TABLE_H_
#define KVTIER_COORDINATOR_NODE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "coordinator/holder_list.h"
#include "core/node.h"
#include "core/report.h"

namespace kvtier {

// State of a node, for Locate and for operators.
enum class NodeState {
  kLive,     // Reported lately, its stream followed without a gap: hints name it.
  kSyncing,  // Reported lately, its snapshot not complete.
  kSilent,   // Sent no report for longer than the node timeout.
};
const char* NodeStateName(NodeState state);  // Returns "live", "syncing" or "silent".

// Stream says how far the coordinator has followed the node's stream.
enum class Stream {
  kLost,      // Nothing that the node said is trusted until a snapshot begins.
  kSnapshot,  // A snapshot is in progress.
  kWhole,     // The directory has everything that the node holds.
};

// RefusedNamesake is another agent with a node's name: it still reports although a later epoch has
// succeeded its own, and its reports are refused.
struct RefusedNamesake {
  std::string address;  // Address in its latest report.
  absl::Time last_heard;
  // Number of reports in a row, none more than kNamesakeRemembered after the previous one.
  uint64_t refused = 0;
  absl::Time last_logged = absl::InfinitePast();
};

struct Node {
  NodeId id;
  Epoch epoch;
  std::string address;
  NodeIndex index{};  // Index in the directory; changes whenever the node is forgotten there.
  absl::Time last_heard;
  uint64_t next_sequence = 0;  // First delta not seen.
  Stream stream = Stream::kLost;
  std::vector<TierUsage> tiers;
  SettingsStamp tenants;        // Settings of tenants that it says it follows.
  bool tenants_differ = false;  // They are not the coordinator's, and it does not take those.
  // Earlier epochs, latest first, at most Coordinator::kRememberedEpochs. An agent that still
  // reports with one of them is another agent of the same name.
  std::vector<Epoch> succeeded;
  std::optional<RefusedNamesake> refused_namesake;

  NodeState StateAt(absl::Time now, absl::Duration node_timeout) const;
};

// NodeTable maps ids and indices to nodes. Thread-compatible. Pointers to nodes are valid until
// Remove().
class NodeTable {
 public:
  // Makes an empty table. REQUIRES: max_nodes <= Directory::kMaxEnrolled.
  explicit NodeTable(size_t max_nodes) : max_nodes_(max_nodes), by_index_(kMaxNodeIndices) {}

  Node* Find(const NodeId& id);
  // Returns null for an index that no node has now.
  const Node* At(NodeIndex index) const { return by_index_[static_cast<size_t>(index)]; }
  // Adds a node. REQUIRES: !full(); no node has node.id or node.index.
  Node* Insert(Node node);
  // Changes the node's index. REQUIRES: no node has `index`.
  void Reindex(Node* node, NodeIndex index);
  void Remove(const NodeId& id);

  // Returns the node whose last report is the oldest. REQUIRES: size() > 0.
  const Node& LongestSilent() const;
  // Returns the nodes, ordered by id.
  std::vector<const Node*> All() const;
  size_t size() const { return by_id_.size(); }
  bool full() const { return by_id_.size() >= max_nodes_; }
  // CHECKs that both maps agree.
  void Audit() const;

 private:
  const size_t max_nodes_;
  absl::flat_hash_map<NodeId, std::unique_ptr<Node>> by_id_;
  std::vector<Node*> by_index_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_NODE_TABLE_H_

// NodeTable knows the nodes: who they are, which incarnation speaks, when it was
// last heard and how far its stream has been followed.
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

// How a node stands, for Locate and for people.
enum class NodeState {
  kLive,     // Heard lately, its stream followed without a gap: hints are given.
  kSyncing,  // Heard lately, its snapshot not complete.
  kSilent,   // Not heard for longer than the node timeout.
};
const char* NodeStateName(NodeState state);  // "live", "syncing" or "silent".

// How far the node's stream has been followed.
enum class Stream {
  kLost,      // Nothing is believed of the node until a snapshot begins.
  kSnapshot,  // A snapshot is coming.
  kWhole,     // What the directory says of the node is all it holds.
};

// Another agent that says to be a node: one whose epoch a later one has succeeded reports on.
struct Twin {
  std::string address;  // Of its latest report, as the time.
  absl::Time last_heard;
  uint64_t refused = 0;  // Reports in a row, none kTwinRemembered after the one before it.
  absl::Time last_logged = absl::InfinitePast();
};

struct Node {
  NodeId id;
  Epoch epoch;
  std::string address;
  NodeIndex index{};  // In the directory; changes whenever the node is forgotten there.
  absl::Time last_heard;
  uint64_t next_sequence = 0;  // The first delta not seen.
  Stream stream = Stream::kLost;
  std::vector<TierUsage> tiers;
  // Epochs before this one, latest first, Coordinator::kRememberedEpochs at most. Who still
  // speaks for one is another agent of the same name.
  std::vector<Epoch> succeeded;
  std::optional<Twin> twin;

  NodeState StateAt(absl::Time now, absl::Duration node_timeout) const;
};

// Thread-compatible. Pointers to nodes hold until Remove().
class NodeTable {
 public:
  // REQUIRES: max_nodes <= Directory::kMaxEnrolled.
  explicit NodeTable(size_t max_nodes) : max_nodes_(max_nodes), by_index_(kMaxNodeIndices) {}

  Node* Find(const NodeId& id);
  // Null for an index that no node has now.
  const Node* At(NodeIndex index) const { return by_index_[static_cast<size_t>(index)]; }
  // REQUIRES: !full(); no node has node.id or node.index.
  Node* Insert(Node node);
  // REQUIRES: no node has `index`.
  void Reindex(Node* node, NodeIndex index);
  void Remove(const NodeId& id);

  // Ordered by id.
  std::vector<const Node*> All() const;
  size_t size() const { return by_id_.size(); }
  bool full() const { return by_id_.size() >= max_nodes_; }
  // CHECKs that both ways to a node agree.
  void Audit() const;

 private:
  const size_t max_nodes_;
  absl::flat_hash_map<NodeId, std::unique_ptr<Node>> by_id_;
  std::vector<Node*> by_index_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_NODE_TABLE_H_

#include "coordinator/node_table.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

const char* NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kLive:
      return "live";
    case NodeState::kSyncing:
      return "syncing";
    case NodeState::kSilent:
      return "silent";
  }
  return "unknown";
}

NodeState Node::StateAt(absl::Time now, absl::Duration node_timeout) const {
  if (now - last_heard > node_timeout) return NodeState::kSilent;
  return stream == Stream::kWhole ? NodeState::kLive : NodeState::kSyncing;
}

Node* NodeTable::Find(const NodeId& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

Node* NodeTable::Insert(Node node) {
  KVT_CHECK(!full());
  KVT_CHECK(At(node.index) == nullptr);
  auto owned = std::make_unique<Node>(std::move(node));
  Node* const inserted = owned.get();
  KVT_CHECK(by_id_.emplace(inserted->id, std::move(owned)).second);
  by_index_[static_cast<size_t>(inserted->index)] = inserted;
  return inserted;
}

void NodeTable::Reindex(Node* node, NodeIndex index) {
  KVT_CHECK(At(index) == nullptr);
  by_index_[static_cast<size_t>(node->index)] = nullptr;
  by_index_[static_cast<size_t>(index)] = node;
  node->index = index;
}

void NodeTable::Remove(const NodeId& id) {
  const auto found = by_id_.find(id);
  KVT_CHECK(found != by_id_.end());
  by_index_[static_cast<size_t>(found->second->index)] = nullptr;
  by_id_.erase(found);
}

const Node& NodeTable::LongestSilent() const {
  const auto longest = std::min_element(
      by_id_.begin(), by_id_.end(),
      [](const auto& a, const auto& b) { return a.second->last_heard < b.second->last_heard; });
  KVT_CHECK(longest != by_id_.end());
  return *longest->second;
}

std::vector<const Node*> NodeTable::All() const {
  std::vector<const Node*> all;
  all.reserve(by_id_.size());
  for (const auto& [id, node] : by_id_) all.push_back(node.get());
  std::sort(all.begin(), all.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  return all;
}

void NodeTable::Audit() const {
  KVT_CHECK(by_id_.size() <= max_nodes_);
  size_t indexed = 0;
  for (const Node* node : by_index_) indexed += node != nullptr ? 1 : 0;
  KVT_CHECK(indexed == by_id_.size());
  for (const auto& [id, node] : by_id_) {
    KVT_CHECK(node->id == id);
    KVT_CHECK(At(node->index) == node.get());
  }
}

}  // namespace kvtier

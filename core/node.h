// Names of nodes and their incarnations, as agents and the coordinator use them.
#ifndef KVTIER_CORE_NODE_H_
#define KVTIER_CORE_NODE_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/block_key.h"
#include "core/tier.h"

namespace kvtier {

inline constexpr size_t kMaxNodeIdBytes = 63;    // A DNS label, as Kubernetes names nodes.
inline constexpr size_t kMaxAddressBytes = 255;  // "host:port" of the peer service.

// 1..63 of [a-zA-Z0-9._-], starting with a letter or digit.
class NodeId {
 public:
  // Errors: kInvalidArgument, with the offending text.
  static absl::StatusOr<NodeId> FromString(absl::string_view text);
  const std::string& str() const { return text_; }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const NodeId& id) {
    return H::combine(std::move(h), id.text_);
  }

 private:
  explicit NodeId(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Epoch names one run of a program: it is drawn at random at the start, and compared for equality
// only. An agent's new epoch voids what the coordinator knew of the node; a coordinator's new epoch
// makes agents resync.
struct Epoch {
  uint64_t value = 0;
  friend auto operator<=>(const Epoch&, const Epoch&) = default;
};

// Delta is one change of what a node holds. Only changes of host memory and disks are reported, as
// NamedDelta (report.h): other nodes never need a node's GPU slots.
struct Delta {
  enum class Kind : uint8_t { kAdd, kRemove };
  Kind kind = Kind::kAdd;
  Tier tier = Tier::kHost;
  BlockKey key;
  friend bool operator==(const Delta&, const Delta&) = default;
};

// A copy the coordinator believes in: a hint, never a promise.
struct Holder {
  NodeId node;
  std::string address;  // Address of its peer service, "host:port".
  Tier tier = Tier::kHost;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_NODE_H_

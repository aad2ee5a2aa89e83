// Holds reports, keys and a clock for the coordinator's tests.
#ifndef KVTIER_TESTS_COORDINATOR_REPORTS_H_
#define KVTIER_TESTS_COORDINATOR_REPORTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/clock.h"
#include "core/report.h"
#include "tests/testing/numbered_key.h"

namespace kvtier::testing {

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
};

inline NodeId TestNode(int number) { return *NodeId::FromString(absl::StrCat("node-", number)); }

inline NamedDelta AddOf(uint64_t key, Tier tier = Tier::kHost) {
  return {.kind = Delta::Kind::kAdd, .tier = tier, .name = NumberedName(key)};
}
inline NamedDelta RemoveOf(uint64_t key, Tier tier = Tier::kHost) {
  return {.kind = Delta::Kind::kRemove, .tier = tier, .name = NumberedName(key)};
}

// Returns a whole snapshot in one report, from sequence 0, as a fresh agent sends it.
inline Report SnapshotOf(int node, std::vector<NamedDelta> deltas, uint64_t node_epoch = 1) {
  return {.node = TestNode(node),
          .node_epoch = {node_epoch},
          .address = absl::StrCat("10.0.0.", node, ":7301"),
          .deltas = std::move(deltas),
          .snapshot_begin = true,
          .snapshot_end = true};
}

// Returns a report of `deltas` at `first_sequence`; without deltas it is a heartbeat.
inline Report DeltasOf(int node, Epoch coordinator, uint64_t first_sequence,
                       std::vector<NamedDelta> deltas) {
  return {.node = TestNode(node),
          .node_epoch = {1},
          .coordinator_epoch = coordinator,
          .address = absl::StrCat("10.0.0.", node, ":7301"),
          .first_sequence = first_sequence,
          .deltas = std::move(deltas)};
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_COORDINATOR_REPORTS_H_

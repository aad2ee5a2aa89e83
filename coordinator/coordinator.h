// Coordinator decides: it follows the agents' streams of deltas, keeps the
// directory, and says who holds a run of blocks. All of it is soft state; what is
// lost is told again. No I/O and no threads: the service and the simulator drive it.
//
// What it says is a hint. It may say too little (a stream not followed, a full
// table); it says too much only until the next report of the holder.
#ifndef KVTIER_COORDINATOR_COORDINATOR_H_
#define KVTIER_COORDINATOR_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/directory.h"
#include "coordinator/locate.h"
#include "coordinator/node_table.h"
#include "core/clock.h"
#include "core/report.h"

namespace kvtier {

struct CoordinatorOptions {
  // A node not heard for longer is silent: Locate does not name it.
  absl::Duration node_timeout = absl::Seconds(5);
  // A node not heard for longer is forgotten. A silent one that comes back sooner,
  // its stream unbroken, is trusted at once.
  absl::Duration forget_after = absl::Minutes(5);
  // Nodes in the table; one more is refused.
  size_t max_nodes = 4096;
  // Keys in the directory; one more is not learned. Near 60 bytes each.
  size_t max_keys = size_t{8} << 20;
};

struct CoordinatorStats {
  uint64_t reports = 0;
  uint64_t deltas = 0;            // Applied.
  uint64_t duplicate_deltas = 0;  // Told again, ignored.
  uint64_t snapshots = 0;         // Begun.
  uint64_t resyncs = 0;           // Asked for.
  uint64_t locate_requests = 0;
  uint64_t located_blocks = 0;
  uint64_t refused_nodes = 0;
  uint64_t refused_twins = 0;  // Reports of an agent whose name another one has taken.
  uint64_t refused_keys = 0;
  uint64_t refused_holders = 0;
  uint64_t forgotten_nodes = 0;  // Silent for longer than forget_after.
};

// What `kvtier nodes` and `kvtier status` show.
struct NodeView {
  NodeId id;
  Epoch epoch;
  std::string address;
  NodeState state = NodeState::kSyncing;
  absl::Duration silence;  // Since its last report.
  uint64_t directory_blocks = 0;
  std::vector<TierUsage> tiers;
  // Another agent of this name, whose reports are refused. Empty: none was heard within
  // kTwinRemembered.
  std::string twin_address;
  absl::Duration twin_silence;
};
struct CoordinatorView {
  Epoch epoch;
  absl::Duration uptime;
  uint64_t directory_keys = 0;
  CoordinatorStats stats;
  std::vector<NodeView> nodes;  // Ordered by id.
};

// Thread-compatible. Invariant: a node whose stream is lost has no blocks.
class Coordinator {
 public:
  static constexpr size_t kRememberedEpochs = 8;  // Of one node, beside the one that speaks.
  // How long a twin that has fallen silent is still told of, and how often it is logged. One
  // report is none: it may have been under way when its agent ended.
  static constexpr absl::Duration kTwinRemembered = absl::Minutes(1);
  static constexpr uint64_t kReportsOfATwin = 2;

  // REQUIRES: epoch is not 0 and was drawn for this object; the options' durations
  // are positive, max_nodes is 1..Directory::kMaxEnrolled. `clock` is not owned.
  Coordinator(const Clock* clock, Epoch epoch, const CoordinatorOptions& options);

  // Takes one report. The epoch that was heard first last is the node's: it is an agent that
  // started again, or another one that was given the same name, and these look alike until the
  // epoch before speaks once more. Then it is refused (and logged, once a minute) for as long
  // as the later one is heard within node_timeout, so that two agents of one name do not
  // undo each other's reports for ever. A report that does not continue the stream known of its
  // node (a gap, another epoch of either side, a node not known) makes the node lost and is
  // answered with resync, unless it begins a snapshot. Deltas seen before are ignored, so a report
  // may be sent again. REQUIRES: deltas of host and disk only. Errors: kResourceExhausted, the node
  // is new and the table full (retry later); kFailedPrecondition, another agent of this name has
  // reported since.
  absl::StatusOr<ReportReply> OnReport(const Report& report);

  // One list for each leading key that a live node other than `asker` holds.
  LocateReply Locate(const LocateQuery& query);

  // Every copy known of `key`, trusted or not, for people.
  std::vector<Holder> Lookup(const BlockKey& key) const;

  // Forgets nodes silent for too long and sweeps. To be called about once a second;
  // nothing that is answered depends on how often.
  void Tick();

  // Sets the tenants' settings for all nodes. A node that has an older version is told with the
  // answer to its next report.
  void SetTenants(ClusterTenants tenants) { tenants_ = std::move(tenants); }
  // Returns a version that every node takes for later than what it knows, also where those settings
  // were lost here, as far as nodes have reported.
  uint64_t NextTenantsVersion() const;

  // New durations, from the settings. REQUIRES: positive.
  void SetTimeouts(absl::Duration node_timeout, absl::Duration forget_after);

  CoordinatorView snapshot() const;
  Epoch epoch() const { return epoch_; }
  // CHECKs the invariants of all tables; a pass over every entry.
  void Audit() const;

 private:
  absl::StatusOr<Node*> FindOrInsert(const Report& report);
  // OK: the report is of the epoch that speaks for the node, from now on at the latest.
  absl::Status CheckEpoch(Node* node, const Report& report);
  absl::Status RefuseTwin(Node* node, const Report& report);
  // Nothing is believed of the node any more.
  void Lose(Node* node);
  // Applies what is new of a report that continues the node's stream.
  void Follow(Node* node, const Report& report);

  const Clock* const clock_;  // Not owned.
  const Epoch epoch_;
  const absl::Time started_;
  CoordinatorOptions options_;
  Directory directory_;
  NodeTable nodes_;
  CoordinatorStats stats_;
  ClusterTenants tenants_;
  uint64_t tenants_heard_ = 0;  // Latest version that a node has reported.
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_H_

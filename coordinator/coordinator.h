// Coordinator follows the agents' streams of deltas, keeps the directory, and says which nodes hold
// a run of blocks. All of it is soft state: after a loss the agents report it again. It has no I/O
// and no threads: the service and the simulator drive it.
//
// The coordinator's answers are hints. It may know too little (a stream not followed, a full
// table); it claims too much only until the holder's next report.
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
#include "core/seldom_log.h"

namespace kvtier {

struct CoordinatorOptions {
  // Time after which a node that sends no report is silent: Locate does not name it.
  absl::Duration node_timeout = absl::Seconds(5);
  // Time after which a silent node is forgotten. A silent node that comes back sooner, with its
  // stream unbroken, is trusted at once.
  absl::Duration forget_after = absl::Minutes(5);
  // Maximum number of nodes in the table; one more is refused.
  size_t max_nodes = 4096;
  // Maximum number of keys in the directory; one more is not learned. Near 60 bytes each.
  size_t max_keys = size_t{8} << 20;
};

struct CoordinatorStats {
  uint64_t reports = 0;
  uint64_t deltas = 0;            // Number applied.
  uint64_t duplicate_deltas = 0;  // Number reported again, and ignored.
  uint64_t snapshots = 0;         // Number begun.
  uint64_t resyncs = 0;           // Number requested.
  uint64_t locate_requests = 0;
  uint64_t located_blocks = 0;
  uint64_t refused_nodes = 0;
  // Number of reports of agents whose name another agent has taken.
  uint64_t refused_namesakes = 0;
  uint64_t refused_keys = 0;
  uint64_t refused_holders = 0;
  uint64_t forgotten_nodes = 0;  // Number of nodes that were silent for longer than forget_after.
};

// Figures that `kvtier nodes` and `kvtier status` show.
struct NodeView {
  NodeId id;
  Epoch epoch;
  std::string address;
  NodeState state = NodeState::kSyncing;
  absl::Duration silence;  // Time since its last report.
  uint64_t directory_blocks = 0;
  std::vector<TierUsage> tiers;
  SettingsStamp tenants;        // Settings of tenants that it follows.
  bool tenants_differ = false;  // They are not the coordinator's, and it does not take those.
  // Address of another agent of this name, whose reports are refused. Empty: there was none within
  // kNamesakeRemembered.
  std::string namesake_address;
  absl::Duration namesake_silence;
};
struct CoordinatorView {
  Epoch epoch;
  absl::Duration uptime;
  uint64_t directory_keys = 0;
  SettingsStamp tenants;  // Settings of tenants that are in force; version 0: they are unknown.
  CoordinatorStats stats;
  std::vector<NodeView> nodes;  // Ordered by id.
};

// Coordinator makes the decisions. Thread-compatible. Invariant: a node whose stream is lost has no
// blocks.
class Coordinator {
 public:
  // Epochs remembered of one node, beside the one that speaks.
  static constexpr size_t kRememberedEpochs = 8;
  // Time for which a silent namesake is still shown, and number of its reports after which it is
  // logged. A single report does not make a namesake: it may have been in flight when its agent
  // ended.
  static constexpr absl::Duration kNamesakeRemembered = absl::Minutes(1);
  static constexpr uint64_t kReportsOfANamesake = 2;

  // Makes a coordinator. Does not own `clock`. REQUIRES: epoch is not 0 and was drawn for this
  // object; the options' durations are positive, max_nodes is 1..Directory::kMaxEnrolled.
  Coordinator(const Clock* clock, Epoch epoch, const CoordinatorOptions& options);

  // Takes one report. The node's epoch is the one whose first report came last: it belongs to an
  // agent that started again, or to another agent with the same name. These look alike until the
  // previous epoch reports once more. That epoch is then refused (and logged, once a minute) as
  // long as the later one reports within node_timeout, so that two agents of one name do not undo
  // each other's reports for ever. A report that does not continue the known stream of its node (a
  // gap, another epoch of either side, an unknown node) makes the stream lost and is answered with
  // resync, unless it begins a snapshot. Deltas seen before are ignored, so a report may be sent
  // again.
  // REQUIRES: deltas of host and disk only. Errors: kResourceExhausted, the node is new and the
  // table full (retry later); kFailedPrecondition, another agent of this name has reported since.
  absl::StatusOr<ReportReply> OnReport(const Report& report);

  // Returns one list for each leading block that a live node other than `asker` holds. Nodes that
  // the asker avoids come last in it.
  LocateReply Locate(const LocateQuery& query);

  // Returns every known copy of the block, trusted or not, for operators.
  std::vector<Holder> Lookup(const PeerName& name) const;

  // Forgets nodes that were silent for too long, and sweeps. Call it about once a second; no answer
  // depends on how often.
  void Tick();

  // Sets the tenants' settings for all nodes; version 0: they are unknown, and no node is told any.
  // A node that takes them (Takes()) gets them with the answer to its next report. What a node says
  // that it follows changes nothing here.
  void SetTenants(ClusterTenants tenants);

  // Sets the durations, from the settings. REQUIRES: positive.
  void SetTimeouts(absl::Duration node_timeout, absl::Duration forget_after);

  CoordinatorView snapshot() const;
  Epoch epoch() const { return epoch_; }
  // CHECKs the invariants of all tables; visits every entry.
  void Audit() const;

 private:
  absl::StatusOr<Node*> FindOrInsert(const Report& report);
  // Returns OK if the report's epoch speaks for the node, from now on at the latest.
  absl::Status CheckEpoch(Node* node, const Report& report);
  absl::Status RefuseNamesake(Node* node, const Report& report);
  // Drops everything known of the node.
  void Lose(Node* node);
  // Applies the new deltas of a report that continues the node's stream.
  void Follow(Node* node, const Report& report);
  // Takes note of the settings of tenants that the node says it follows, and logs when they become
  // others than those here.
  void NoteTenants(Node* node, const SettingsStamp& followed);
  // Returns whether a node that follows these settings stays with them.
  bool Differs(const SettingsStamp& followed) const;
  // Forgets the node that was silent for longest, so that another has its place. Does nothing where
  // none is silent.
  void ForgetLongestSilent();
  void Forget(NodeId id);

  const Clock* const clock_;  // Borrowed.
  const Epoch epoch_;
  const absl::Time started_;
  CoordinatorOptions options_;
  Directory directory_;
  NodeTable nodes_;
  CoordinatorStats stats_;
  ClusterTenants tenants_;
  SettingsStamp tenants_stamp_;
  SeldomLog differences_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_H_

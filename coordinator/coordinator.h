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
  // Address of another agent of this name, whose reports are refused. Empty: there was none within
  // kNamesakeRemembered.
  std::string namesake_address;
  absl::Duration namesake_silence;
};
struct CoordinatorView {
  Epoch epoch;
  absl::Duration uptime;
  uint64_t directory_keys = 0;
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
  // Time after an adoption of tenants' settings in which no node is told of them, because other
  // nodes that come back may know later ones.
  static constexpr absl::Duration kAdoptionSettles = absl::Seconds(5);

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

  // Returns one list for each leading key that a live node other than `asker` holds.
  LocateReply Locate(const LocateQuery& query);

  // Returns every known copy of `key`, trusted or not, for operators.
  std::vector<Holder> Lookup(const BlockKey& key) const;

  // Forgets nodes that were silent for too long, and sweeps. Call it about once a second; no answer
  // depends on how often.
  void Tick();

  // Sets the tenants' settings for all nodes, at the start. A node with an older version gets them
  // with the answer to its next report. A node with a version that cannot come from here is asked
  // for its settings: they were lost here.
  void SetTenants(ClusterTenants tenants);
  // Begins a change of the tenants' settings, and returns its version. Until EndTenantsChange() no
  // answer brings settings to a node. Errors: kAborted, a node that is not silent knows settings
  // that were lost here, and they are on their way; or another change is in progress. Try again.
  absl::StatusOr<uint64_t> BeginTenantsChange();
  // Begins to take over the settings that the report brings; EndTenantsChange() ends it. False:
  // they are not wanted, or a change is in progress; the node brings them again if they are wanted.
  bool BeginAdoption(const Report& report);
  // Ends either, with the settings that are stored now. `known` is the version of the report that
  // they were taken over from; 0: they were not.
  void EndTenantsChange(ClusterTenants stored, uint64_t known);
  // Fills in what the reply to `report` says of the tenants' settings. OnReport() has done so;
  // after an adoption they are no longer wanted.
  void AnswerTenants(const Report& report, ReportReply* reply);

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
  // Returns whether a node that knows this version has settings that were lost here.
  bool IsLost(uint64_t tenants_version) const;

  const Clock* const clock_;  // Borrowed.
  const Epoch epoch_;
  const absl::Time started_;
  CoordinatorOptions options_;
  Directory directory_;
  NodeTable nodes_;
  CoordinatorStats stats_;
  ClusterTenants tenants_;
  // Latest version that a node may know from here. A change that no node knows yet has the next
  // number, however many such changes there are, so that a coordinator that lost its settings does
  // not count past the version of nodes that are away.
  uint64_t tenants_known_ = 0;
  bool tenants_changing_ = false;
  absl::Time tenants_settled_ = absl::InfinitePast();  // End of kAdoptionSettles.
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_H_

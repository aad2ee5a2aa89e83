// CoordinatorReporter is the loop that talks to the coordinator: it reports changes as they gather,
// names the blocks as their tenants' PeerNamers do, sends a heartbeat when there are none, and
// tries again at the interval of heartbeats while nobody answers.
//
// Executor thread only.
#ifndef KVTIER_AGENT_PEERS_COORDINATOR_REPORTER_H_
#define KVTIER_AGENT_PEERS_COORDINATOR_REPORTER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/peers/coordinator_link.h"
#include "agent/peers/directory_sync.h"
#include "agent/tenants.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/report.h"
#include "core/task.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class CoordinatorReporter final : public BlockFollower {
 public:
  using UsageOf = absl::AnyInvocable<std::vector<TierUsage>()>;
  // Access to the node's copy of the cluster's settings of tenants.
  struct Tenants {
    absl::AnyInvocable<SettingsStamp()> stamp;
    absl::AnyInvocable<void(ClusterTenants)> take;
  };
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    CoordinatorLink* link = nullptr;
    BlockChanges* changes = nullptr;
    const TenantTable* tenants = nullptr;
    const BlockIndex* index = nullptr;
    const DiskSet* disks = nullptr;  // Disks of the node; null: none.
  };
  // The node as its reports introduce it.
  struct Self {
    NodeId node;
    Epoch epoch;
    std::string address;
  };
  CoordinatorReporter(const Parts& parts, Self self, UsageOf usage_of, Tenants tenants);

  void OnChange(const BlockChange& change) override;
  // Ends after Stop().
  Task<void> Run();
  void Stop();

  bool connected() const { return connected_; }
  // Returns the link to the coordinator, for questions of others.
  CoordinatorLink* link() const { return parts_.link; }
  // Returns the time of the last answer, while the coordinator answers; nullopt: not connected.
  std::optional<absl::Time> heard() const {
    return connected_ ? last_answer_ : std::optional<absl::Time>();
  }
  // Returns why the coordinator refuses the reports of this node, in its words: another agent has
  // this node's name, or the versions do not match. Empty: it refused none since it last took one.
  const std::string& refusal() const { return refusal_; }
  // Returns whether the coordinator, by its last answer, does not have the settings of tenants that
  // this node follows.
  bool tenants_differ() const { return tenants_differ_; }
  // Returns the time since the last answer; nullopt: there was none.
  std::optional<absl::Duration> silence() const;

 private:
  // Returns the delta with the name of its block; nullopt: it is of no tenant of this node, so that
  // no other node could ask for it.
  std::optional<NamedDelta> Named(const Delta& delta, std::optional<DomainId> domain) const;
  // Adds the next part of a snapshot to `deltas`; DirectorySync::SnapshotPart.
  bool TakeSnapshotPart(bool is_first, std::vector<NamedDelta>* deltas);
  // Returns the domain of a block that is here; nullopt: of no tenant of this node.
  std::optional<DomainId> DomainOf(const Delta& held) const;
  // Takes note of how a report ended, and logs what is new.
  void Note(const absl::Status& reported);
  // Takes note of whether the coordinator's settings differ, and logs it when that is new.
  void NoteDifference(bool differ);
  Task<void> Rest(bool answered);

  const Parts parts_;
  DirectorySync sync_;
  BlockIndex::SnapshotPlace snapshot_at_;
  UsageOf usage_of_;
  Tenants tenants_;
  std::shared_ptr<Event> wake_;  // Set: there is news, or Stop() was called.
  bool stopping_ = false;
  bool connected_ = false;
  std::string refusal_;
  std::optional<absl::Time> last_answer_;
  bool tenants_differ_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_COORDINATOR_REPORTER_H_

// CoordinatorReporter is the loop that talks to the coordinator: it reports changes as they gather,
// sends a heartbeat when there are none, and tries again at the interval of heartbeats while nobody
// answers.
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
#include "agent/peers/coordinator_link.h"
#include "agent/peers/directory_sync.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/report.h"
#include "core/task.h"

namespace kvtier {

class CoordinatorReporter final : public BlockFollower {
 public:
  using UsageOf = absl::AnyInvocable<std::vector<TierUsage>()>;
  // Access to the node's copy of the cluster's settings of tenants.
  struct Tenants {
    absl::AnyInvocable<SettingsStamp()> stamp;
    absl::AnyInvocable<void(ClusterTenants)> take;
  };
  // Follows `changes`. Does not own `executor`, `link`.
  CoordinatorReporter(Executor* executor, CoordinatorLink* link, BlockChanges* changes,
                      DirectorySync sync, UsageOf usage_of, Tenants tenants)
      : executor_(executor),
        link_(link),
        sync_(std::move(sync)),
        usage_of_(std::move(usage_of)),
        tenants_(std::move(tenants)) {
    changes->Follow(this);
  }

  void OnChange(const BlockChange& change) override;
  // Ends after Stop().
  Task<void> Run();
  void Stop();

  bool connected() const { return connected_; }
  // Returns the link to the coordinator, for questions of others.
  CoordinatorLink* link() const { return link_; }
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
  // Takes note of how a report ended, and logs what is new.
  void Note(const absl::Status& reported);
  // Takes note of whether the coordinator's settings differ, and logs it when that is new.
  void NoteDifference(bool differ);
  Task<void> Rest(bool answered);

  Executor* const executor_;
  CoordinatorLink* const link_;
  DirectorySync sync_;
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

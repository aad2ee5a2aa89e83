#include "agent/peers/coordinator_reporter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/log.h"

namespace kvtier {

CoordinatorReporter::CoordinatorReporter(const Parts& parts, Self self, UsageOf usage_of,
                                         Tenants tenants)
    : parts_(parts),
      sync_(std::move(self.node), self.epoch, std::move(self.address),
            [this](bool is_first, std::vector<NamedDelta>* deltas) {
              return TakeSnapshotPart(is_first, deltas);
            }),
      usage_of_(std::move(usage_of)),
      tenants_(std::move(tenants)) {
  parts_.changes->Follow(this);
}

std::optional<NamedDelta> CoordinatorReporter::Named(const Delta& delta,
                                                     std::optional<DomainId> domain) const {
  if (!domain.has_value()) return std::nullopt;
  return NamedDelta{.kind = delta.kind,
                    .tier = delta.tier,
                    .name = parts_.tenants->OfDomain(*domain).peer_namer->NameOf(delta.key)};
}

std::optional<DomainId> CoordinatorReporter::DomainOf(const Delta& held) const {
  if (held.tier == Tier::kHost) return parts_.index->Find(held.key)->slot.domain();
  const std::optional<TenantTag> owner = parts_.disks->OwnerOf(held.key);
  return owner.has_value() ? parts_.tenants->DomainOf(*owner) : std::nullopt;
}

bool CoordinatorReporter::TakeSnapshotPart(bool is_first, std::vector<NamedDelta>* deltas) {
  if (is_first) snapshot_at_ = {};
  std::vector<Delta> held;
  const bool more = parts_.index->SnapshotFrom(&snapshot_at_, kMaxDeltasPerMessage, &held);
  for (const Delta& delta : held) {
    const std::optional<NamedDelta> named = Named(delta, DomainOf(delta));
    if (named.has_value()) deltas->push_back(*named);
  }
  return more;
}

void CoordinatorReporter::OnChange(const BlockChange& change) {
  // A GPU slot is the node's own business.
  if (change.delta.tier == Tier::kGpu || sync_.snapshot_due()) return;
  const std::optional<NamedDelta> named = Named(change.delta, change.domain);
  if (!named.has_value()) return;
  sync_.Add(*named);
  // While no coordinator answers, changes wait for the next try.
  if (wake_ != nullptr && connected_) wake_->Set();
}

void CoordinatorReporter::Stop() {
  stopping_ = true;
  if (wake_ != nullptr) wake_->Set();
}

std::optional<absl::Duration> CoordinatorReporter::silence() const {
  if (!last_answer_.has_value()) return std::nullopt;
  return parts_.executor->Now() - *last_answer_;
}

Task<void> CoordinatorReporter::Run() {
  while (!stopping_) {
    Report report = sync_.Next();
    report.tiers = usage_of_();
    report.tenants = tenants_.stamp();
    absl::StatusOr<ReportReply> reply =
        co_await parts_.link->Send(std::move(report), parts_.executor->Now() + kReportTimeout);
    if (reply.ok()) {
      sync_.OnReply(*reply);
      last_answer_ = parts_.executor->Now();
      NoteDifference(reply->tenants_differ);
      if (reply->tenants.has_value()) tenants_.take(*std::move(reply->tenants));
    }
    Note(reply.status());
    co_await Rest(reply.ok());
  }
}

void CoordinatorReporter::Note(const absl::Status& reported) {
  const bool was_connected = std::exchange(connected_, reported.ok());
  if (reported.ok()) {
    refusal_.clear();
    if (!was_connected) Log(LogLevel::kInfo, "connected to the coordinator");
  } else if (absl::IsFailedPrecondition(reported)) {
    // Logs each reason once, because the coordinator repeats it at every heartbeat.
    const std::string reason(reported.message());
    if (reason == refusal_) return;
    refusal_ = reason;
    Log(LogLevel::kError,
        absl::StrCat("the coordinator refuses this node, so only blocks of this node are found: ",
                     reason));
  } else if (was_connected) {
    Log(LogLevel::kWarning,
        absl::StrCat("the coordinator cannot be reached, so only blocks of this node are found: ",
                     reported.ToString()));
  }
}

void CoordinatorReporter::NoteDifference(bool differ) {
  if (std::exchange(tenants_differ_, differ) || !differ) return;
  const SettingsStamp stamp = tenants_.stamp();
  Log(LogLevel::kWarning,
      absl::StrCat("the coordinator does not have the settings of tenants that this node follows, "
                   "version ",
                   stamp.version, " of store ", StoreIdText(stamp.store),
                   "; they stay in force here; kvtier nodes says more"));
}

// Waits until there is something to say, or it is time for a heartbeat.
Task<void> CoordinatorReporter::Rest(bool answered) {
  const std::shared_ptr<Event> wake = std::make_shared<Event>(parts_.executor);
  wake_ = wake;
  if (!stopping_ && !(answered && sync_.HasNews())) {
    co_await wake->WaitUntil(parts_.executor->Now() + kHeartbeatInterval);
  }
  if (!stopping_) co_await SleepUntil(parts_.executor, parts_.executor->Now() + kReportDelay);
}

}  // namespace kvtier

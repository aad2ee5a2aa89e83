#include "agent/coordinator_reporter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/log.h"

namespace kvtier {

void CoordinatorReporter::OnDelta(const Delta& delta) {
  sync_.Add(delta);
  // While nobody answers, news waits for the next try.
  if (wake_ != nullptr && connected_) wake_->Set();
}

void CoordinatorReporter::Stop() {
  stopping_ = true;
  if (wake_ != nullptr) wake_->Set();
}

std::optional<absl::Duration> CoordinatorReporter::silence() const {
  if (!last_answer_.has_value()) return std::nullopt;
  return executor_->Now() - *last_answer_;
}

Task<void> CoordinatorReporter::Run() {
  while (!stopping_) {
    Report report = sync_.Next();
    report.tiers = usage_of_();
    const absl::StatusOr<ReportReply> reply =
        co_await link_->Send(std::move(report), executor_->Now() + kReportTimeout);
    if (reply.ok()) {
      sync_.OnReply(*reply);
      last_answer_ = executor_->Now();
    }
    if (reply.ok() != connected_) {
      connected_ = reply.ok();
      Log(connected_ ? LogLevel::kInfo : LogLevel::kWarning,
          connected_ ? "coordinator: connected"
                     : absl::StrCat("coordinator: lost, only this node's blocks hit: ",
                                    reply.status().ToString()));
    }
    co_await Rest(reply.ok());
  }
}

// Until there is something to say, or it is time for a heartbeat.
Task<void> CoordinatorReporter::Rest(bool answered) {
  const std::shared_ptr<Event> wake = std::make_shared<Event>(executor_);
  wake_ = wake;
  if (!stopping_ && !(answered && sync_.HasNews())) {
    co_await wake->WaitUntil(executor_->Now() + kHeartbeatInterval);
  }
  if (!stopping_) co_await SleepUntil(executor_, executor_->Now() + kReportDelay);
}

}  // namespace kvtier

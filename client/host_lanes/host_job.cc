#include "client/host_lanes/host_job.h"

#include <utility>

#include "client/fork_guard.h"
#include "core/check.h"

namespace kvtier {

bool HostJob::done() const {
  if (InForkedChild()) return true;
  const absl::MutexLock lock(&mu_);
  return status_.has_value();
}

bool HostJob::copied() const {
  if (InForkedChild()) return true;
  const absl::MutexLock lock(&mu_);
  return copied_;
}

bool HostJob::recorded() const {
  if (InForkedChild()) return false;
  const absl::MutexLock lock(&mu_);
  return recorded_;
}

bool HostJob::Wait(absl::Duration timeout) const {
  if (InForkedChild()) return true;
  const absl::MutexLock lock(&mu_);
  const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return status_.has_value(); };
  return mu_.AwaitWithTimeout(absl::Condition(&ended), timeout);
}

std::vector<bool> HostJob::results() const {
  if (InForkedChild()) return std::vector<bool>(slots_.size());
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(status_.has_value());
  return results_;
}

absl::Status HostJob::status() const {
  if (InForkedChild()) return absl::UnavailableError(kForkedText);
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(status_.has_value());
  return *status_;
}

void HostJob::MarkCopied() {
  const absl::MutexLock lock(&mu_);
  copied_ = true;
}

void HostJob::MarkRecorded() {
  const absl::MutexLock lock(&mu_);
  recorded_ = true;
}

void HostJob::End(const absl::Status& status, std::vector<bool> results) {
  KVT_CHECK(results.size() == slots_.size());
  const absl::MutexLock lock(&mu_);
  if (status_) return;
  copied_ = true;
  status_ = status;
  results_ = std::move(results);
}

}  // namespace kvtier

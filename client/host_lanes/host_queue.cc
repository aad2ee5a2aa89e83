#include "client/host_lanes/host_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

absl::Status HostQueue::Admit(const std::shared_ptr<HostJob>& job) {
  const absl::MutexLock lock(&mu_);
  if (closed_) return absl::FailedPreconditionError("lanes: they are closed");
  Jobs& jobs = jobs_[IndexOf(*job)];
  if (jobs.size() == kMaxHostJobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("lanes: all of ", kMaxHostJobs, " jobs of the direction are under way"));
  }
  jobs.insert(job);
  if (job->direction() == HostDirection::kOffload) {
    reading_.insert(job);
    for (const uint32_t slot : job->slots()) ++readers_[slot];
  }
  return absl::OkStatus();
}

void HostQueue::Add(std::unique_ptr<HostCopy> copy) {
  const absl::MutexLock lock(&mu_);
  if (closed_ || !IsAdmitted(copy->job())) return;
  copies_[IndexOf(*copy->job())].push_back(std::move(copy));
}

std::unique_ptr<HostCopy> HostQueue::Take() {
  // Copies that were given up meanwhile are destroyed without the lock.
  std::vector<std::unique_ptr<HostCopy>> ended;
  const absl::MutexLock lock(&mu_);
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return closed_ || std::ranges::any_of(copies_, [](const auto& some) { return !some.empty(); });
  };
  while (true) {
    mu_.Await(absl::Condition(&has_work));
    if (closed_) return nullptr;
    auto& onboards = copies_[static_cast<size_t>(HostDirection::kOnboard)];
    auto& first =
        onboards.empty() ? copies_[static_cast<size_t>(HostDirection::kOffload)] : onboards;
    std::unique_ptr<HostCopy> copy = std::move(first.front());
    first.pop_front();
    if (IsAdmitted(copy->job())) return copy;
    ended.push_back(std::move(copy));
  }
}

void HostQueue::PutBack(std::unique_ptr<HostCopy> copy, uint64_t bytes, absl::Duration took) {
  const HostDirection direction = copy->job()->direction();
  const absl::MutexLock lock(&mu_);
  AddCopied(direction, 1, bytes, took);
  copies_[static_cast<size_t>(direction)].push_front(std::move(copy));
}

void HostQueue::Count(HostDirection direction, uint64_t blocks, uint64_t bytes,
                      absl::Duration took) {
  const absl::MutexLock lock(&mu_);
  AddCopied(direction, blocks, bytes, took);
}

void HostQueue::AddCopied(HostDirection direction, uint64_t blocks, uint64_t bytes,
                          absl::Duration took) {
  HostCopyStats& stats = stats_[static_cast<size_t>(direction)];
  stats.blocks += blocks;
  stats.bytes += bytes;
  stats.copying += took;
}

bool HostQueue::EndReading(const std::shared_ptr<HostJob>& job) {
  const absl::MutexLock lock(&mu_);
  if (!IsAdmitted(job)) return false;
  StopReading(job);
  job->MarkCopied();
  return true;
}

void HostQueue::End(const std::shared_ptr<HostJob>& job, const absl::Status& status,
                    std::vector<bool> results, uint64_t failed) {
  const absl::MutexLock lock(&mu_);
  stats_[IndexOf(*job)].failed_blocks += failed;
  if (jobs_[IndexOf(*job)].erase(job) == 0) return;
  StopReading(job);
  job->End(status, std::move(results));
}

bool HostQueue::AwaitCopied(std::span<const uint32_t> slots, absl::Duration timeout) {
  const absl::MutexLock lock(&mu_);
  const auto free = [this, slots]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !IsRead(slots); };
  if (mu_.AwaitWithTimeout(absl::Condition(&free), timeout)) return true;
  std::vector<bool> wanted(readers_.size());
  for (const uint32_t slot : slots) wanted[slot] = true;
  const Jobs reading = reading_;
  for (const std::shared_ptr<HostJob>& job : reading) {
    if (std::ranges::none_of(job->slots(), [&](uint32_t slot) { return wanted[slot]; })) continue;
    GiveUp(job, absl::AbortedError("lanes: the slots were asked back before they were copied"));
  }
  return false;
}

HostCopyStats HostQueue::StatsOf(HostDirection direction) const {
  const absl::MutexLock lock(&mu_);
  return stats_[static_cast<size_t>(direction)];
}

void HostQueue::Close() {
  const absl::MutexLock lock(&mu_);
  closed_ = true;
}

void HostQueue::CancelAll() {
  PerDirection<std::deque<std::unique_ptr<HostCopy>>> copies;
  const absl::MutexLock lock(&mu_);
  KVT_CHECK(closed_);
  copies.swap(copies_);  // They go without the lock.
  for (Jobs& jobs : jobs_) {
    const Jobs ended = jobs;
    for (const std::shared_ptr<HostJob>& job : ended) {
      GiveUp(job, absl::CancelledError("lanes: they were closed"));
    }
  }
}

bool HostQueue::IsAdmitted(const std::shared_ptr<HostJob>& job) const {
  return jobs_[IndexOf(*job)].contains(job);
}

bool HostQueue::IsRead(std::span<const uint32_t> slots) const {
  return std::ranges::any_of(
      slots, [this](uint32_t slot) ABSL_SHARED_LOCKS_REQUIRED(mu_) { return readers_[slot] > 0; });
}

void HostQueue::StopReading(const std::shared_ptr<HostJob>& job) {
  if (reading_.erase(job) == 0) return;
  for (const uint32_t slot : job->slots()) --readers_[slot];
}

void HostQueue::GiveUp(const std::shared_ptr<HostJob>& job, const absl::Status& why) {
  jobs_[IndexOf(*job)].erase(job);
  StopReading(job);
  job->End(why, std::vector<bool>(job->slots().size()));
}

}  // namespace kvtier

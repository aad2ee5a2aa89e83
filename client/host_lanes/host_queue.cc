#include "client/host_lanes/host_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

absl::Status HostQueue::Admit(const std::shared_ptr<HostJob>& job) {
  const absl::MutexLock lock(&mu_);
  if (closed_) return absl::FailedPreconditionError("lanes: they are closed; open others");
  Jobs& jobs = jobs_[IndexOf(*job)];
  if (jobs.size() == kMaxHostJobs) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "lanes: ", kMaxHostJobs,
        " jobs in this direction are in progress, the most that may be; poll those that ended"));
  }
  jobs.insert(job);
  if (job->direction() == HostDirection::kOffload) {
    reading_[job].blocks.resize(job->slots().size(), Reading::Block::kWaits);
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
    std::unique_ptr<HostCopy> copy = TakeNext();
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

void HostQueue::SkipBlocks(const std::shared_ptr<HostJob>& job, std::span<const size_t> blocks) {
  const absl::MutexLock lock(&mu_);
  const auto found = reading_.find(job);
  if (found == reading_.end()) return;
  for (const size_t block : blocks) Leave(*job, &found->second, block, Reading::Block::kLeft);
}

std::optional<size_t> HostQueue::BeginBlock(const std::shared_ptr<HostJob>& job) {
  const absl::MutexLock lock(&mu_);
  const auto found = reading_.find(job);
  if (found == reading_.end()) return std::nullopt;
  Reading& reading = found->second;
  size_t block = reading.next;
  if (HasWanted(&reading)) {
    block = reading.wanted.back();
  } else {
    while (block < reading.blocks.size() && reading.blocks[block] != Reading::Block::kWaits) {
      ++block;
    }
    reading.next = block;
    if (block == reading.blocks.size()) return std::nullopt;
  }
  reading.blocks[block] = Reading::Block::kIsRead;
  return block;
}

void HostQueue::EndBlock(const std::shared_ptr<HostJob>& job, size_t block) {
  const absl::MutexLock lock(&mu_);
  const auto found = reading_.find(job);
  if (found != reading_.end()) Leave(*job, &found->second, block, Reading::Block::kLeft);
}

std::optional<std::vector<size_t>> HostQueue::EndReading(const std::shared_ptr<HostJob>& job) {
  const absl::MutexLock lock(&mu_);
  if (!IsAdmitted(job)) return std::nullopt;
  std::vector<size_t> given_up;
  if (const auto found = reading_.find(job); found != reading_.end()) {
    const std::vector<Reading::Block>& blocks = found->second.blocks;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] == Reading::Block::kGivenUp) given_up.push_back(i);
    }
  }
  StopReading(job);
  job->MarkCopied();
  return given_up;
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
  if (!IsRead(slots)) return true;
  std::vector<bool> asked(readers_.size());
  for (const uint32_t slot : slots) asked[slot] = true;
  ReadFirst(asked);
  ++asking_;
  const auto free = [this, slots]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !IsRead(slots); };
  const bool copied = mu_.AwaitWithTimeout(absl::Condition(&free), timeout);
  --asking_;
  if (!copied) GiveUpBlocks(asked);
  return copied;
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
  copies.swap(copies_);  // They are destroyed without the lock.
  for (Jobs& jobs : jobs_) {
    const Jobs ended = jobs;
    for (const std::shared_ptr<HostJob>& job : ended) {
      EndWithoutResults(job, absl::CancelledError("lanes: they were closed before the job ended"));
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

bool HostQueue::HasWanted(Reading* reading) {
  std::vector<size_t>& wanted = reading->wanted;
  while (!wanted.empty() && reading->blocks[wanted.back()] != Reading::Block::kWaits) {
    wanted.pop_back();
  }
  return !wanted.empty();
}

std::unique_ptr<HostCopy> HostQueue::TakeNext() {
  auto& onboards = copies_[static_cast<size_t>(HostDirection::kOnboard)];
  auto& offloads = copies_[static_cast<size_t>(HostDirection::kOffload)];
  auto* copies = onboards.empty() ? &offloads : &onboards;
  auto next = copies->begin();
  if (asking_ > 0) {
    const auto is_wanted = [this](const std::unique_ptr<HostCopy>& copy)
                               ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                                 const auto found = reading_.find(copy->job());
                                 return found != reading_.end() && HasWanted(&found->second);
                               };
    const auto wanted = std::ranges::find_if(offloads, is_wanted);
    if (wanted != offloads.end()) {
      copies = &offloads;
      next = wanted;
    }
  }
  std::unique_ptr<HostCopy> copy = std::move(*next);
  copies->erase(next);
  return copy;
}

void HostQueue::ReadFirst(const std::vector<bool>& asked) {
  for (auto& [job, reading] : reading_) {
    for (size_t i = reading.blocks.size(); i-- > 0;) {
      const bool waits = reading.blocks[i] == Reading::Block::kWaits;
      if (waits && asked[job->slots()[i]]) reading.wanted.push_back(i);
    }
  }
}

void HostQueue::GiveUpBlocks(const std::vector<bool>& asked) {
  HostCopyStats& stats = stats_[static_cast<size_t>(HostDirection::kOffload)];
  std::vector<std::shared_ptr<HostJob>> ended;
  for (auto& [job, reading] : reading_) {
    std::vector<Reading::Block>& blocks = reading.blocks;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const bool read = blocks[i] == Reading::Block::kWaits || blocks[i] == Reading::Block::kIsRead;
      if (!read || !asked[job->slots()[i]]) continue;
      Leave(*job, &reading, i, Reading::Block::kGivenUp);
      ++stats.given_up_blocks;
    }
    const bool all = std::ranges::all_of(
        blocks, [](Reading::Block block) { return block == Reading::Block::kGivenUp; });
    if (all && !blocks.empty()) ended.push_back(job);
  }
  for (const auto& job : ended) EndWithoutResults(job, absl::AbortedError(kAskedBackText));
}

void HostQueue::Leave(const HostJob& job, Reading* reading, size_t block, Reading::Block after) {
  Reading::Block& state = reading->blocks[block];
  if (state != Reading::Block::kWaits && state != Reading::Block::kIsRead) return;
  state = after;
  --readers_[job.slots()[block]];
}

void HostQueue::StopReading(const std::shared_ptr<HostJob>& job) {
  const auto found = reading_.find(job);
  if (found == reading_.end()) return;
  Reading& reading = found->second;
  for (size_t i = 0; i < reading.blocks.size(); ++i) {
    Leave(*job, &reading, i, Reading::Block::kLeft);
  }
  reading_.erase(found);
}

void HostQueue::EndWithoutResults(const std::shared_ptr<HostJob>& job, const absl::Status& why) {
  jobs_[IndexOf(*job)].erase(job);
  StopReading(job);
  job->End(why, std::vector<bool>(job->slots().size()));
}

}  // namespace kvtier

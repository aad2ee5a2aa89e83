#include "client/host_lanes/host_onboard.h"

#include <algorithm>
#include <span>
#include <utility>

#include "client/client.h"
#include "core/clock.h"
#include "core/miss_reason.h"

namespace kvtier {

// PartCopy is the blocks of one part, in the order in which they are copied. Used by one thread at
// a time.
class HostOnboard::PartCopy final : public HostCopy {
 public:
  // Takes blocks of a call that requested the run from key `first` on.
  PartCopy(std::shared_ptr<HostOnboard> onboard, size_t first, OnboardedBlocks blocks)
      : HostCopy(onboard->job_),
        onboard_(std::move(onboard)),
        first_(first),
        blocks_(std::move(blocks)) {}

  uint64_t CopyNext(HostScratch* scratch) override {
    if (next_ == blocks_.size()) return 0;
    const size_t i = next_++;
    const size_t key = first_ + blocks_.key_index(i);
    const HostTensors& tensors = *onboard_->parts_.tensors;
    const absl::Status copied = tensors.CopyOut(blocks_, i, job()->slots()[key], scratch);
    onboard_->Note(key, copied);
    // The lease has ended, so all blocks of the part that are not copied yet are missing.
    if (absl::IsFailedPrecondition(copied)) next_ = blocks_.size();
    return tensors.block_bytes();
  }

  void Finish() override {
    blocks_ = OnboardedBlocks();  // Releases the leases, to make room for the next request.
    onboard_->EndOne();
  }

 private:
  const std::shared_ptr<HostOnboard> onboard_;
  const size_t first_;
  OnboardedBlocks blocks_;
  size_t next_ = 0;  // Next block to copy.
};

// NextCall requests the rest of the run. It runs on one of the lanes' own threads: only while these
// live is it sure that the client exists.
class HostOnboard::NextCall final : public HostCopy {
 public:
  NextCall(std::shared_ptr<HostOnboard> onboard, size_t first)
      : HostCopy(onboard->job_), onboard_(std::move(onboard)), first_(first) {}

  uint64_t CopyNext(HostScratch*) override { return 0; }
  void Finish() override {
    // If the maximum number of calls is running, the rest is missing.
    if (!onboard_->Request(first_).ok()) onboard_->EndJob();
  }

 private:
  const std::shared_ptr<HostOnboard> onboard_;
  const size_t first_;
};

absl::Status HostOnboard::Request(size_t first) {
  const KeySequence run = {.space = space_, .keys = std::span(keys_).subspan(first), .hint = hint_};
  {
    const absl::MutexLock lock(&mu_);
    open_ = 1;
    rest_.reset();
  }
  const absl::Duration left = deadline_ - MonotonicClock().Now();
  return parts_.client->SubmitOnboardParts(
      {&run, 1}, {.timeout = std::max(left, absl::ZeroDuration())},
      [onboard = shared_from_this(), first](OnboardedPart part) {
        onboard->Add(first, std::move(part.blocks));
      },
      [onboard = shared_from_this(), first](const std::vector<OnboardedInParts>& came) {
        onboard->EndCall(first, came.front());
      });
}

void HostOnboard::Add(size_t first, OnboardedBlocks blocks) {
  {
    const absl::MutexLock lock(&mu_);
    ++open_;
  }
  parts_.queue->Add(std::make_unique<PartCopy>(shared_from_this(), first, std::move(blocks)));
}

void HostOnboard::EndCall(size_t first, const OnboardedInParts& came) {
  {
    const absl::MutexLock lock(&mu_);
    if (came.missed == MissReason::kUnreachable && first < keys_.size()) {
      status_.Update(absl::UnavailableError(
          "onboard: the agent did not answer; try again later, or compute the blocks"));
    }
    if (came.missed == MissReason::kNoRoom && came.blocks > 0) rest_ = first + came.blocks;
  }
  EndOne();
}

void HostOnboard::Note(size_t key, const absl::Status& copied) {
  const absl::MutexLock lock(&mu_);
  if (copied.ok()) {
    arrived_[key] = true;
    return;
  }
  ++failed_;
  status_.Update(absl::IsFailedPrecondition(copied) ? absl::AbortedError(copied.message())
                                                    : copied);
}

void HostOnboard::EndOne() {
  std::optional<size_t> rest;
  {
    const absl::MutexLock lock(&mu_);
    if (--open_ > 0) return;
    if (status_.ok()) rest = rest_;
  }
  if (rest && MonotonicClock().Now() < deadline_) {
    parts_.queue->Add(std::make_unique<NextCall>(shared_from_this(), *rest));
  } else {
    EndJob();
  }
}

void HostOnboard::EndJob() {
  absl::Status status;
  std::vector<bool> arrived;
  uint64_t failed = 0;
  {
    const absl::MutexLock lock(&mu_);
    status = status_;
    arrived = arrived_;
    failed = failed_;
  }
  parts_.queue->End(job_, status, std::move(arrived), failed);
}

}  // namespace kvtier

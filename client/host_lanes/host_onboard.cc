#include "client/host_lanes/host_onboard.h"

#include <utility>

#include "core/miss_reason.h"

namespace kvtier {

// The blocks of one part, in the order in which they are copied. One thread at a time.
class HostOnboard::PartCopy final : public HostCopy {
 public:
  PartCopy(std::shared_ptr<HostOnboard> onboard, OnboardedBlocks blocks)
      : HostCopy(onboard->job_), onboard_(std::move(onboard)), blocks_(std::move(blocks)) {}

  uint64_t CopyNext(HostScratch* scratch) override {
    if (next_ == blocks_.size()) return 0;
    const size_t i = next_++;
    const size_t key = blocks_.key_index(i);
    const HostTensors& tensors = *onboard_->parts_.tensors;
    const absl::Status copied = tensors.CopyOut(blocks_, i, job()->slots()[key], scratch);
    onboard_->Note(key, copied);
    // The lease is over, and with it all of the part that is not copied yet.
    if (absl::IsFailedPrecondition(copied)) next_ = blocks_.size();
    return tensors.block_bytes();
  }

  void Finish() override { onboard_->EndOne(); }

 private:
  const std::shared_ptr<HostOnboard> onboard_;
  const OnboardedBlocks blocks_;
  size_t next_ = 0;  // Block that is copied next.
};

void HostOnboard::Add(OnboardedBlocks blocks) {
  {
    const absl::MutexLock lock(&mu_);
    ++open_;
  }
  parts_.queue->Add(std::make_unique<PartCopy>(shared_from_this(), std::move(blocks)));
}

void HostOnboard::EndParts(const OnboardedInParts& came) {
  if (came.missed == MissReason::kUnreachable && !job_->slots().empty()) {
    const absl::MutexLock lock(&mu_);
    status_.Update(absl::UnavailableError("onboard: no agent answered"));
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
  absl::Status status;
  std::vector<bool> arrived;
  uint64_t failed = 0;
  {
    const absl::MutexLock lock(&mu_);
    if (--open_ > 0) return;
    status = status_;
    arrived = arrived_;
    failed = failed_;
  }
  parts_.queue->End(job_, status, std::move(arrived), failed);
}

}  // namespace kvtier

#include "client/host_lanes/host_onboard.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace kvtier {

void HostOnboard::Begin(const HostParts& parts, std::shared_ptr<HostJob> job,
                        OnboardedBlocks blocks) {
  if (!blocks.empty()) {
    parts.queue->Add(absl::WrapUnique(new HostOnboard(parts, std::move(job), std::move(blocks))));
    return;
  }
  const bool unreachable = blocks.missed() == MissReason::kUnreachable && !job->slots().empty();
  const absl::Status status =
      unreachable ? absl::UnavailableError("onboard: no agent answered") : absl::OkStatus();
  std::vector<bool> none(job->slots().size());
  parts.queue->End(job, status, std::move(none), 0);
}

uint64_t HostOnboard::CopyNext(HostScratch* scratch) {
  if (next_ == blocks_.size()) return 0;
  const size_t i = next_++;
  const size_t key = blocks_.key_index(i);
  const absl::Status copied = parts_.tensors->CopyOut(blocks_, i, job()->slots()[key], scratch);
  if (copied.ok()) {
    arrived_[key] = true;
  } else {
    ++failed_;
    status_.Update(copied);
  }
  // The lease is over, and with it all that is not copied yet.
  if (absl::IsFailedPrecondition(copied)) next_ = blocks_.size();
  return parts_.tensors->block_bytes();
}

void HostOnboard::Finish() {
  const absl::Status status =
      absl::IsFailedPrecondition(status_) ? absl::AbortedError(status_.message()) : status_;
  parts_.queue->End(job(), status, std::move(arrived_), failed_);
}

}  // namespace kvtier

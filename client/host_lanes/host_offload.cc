#include "client/host_lanes/host_offload.h"

#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/stored_keys.h"
#include "core/check.h"

namespace kvtier {
void HostOffload::Begin(const HostParts& parts, std::shared_ptr<HostJob> job,
                        ReservedBlocks blocks) {
  if (blocks.reserved() > 0) {
    parts.queue->Add(absl::WrapUnique(new HostOffload(parts, std::move(job), std::move(blocks))));
    return;
  }
  const absl::Status status =
      blocks.answered() || job->slots().empty()
          ? absl::OkStatus()
          : absl::UnavailableError("offload: no agent answered, or it does not take the space");
  std::vector<bool> stored = StoredKeys(blocks, ReservedFate::kNotPublished);
  stored.resize(job->slots().size());
  parts.queue->End(job, status, std::move(stored), 0);
}

uint64_t HostOffload::CopyNext(HostScratch* scratch) {
  for (; next_ < blocks_.size(); ++next_) {
    if (blocks_.state(next_) != ReservedBlocks::State::kReserved) continue;
    const size_t i = next_++;
    const absl::Status copied = parts_.tensors->CopyIn(job()->slots()[i], i, &blocks_, scratch);
    if (copied.ok()) {
      ++copied_;
    } else {
      // The sizes are the space's, which Open() compared.
      KVT_CHECK(absl::IsOutOfRange(copied));
      blocks_.GiveBack(i);
      ++refused_;
    }
    return parts_.tensors->block_bytes();
  }
  return 0;
}

void HostOffload::Finish() {
  if (!parts_.queue->EndReading(job())) return;
  std::vector<bool> none = StoredKeys(blocks_, ReservedFate::kNotPublished);
  if (copied_ == 0) {
    return parts_.queue->End(job(), absl::OkStatus(), std::move(none), refused_);
  }
  std::vector<bool> all = StoredKeys(blocks_, ReservedFate::kPublished);
  auto ended = [queue = parts_.queue, job = job(), none, all = std::move(all), copied = copied_,
                refused = refused_](size_t published) mutable {
    if (published == copied) return queue->End(job, absl::OkStatus(), std::move(all), refused);
    // Which ones were published is not told.
    queue->End(job,
               absl::AbortedError(absl::StrCat("offload: ", published, " of ", copied,
                                               " blocks were published; the session or their "
                                               "reservations ended, or no agent answered")),
               std::move(none), copied + refused);
  };
  const absl::Status submitted = parts_.client->SubmitCommit(std::move(blocks_), std::move(ended));
  if (!submitted.ok()) parts_.queue->End(job(), submitted, std::move(none), copied_ + refused_);
}

}  // namespace kvtier

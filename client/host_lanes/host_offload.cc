#include "client/host_lanes/host_offload.h"

#include <optional>
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
    std::vector<size_t> unread;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks.state(i) != ReservedBlocks::State::kReserved) unread.push_back(i);
    }
    parts.queue->SkipBlocks(job, unread);
    parts.queue->Add(absl::WrapUnique(new HostOffload(parts, std::move(job), std::move(blocks))));
    return;
  }
  const absl::Status status = blocks.answered() || job->slots().empty()
                                  ? absl::OkStatus()
                                  : absl::UnavailableError(
                                        "offload: the agent did not answer, or does not take "
                                        "blocks of this space; try again later");
  std::vector<bool> stored = StoredKeys(blocks, ReservedFate::kNotPublished);
  stored.resize(job->slots().size());
  parts.queue->End(job, status, std::move(stored), 0);
}

uint64_t HostOffload::CopyNext(HostScratch* scratch) {
  const std::optional<size_t> block = parts_.queue->BeginBlock(job());
  if (!block) return 0;
  const absl::Status copied =
      parts_.tensors->CopyIn(job()->slots()[*block], *block, &blocks_, scratch);
  if (!copied.ok()) {
    // The sizes are the space's, which Open() compared, so no other error is possible.
    KVT_CHECK(absl::IsOutOfRange(copied));
    blocks_.GiveBack(*block);
    ++refused_;
  }
  parts_.queue->EndBlock(job(), *block);
  return parts_.tensors->block_bytes();
}

void HostOffload::Finish() {
  const std::optional<std::vector<size_t>> given_up = parts_.queue->EndReading(job());
  if (!given_up) return;
  for (const size_t block : *given_up) blocks_.GiveBack(block);
  const absl::Status status =
      given_up->empty() ? absl::OkStatus() : absl::AbortedError(kAskedBackText);
  const size_t copied = blocks_.reserved();  // All other blocks were given back.
  std::vector<bool> none = StoredKeys(blocks_, ReservedFate::kNotPublished);
  std::vector<bool> all = StoredKeys(blocks_, ReservedFate::kPublished);
  if (copied == 0) return parts_.queue->End(job(), status, std::move(all), refused_);
  auto ended = [queue = parts_.queue, job = job(), none, all = std::move(all), status, copied,
                refused = refused_](size_t published) mutable {
    if (published == copied) return queue->End(job, status, std::move(all), refused);
    // The answer does not say which ones were published.
    queue->End(job,
               absl::AbortedError(
                   absl::StrCat("offload: ", published, " of ", copied,
                                " blocks were published, because the session or their "
                                "reservations ended, or the agent did not answer; offload again")),
               std::move(none), copied + refused);
  };
  const absl::Status submitted = parts_.client->SubmitCommit(std::move(blocks_), std::move(ended));
  if (!submitted.ok()) parts_.queue->End(job(), submitted, std::move(none), copied + refused_);
}

}  // namespace kvtier

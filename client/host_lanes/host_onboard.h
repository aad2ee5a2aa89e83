// HostOnboard is an onboard from its call on: blocks come in parts as they become ready. Each is
// copied into its slot, decoded if the space has a codec, and proven by the sum in its lease, while
// the rest is still on its way from a disk or another node.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/key_sequence.h"
#include "client/onboarded_blocks.h"
#include "client/onboarded_part.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier {

// HostOnboard is owned by its calls and copies. Thread-safe: with several threads, parts of one job
// are copied at the same time.
class HostOnboard final : public std::enable_shared_from_this<HostOnboard> {
 public:
  // Makes an onboard of `run` by `deadline`, with one block for each slot of the job.
  HostOnboard(const HostParts& parts, std::shared_ptr<HostJob> job, const KeySequence& run,
              absl::Time deadline)
      : parts_(parts),
        job_(std::move(job)),
        space_(run.space),
        hint_(run.hint),
        keys_(run.keys.begin(), run.keys.end()),
        deadline_(deadline),
        arrived_(keys_.size()) {}
  HostOnboard(const HostOnboard&) = delete;
  HostOnboard& operator=(const HostOnboard&) = delete;

  // Requests the blocks; none was requested before. Never blocks. Errors: as
  // Client::SubmitOnboardParts(), in which case nothing was begun.
  absl::Status Begin() { return Request(0); }

 private:
  class PartCopy;
  class NextCall;

  // Requests the run from key `first` on.
  absl::Status Request(size_t first);
  // Queues the copies of blocks that are ready; the call requested the run from key `first` on.
  void Add(size_t first, OnboardedBlocks blocks) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that no more blocks follow in the call that requested the run from key `first` on.
  void EndCall(size_t first, const OnboardedInParts& came) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes the outcome for the block of a key.
  void Note(size_t key, const absl::Status& copied) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that one of the parts, or the call, has nothing more to add. After the last of them,
  // requests the rest or ends the job.
  void EndOne() ABSL_LOCKS_EXCLUDED(mu_);
  void EndJob() ABSL_LOCKS_EXCLUDED(mu_);

  const HostParts parts_;
  const std::shared_ptr<HostJob> job_;
  const SpaceHandle space_;
  const ReuseHint hint_;
  const std::vector<EngineKey> keys_;
  const absl::Time deadline_;
  absl::Mutex mu_;
  size_t open_ ABSL_GUARDED_BY(mu_) = 0;  // Parts not yet copied, plus 1 until the call ends.
  std::vector<bool> arrived_ ABSL_GUARDED_BY(mu_);  // Whether the block of each key has arrived.
  // First key of the rest, for which there was no room. Absent: nothing more is requested.
  std::optional<size_t> rest_ ABSL_GUARDED_BY(mu_);
  uint64_t failed_ ABSL_GUARDED_BY(mu_) = 0;  // Number of blocks that were copied and not proven.
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // Status of the first of them, or of the call.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

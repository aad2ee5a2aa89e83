// HostOnboard is the way of one onboard behind its call: blocks come in parts as they become ready,
// and each is copied into its slot, decoded where the space has a codec, and proven by the sum that
// its lease carries, while the rest is still on its way from a disk or another node.
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

// Owned by its calls and copies. Thread-safe: with several threads, parts of one job are copied at
// the same time.
class HostOnboard final : public std::enable_shared_from_this<HostOnboard> {
 public:
  // The run is brought by `deadline`, one block for each slot of the job.
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

  // Asks for the blocks; none was asked for yet. Never waits. Errors: as
  // Client::SubmitOnboardParts(), and then nothing was begun.
  absl::Status Begin() { return Ask(0); }

 private:
  class PartCopy;
  class NextCall;

  // Asks for the run from key `first` on.
  absl::Status Ask(size_t first);
  // Queues the copies of blocks that are ready, of a call that asked from key `first` on.
  void Add(size_t first, OnboardedBlocks blocks) ABSL_LOCKS_EXCLUDED(mu_);
  // No more blocks follow of the call that asked from key `first` on.
  void EndCall(size_t first, const OnboardedInParts& came) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes what became of the block of a key.
  void Note(size_t key, const absl::Status& copied) ABSL_LOCKS_EXCLUDED(mu_);
  // One of the parts, or the call, has nothing more to add; behind the last of them the rest is
  // asked for, or the job ends.
  void EndOne() ABSL_LOCKS_EXCLUDED(mu_);
  void EndJob() ABSL_LOCKS_EXCLUDED(mu_);

  const HostParts parts_;
  const std::shared_ptr<HostJob> job_;
  const SpaceHandle space_;
  const ReuseHint hint_;
  const std::vector<EngineKey> keys_;
  const absl::Time deadline_;
  absl::Mutex mu_;
  size_t open_ ABSL_GUARDED_BY(mu_) = 0;            // Parts that are not copied, and the call.
  std::vector<bool> arrived_ ABSL_GUARDED_BY(mu_);  // By key.
  // First key of the rest that there was no room for. Absent: nothing is asked for any more.
  std::optional<size_t> rest_ ABSL_GUARDED_BY(mu_);
  uint64_t failed_ ABSL_GUARDED_BY(mu_) = 0;  // Blocks that were copied and not proven.
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // Of the first of them, or of the call.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

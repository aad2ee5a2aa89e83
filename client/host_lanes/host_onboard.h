// HostOnboard is the way of one onboard behind its call: blocks come in parts as they become ready,
// and each is copied into its slot, decoded where the space has a codec, and proven by the sum that
// its lease carries, while the rest is still on its way from a disk or another node.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/onboarded_blocks.h"
#include "client/onboarded_part.h"

namespace kvtier {

// Thread-safe: with several threads, parts of one job are copied at the same time.
class HostOnboard final : public std::enable_shared_from_this<HostOnboard> {
 public:
  HostOnboard(const HostParts& parts, std::shared_ptr<HostJob> job)
      : parts_(parts), job_(std::move(job)), arrived_(job_->slots().size()) {}
  HostOnboard(const HostOnboard&) = delete;
  HostOnboard& operator=(const HostOnboard&) = delete;

  // Queues the copies of blocks that are ready. Never waits.
  void Add(OnboardedBlocks blocks) ABSL_LOCKS_EXCLUDED(mu_);
  // No blocks follow: the job ends behind the copies of those that came. Never waits. Once.
  void EndParts(const OnboardedInParts& came) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class PartCopy;

  // Notes what became of the block of a key.
  void Note(size_t key, const absl::Status& copied) ABSL_LOCKS_EXCLUDED(mu_);
  // One of the parts, or the call, has nothing more to add; the last of them ends the job.
  void EndOne() ABSL_LOCKS_EXCLUDED(mu_);

  const HostParts parts_;
  const std::shared_ptr<HostJob> job_;
  absl::Mutex mu_;
  size_t open_ ABSL_GUARDED_BY(mu_) = 1;            // Parts that are not copied, and the call.
  std::vector<bool> arrived_ ABSL_GUARDED_BY(mu_);  // By key.
  uint64_t failed_ ABSL_GUARDED_BY(mu_) = 0;        // Blocks that were copied and not proven.
  absl::Status status_ ABSL_GUARDED_BY(mu_);        // Of the first of them, or of the call.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

// HostOnboard is the way of one onboard behind its lease: each block is copied into its slot,
// decoded where the space has a codec, and proven by the sum that the lease carries.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/onboarded_blocks.h"

namespace kvtier {

// One thread at a time.
class HostOnboard final : public HostCopy {
 public:
  // Goes on with an onboard that was answered `blocks`: queues its copies, or ends the job where
  // there is nothing to copy. Never waits.
  static void Begin(const HostParts& parts, std::shared_ptr<HostJob> job, OnboardedBlocks blocks);

  uint64_t CopyNext(HostScratch* scratch) override;
  void Finish() override;

 private:
  HostOnboard(const HostParts& parts, std::shared_ptr<HostJob> job, OnboardedBlocks blocks)
      : HostCopy(std::move(job)),
        parts_(parts),
        blocks_(std::move(blocks)),
        arrived_(this->job()->slots().size()) {}

  const HostParts parts_;
  const OnboardedBlocks blocks_;
  size_t next_ = 0;            // Block that is copied next.
  std::vector<bool> arrived_;  // By key.
  uint64_t failed_ = 0;        // Blocks that were copied and not proven.
  absl::Status status_;        // Of the first of them.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_ONBOARD_H_

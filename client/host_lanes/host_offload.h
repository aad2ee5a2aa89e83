// HostOffload is the way of one offload behind its reserve: the blocks that got a slot are copied
// into it, encoded where the space has a codec, and then published by one commit, those that were
// given up meanwhile excepted.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/reserved_blocks.h"

namespace kvtier {

// One thread at a time.
class HostOffload final : public HostCopy {
 public:
  // Goes on with an offload that was answered `blocks`: queues its copies, or ends the job where
  // there is nothing to copy. Never waits.
  static void Begin(const HostParts& parts, std::shared_ptr<HostJob> job, ReservedBlocks blocks);

  uint64_t CopyNext(HostScratch* scratch) override;
  void Finish() override;

 private:
  HostOffload(const HostParts& parts, std::shared_ptr<HostJob> job, ReservedBlocks blocks)
      : HostCopy(std::move(job)), parts_(parts), blocks_(std::move(blocks)) {}

  const HostParts parts_;
  ReservedBlocks blocks_;
  size_t refused_ = 0;  // Blocks so far that the codec does not make smaller.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_

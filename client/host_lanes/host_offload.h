// HostOffload is an offload after its reserve: the blocks that got a slot are copied into it,
// encoded if the space has a codec, and then published by one commit, except for those that were
// given up meanwhile.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/reserved_blocks.h"

namespace kvtier {

// HostOffload copies the blocks of one job. Used by one thread at a time.
class HostOffload final : public HostCopy {
 public:
  // Continues an offload whose reserve returned `blocks`: queues its copies, or ends the job if
  // there is nothing to copy. Never blocks.
  static void Begin(const HostParts& parts, std::shared_ptr<HostJob> job, ReservedBlocks blocks);

  uint64_t CopyNext(HostScratch* scratch) override;
  void Finish() override;

 private:
  HostOffload(const HostParts& parts, std::shared_ptr<HostJob> job, ReservedBlocks blocks)
      : HostCopy(std::move(job)), parts_(parts), blocks_(std::move(blocks)) {}

  const HostParts parts_;
  ReservedBlocks blocks_;
  size_t refused_ = 0;  // Number of blocks so far that the codec does not make smaller.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_OFFLOAD_H_

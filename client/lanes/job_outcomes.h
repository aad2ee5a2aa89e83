// JobOutcomes are the words in which the device says what became of the blocks of one job
// that it encoded or decoded: pinned memory, the job's own.
#ifndef KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_
#define KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// The lanes' thread only.
class JobOutcomes {
 public:
  // `ends`, of each batch, in blocks, as BlockPlan has them; at least one. Errors:
  // Device::Pin()'s.
  static absl::StatusOr<std::shared_ptr<JobOutcomes>> Create(Device* device,
                                                             std::span<const size_t> ends);
  // REQUIRES: no batch of the job runs.
  ~JobOutcomes();
  JobOutcomes(const JobOutcomes&) = delete;
  JobOutcomes& operator=(const JobOutcomes&) = delete;

  BlockOutcomes* of_batch(size_t batch) { return &batches_[batch]; }
  // Of a block, by its number in the job. REQUIRES: its batch has ended.
  const kernels::CodecOutcome& of(size_t block) const;

 private:
  JobOutcomes(Device* device, std::span<std::byte> bytes, std::span<const size_t> ends);

  Device* const device_;
  const std::span<std::byte> bytes_;  // Whole pages, pinned.
  BlockOutcomes* const batches_;      // What lies there.
  const std::vector<size_t> ends_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_

// JobOutcomes are the words in which the device says what became of the blocks of one job
// that it encoded or decoded: the job's part of the slab.
#ifndef KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_
#define KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/outcome_slab.h"
#include "tier_gpu/device/block_batch.h"

namespace kvtier {

// The lanes' thread only.
class JobOutcomes {
 public:
  // `ends`, of each batch, in blocks, as BlockPlan has them. `slab` is not owned. Errors:
  // OutcomeSlab::Take()'s.
  static absl::StatusOr<std::shared_ptr<JobOutcomes>> Take(OutcomeSlab* slab,
                                                           CopyDirection direction,
                                                           std::span<const size_t> ends);
  // REQUIRES: no batch of the job runs.
  ~JobOutcomes();
  JobOutcomes(const JobOutcomes&) = delete;
  JobOutcomes& operator=(const JobOutcomes&) = delete;

  BlockOutcomes* of_batch(size_t batch) { return batches_[batch]; }
  // Of a block, by its number in the job. REQUIRES: its batch has ended.
  const kernels::CodecOutcome& of(size_t block) const;

 private:
  JobOutcomes(OutcomeSlab* slab, CopyDirection direction, std::vector<BlockOutcomes*> batches,
              std::span<const size_t> ends);

  OutcomeSlab* const slab_;
  const CopyDirection direction_;
  const std::vector<BlockOutcomes*> batches_;
  const std::vector<size_t> ends_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_OUTCOMES_H_

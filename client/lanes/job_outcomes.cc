#include "client/lanes/job_outcomes.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::shared_ptr<JobOutcomes>> JobOutcomes::Take(OutcomeSlab* slab,
                                                               CopyDirection direction,
                                                               std::span<const size_t> ends) {
  KVT_ASSIGN_OR_RETURN(std::vector<BlockOutcomes*> batches, slab->Take(direction, ends.size()));
  return absl::WrapUnique(new JobOutcomes(slab, direction, std::move(batches), ends));
}

JobOutcomes::JobOutcomes(OutcomeSlab* slab, CopyDirection direction,
                         std::vector<BlockOutcomes*> batches, std::span<const size_t> ends)
    : slab_(slab),
      direction_(direction),
      batches_(std::move(batches)),
      ends_(ends.begin(), ends.end()) {}

JobOutcomes::~JobOutcomes() { slab_->GiveBack(direction_, batches_); }

const kernels::CodecOutcome& JobOutcomes::of(size_t block) const {
  const auto batch = static_cast<size_t>(std::ranges::upper_bound(ends_, block) - ends_.begin());
  KVT_CHECK(batch < ends_.size());
  const size_t first = batch == 0 ? 0 : ends_[batch - 1];
  return batches_[batch]->codecs[block - first];
}

}  // namespace kvtier

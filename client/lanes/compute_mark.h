// ComputeMark says when the compute that writes, or still reads, a worker's slots has ended.
#ifndef KVTIER_CLIENT_LANES_COMPUTE_MARK_H_
#define KVTIER_CLIENT_LANES_COMPUTE_MARK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lanes/worker_lanes.h"
#include "core/task.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

// Mark of compute on slots: the lanes may touch the slots once the word is `value` or more. Null
// word: they may now.
struct ComputeMark {
  const SignalWord* word = nullptr;
  uint64_t value = 0;
  std::shared_ptr<const void> keep{};  // Owner of the word; kept until the job has ended.
};

// Waits until the mark is reached. The wait happens here and not in the lane, because compute that
// never ends would hold up the lane for all others. The lanes' thread only. Errors:
// kDeadlineExceeded, it was not reached within `timeout`; kAborted, its writer is gone.
Task<absl::Status> AwaitMark(const LaneParts& parts, const ComputeMark& mark,
                             absl::Duration timeout);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_COMPUTE_MARK_H_

// JobHooks tell the steps of a job to whoever keeps a state of its own for it.
#ifndef KVTIER_CLIENT_LANES_JOB_HOOKS_H_
#define KVTIER_CLIENT_LANES_JOB_HOOKS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lanes/lane_job.h"

namespace kvtier {

struct JobEnd {
  absl::Status status{};  // As LaneJob::status(); and kUnavailable, no agent answered.
  // By key. Of an offload: it is in host memory. Of an onboard: it is in its slot.
  std::vector<bool> results{};
  size_t copied = 0;         // Blocks whose bytes were moved, whatever became of them.
  size_t failed = 0;         // Of these, the ones that were moved for nothing.
  absl::Duration copying{};  // From the submission of the copies to their end.
};

// All are called on the lanes' thread, must not block, and may be null.
struct JobHooks {
  // The slots of an offload are not read any more. Returns the blocks, by the order of the keys,
  // that were asked back while they were, and are not published. Nullopt: nothing of the job is.
  std::function<std::optional<std::vector<size_t>>()> copied{};
  // All copies of an onboard are submitted, and the mark is reached behind them.
  std::function<void(const LayerMark& behind)> submitted{};
  // The job has ended; behind all others.
  std::function<void(JobEnd end)> ended{};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_HOOKS_H_

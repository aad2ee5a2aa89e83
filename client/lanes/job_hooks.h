// JobHooks report the steps of a job to an owner that keeps state of its own for it.
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
  absl::Status status{};  // LaneJob::status(), or kUnavailable: no agent answered.
  // Outcomes by key: of an offload, whether the block is in host memory; of an onboard, whether the
  // block is in its slot.
  std::vector<bool> results{};
  size_t copied = 0;         // Number of blocks whose bytes were copied, whatever the outcome.
  size_t failed = 0;         // Number of these that were copied in vain.
  absl::Duration copying{};  // Time from the submission of the copies to their end.
};

// Callbacks of a job. All are called on the lanes' thread, must not block, and may be null.
struct JobHooks {
  // Called when the slots of an offload are not read any more. Returns the blocks, by the order of
  // the keys, that were asked back meanwhile, and are not published. Nullopt: nothing of the job is
  // published.
  std::function<std::optional<std::vector<size_t>>()> copied{};
  // Called when all copies of an onboard are submitted, with the mark that is reached after them.
  std::function<void(const LayerMark& behind)> submitted{};
  // Called when the job has ended, after all others.
  std::function<void(JobEnd end)> ended{};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_HOOKS_H_

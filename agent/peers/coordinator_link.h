// CoordinatorLink is the seam to the coordinator (law 9). Its answers are hints, and callers go on
// without them when it fails.
#ifndef KVTIER_AGENT_PEERS_COORDINATOR_LINK_H_
#define KVTIER_AGENT_PEERS_COORDINATOR_LINK_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/report.h"
#include "core/task.h"

namespace kvtier {

// Executor thread only. Every call ends by its deadline. Errors: kUnavailable,
// kDeadlineExceeded, kFailedPrecondition (protocol versions do not overlap).
class CoordinatorLink {
 public:
  virtual ~CoordinatorLink() = default;
  virtual Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) = 0;
  virtual Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time deadline) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_COORDINATOR_LINK_H_

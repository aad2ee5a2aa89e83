// LessonsStore stores what the orders of eviction have learnt, so that it outlasts the agent: in a
// file (LessonsFile), or in a fake of tests.
#ifndef KVTIER_AGENT_INDEX_LESSONS_STORE_H_
#define KVTIER_AGENT_INDEX_LESSONS_STORE_H_

#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/task.h"

namespace kvtier {

// EncodeReuseLessons() of each order, by the order's name.
using LessonsByOrder = absl::btree_map<std::string, std::string>;

// Executor thread only; one call at a time.
class LessonsStore {
 public:
  virtual ~LessonsStore() = default;
  // Returns what was saved last; empty: nothing was. Errors: kDataLoss, it is damaged;
  // kFailedPrecondition, another version saved it; kUnavailable, it cannot be read.
  virtual Task<absl::StatusOr<LessonsByOrder>> Load() = 0;
  // Replaces what was saved, as a whole: a crash leaves the old or the new. Errors:
  // kResourceExhausted, there is no room; kUnavailable: try again later.
  virtual Task<absl::Status> Save(LessonsByOrder lessons) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_LESSONS_STORE_H_

// KeepAbandoned() keeps what a copy uses that a lost device gave up and may still run: for as
// long as the process lives, which is how long its agent gives none of it to others. A
// reservation that is not given back stays the worker's, and a step that does not end holds
// slots of the GPU pool.
#ifndef KVTIER_CLIENT_LANES_ABANDONED_JOB_H_
#define KVTIER_CLIENT_LANES_ABANDONED_JOB_H_

#include <tuple>
#include <utility>

#include "absl/debugging/leak_check.h"

namespace kvtier {

template <typename... Uses>
void KeepAbandoned(Uses... uses) {
  absl::IgnoreLeak(new std::tuple<Uses...>(std::move(uses)...));
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ABANDONED_JOB_H_

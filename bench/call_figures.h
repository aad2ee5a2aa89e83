// Measures the cost of a worker's calls beside an empty call of gRPC itself: ping, match, onboard
// and release, commit with sums; and how many blocks one core of the agent looks up in a second.
#ifndef KVTIER_BENCH_CALL_FIGURES_H_
#define KVTIER_BENCH_CALL_FIGURES_H_

#include <string>

#include "absl/status/status.h"
#include "bench/caller.h"
#include "bench/node_process.h"

namespace kvtier::bench {

// Prints a figure for each call, through a client of its own. Our call and the empty call
// alternate, and medians count. REQUIRES: the agent's host memory has room for 256 MiB of blocks.
// Errors: kUnavailable, the agent did not answer as it must.
absl::Status PrintCallFigures(const NodeProcess& node);

// Prints a figure for each call, "NAME.CALL": the call's time on `many`'s node, and its ratio to
// the time on `one`'s node. Both are called in turns. Errors: as above.
absl::Status PrintTenantsFigures(const std::string& name, Caller* many, Caller* one);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_CALL_FIGURES_H_

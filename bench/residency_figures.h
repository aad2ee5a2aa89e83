// Measures the cost of a look at the residency table beside an empty call to the agent, in C++ and
// in C.
#ifndef KVTIER_BENCH_RESIDENCY_FIGURES_H_
#define KVTIER_BENCH_RESIDENCY_FIGURES_H_

#include <string>

#include "absl/status/status.h"

namespace kvtier::bench {

// Puts 1,000 small blocks on the node of the agent at `socket_dir`. Then prints, in microseconds,
// node.residency[.c].absent_key, one key that is not here, and node.residency[.c].run_1000, a run
// of 1,000 that are, with the ratio to an empty call of the same client. Errors: kUnavailable, no
// agent, or the table is wrong.
absl::Status PrintResidencyFigures(const std::string& socket_dir);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_RESIDENCY_FIGURES_H_

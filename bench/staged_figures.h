// Measures puts where workers are not trusted with the arena: the copy into the session's region,
// and the agent's copy from there, beside a plain copy of the same bytes.
#ifndef KVTIER_BENCH_STAGED_FIGURES_H_
#define KVTIER_BENCH_STAGED_FIGURES_H_

#include "absl/status/status.h"

namespace kvtier::bench {

// Starts an agent in staged mode with one thread for bytes, and prints the figures of its copy at
// commit, and of CopyIn() and commit together. Errors: kUnavailable, the agent did not answer as it
// must.
absl::Status PrintStagedFigures();

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_STAGED_FIGURES_H_

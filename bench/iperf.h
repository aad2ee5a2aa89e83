// Runs iperf3 over loopback, the reference for what TCP can do here.
#ifndef KVTIER_BENCH_IPERF_H_
#define KVTIER_BENCH_IPERF_H_

#include "absl/status/statusor.h"

namespace kvtier::bench {

// Bytes per second of one stream for `seconds`. Errors: kNotFound, iperf3 is not
// installed; kUnavailable, it failed or answered something else than expected.
absl::StatusOr<double> RunIperf(int seconds);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_IPERF_H_

// Runs iperf3 over loopback, the reference for the speed of TCP on this machine.
#ifndef KVTIER_BENCH_IPERF_H_
#define KVTIER_BENCH_IPERF_H_

#include "absl/status/statusor.h"

namespace kvtier::bench {

// Returns the bytes per second of one stream over `seconds`. Errors: kNotFound, iperf3 is not
// installed; kUnavailable, it failed or gave an unexpected result.
absl::StatusOr<double> RunIperf(int seconds);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_IPERF_H_

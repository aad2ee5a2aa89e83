// The workloads that benchmarks generate where they are given no trace.
#ifndef KVTIER_BENCH_WORKLOADS_H_
#define KVTIER_BENCH_WORKLOADS_H_

#include <span>

#include "absl/strings/string_view.h"
#include "bench/trace.h"

namespace kvtier::bench {

struct Workload {
  const char* name;
  const char* description;
  // Returns the same trace at every call, named after the workload.
  Trace (*generate)();
};

// Returns all workloads; the first is the one to take where nothing else is asked for.
std::span<const Workload> Workloads();
// Returns the workload of this name; null: there is none.
const Workload* FindWorkload(absl::string_view name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_WORKLOADS_H_

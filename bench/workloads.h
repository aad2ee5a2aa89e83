// The workloads that benchmarks generate where they are given no trace.
#ifndef KVTIER_BENCH_WORKLOADS_H_
#define KVTIER_BENCH_WORKLOADS_H_

#include <span>

#include "absl/strings/string_view.h"
#include "bench/trace.h"
#include "bench/trace_generator.h"

namespace kvtier::bench {

// Sessions of one kind that start at random times of a part of the workload.
struct SessionGroup {
  const SessionKind* kind = nullptr;
  int count = 0;
  int begin = 0;  // Both in twentieths of the workload's time.
  int end = 20;
};

struct Workload {
  const char* name;
  const char* description;
  std::span<const SessionGroup> groups;

  // Returns the same trace at every call, named after the workload.
  Trace Generate() const;
};

// Returns all workloads; the first is the one to take where nothing else is asked for.
std::span<const Workload> Workloads();
// Returns the workload of this name; null: there is none.
const Workload* FindWorkload(absl::string_view name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_WORKLOADS_H_

// Defines the workloads that benchmarks generate if they are given no trace.
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
  int begin = 0;  // Begin and end, in twentieths of the workload's time.
  int end = 20;
};

struct Workload {
  const char* name;
  const char* description;
  std::span<const SessionGroup> groups;

  // Returns the trace, which is the same at every call and is named after the workload.
  Trace Generate() const;
};

// Returns all workloads; the first is the default.
std::span<const Workload> Workloads();
// Returns the workload of this name; null: there is none.
const Workload* FindWorkload(absl::string_view name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_WORKLOADS_H_

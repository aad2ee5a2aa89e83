// Makes a trace for those who have none: chat of several turns over a few shared
// system prompts, and agents that call tools in quick succession. Its shape follows
// published traces in kind (most chats end after a turn or two, an agent goes on for
// dozens); its figures stand for no service.
#ifndef KVTIER_BENCH_TRACE_GENERATOR_H_
#define KVTIER_BENCH_TRACE_GENERATOR_H_

#include <cstdint>

#include "bench/trace.h"

namespace kvtier::bench {

struct GeneratorOptions {
  uint64_t seed = 1;
  absl::Duration span = absl::Hours(2);  // In which sessions start.
  int chats = 6000;
  int agents = 12;
};

// The same options make the same trace on every machine.
Trace GenerateTrace(const GeneratorOptions& options);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TRACE_GENERATOR_H_

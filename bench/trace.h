// Trace is a recorded or generated stream of requests, each with the blocks of its prefix: the
// requests to a cache, without any bytes.
#ifndef KVTIER_BENCH_TRACE_H_
#define KVTIER_BENCH_TRACE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier::bench {

inline constexpr uint64_t kTokensPerBlock = 512;
inline constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();

struct TraceRequest {
  absl::Duration at;             // Time since the first request.
  uint64_t tokens = 0;           // Length of the prompt, including a partial last block.
  std::vector<uint32_t> blocks;  // Numbers of its blocks, from the root.
  // Hint that an engine could give. Its conversation is the number of the session in the trace,
  // from 1; a sub-agent has its own. nullopt: the trace has no sessions.
  std::optional<ReuseHint> hint;
};

struct Trace {
  std::string name;
  std::vector<TraceRequest> requests;  // Requests in order of time.
  std::vector<uint32_t> parents;       // Parent of each block; kNoBlock: a root.
  // Returns the time from the first request until 19 of 20 have come, because a few sessions may go
  // on for days.
  absl::Duration BusySpan() const;
};

// Returns the key of a block of a trace, spread like the hashes of which real keys are made.
BlockKey KeyOf(uint32_t block);
// Returns the block that has this key. REQUIRES: KeyOf() made it.
uint32_t BlockOf(const BlockKey& key);

// TraceBuilder builds a trace from blocks with any 64-bit names.
class TraceBuilder {
 public:
  explicit TraceBuilder(absl::string_view name) { trace_.name = std::string(name); }
  // Adds a request. Errors: kInvalidArgument, a block has another parent than before: its name does
  // not identify its whole prefix, and hits on it would be false.
  absl::Status Add(absl::Duration at, uint64_t tokens, std::span<const uint64_t> blocks,
                   const std::optional<ReuseHint>& hint = std::nullopt);
  // Returns the trace, with requests in order of time, counted from the first one.
  Trace Finish() &&;

 private:
  Trace trace_;
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TRACE_H_

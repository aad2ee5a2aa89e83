// Small traces for tests of caches that replay them.
#ifndef KVTIER_TESTS_BENCH_SMALL_TRACES_H_
#define KVTIER_TESTS_BENCH_SMALL_TRACES_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/policy/policies.h"
#include "core/check.h"

namespace kvtier::bench {

// Returns a trace of these requests, one a second, of full blocks.
inline Trace TraceOf(const std::vector<std::vector<uint64_t>>& requests) {
  TraceBuilder trace("small");
  absl::Duration at;
  for (const std::vector<uint64_t>& blocks : requests) {
    KVT_CHECK(trace.Add(at, blocks.size() * kTokensPerBlock, blocks).ok());
    at += absl::Seconds(1);
  }
  return std::move(trace).Finish();
}

// Returns a trace of requests for one block each, which its letter names.
inline Trace TraceOfLetters(absl::string_view letters) {
  std::vector<std::vector<uint64_t>> requests;
  for (const char letter : letters) requests.push_back({static_cast<uint64_t>(letter)});
  return TraceOf(requests);
}

// Returns requests for random paths in a random tree of `blocks` blocks, the root of which is
// one of a few.
inline Trace RandomTrace(uint64_t blocks, size_t requests, std::mt19937_64* random) {
  std::vector<std::vector<uint64_t>> paths;
  for (uint64_t block = 0; block < blocks; ++block) {
    std::vector<uint64_t> path;
    if (block > 2) path = paths[(*random)() % block];
    path.push_back(block);
    paths.push_back(std::move(path));
  }
  std::vector<std::vector<uint64_t>> asked;
  for (size_t i = 0; i < requests; ++i) asked.push_back(paths[(*random)() % blocks]);
  return TraceOf(asked);
}

// Returns 'h' for each request of the trace that hits its first block, and '-' for the others.
inline std::string HitsOf(const Trace& trace, ReplayedCache* cache) {
  std::string hits;
  for (const TraceRequest& request : trace.requests) {
    hits.push_back(cache->Request(request) > 0 ? 'h' : '-');
  }
  return hits;
}
inline std::string HitsOf(absl::string_view policy, size_t capacity, absl::string_view letters) {
  const Trace trace = TraceOfLetters(letters);
  return HitsOf(trace, FindPolicy(policy)->make(trace, capacity, 0).get());
}

}  // namespace kvtier::bench

#endif  // KVTIER_TESTS_BENCH_SMALL_TRACES_H_

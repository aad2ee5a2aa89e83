// bench: gpu_eviction - hits of a GPU pool: blocks leave by what their room is worth, beside LRU
//
// Replays traces through a pool that holds a share of the trace's blocks, with the real
// ReuseLeaves and, in the same run, LruLeaves. A request hits its longest prefix that is
// there; then all of it is. Transfers take no time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/figure.h"
#include "bench/trace.h"
#include "bench/trace_file.h"
#include "bench/trace_generator.h"
#include "core/lru_leaves.h"
#include "core/reuse_leaves.h"

namespace kvtier::bench {
namespace {

constexpr double kPercents[] = {0.5, 1, 2, 5, 10, 20};

// Any key that no other number has; spread, as the keys of blocks are.
BlockKey KeyOf(uint32_t block) {
  const uint64_t spread = (block + 1) * uint64_t{0x9e3779b97f4a7c15};
  return {.hi = spread ^ (spread >> 31), .lo = (spread * 31) ^ (spread >> 29)};
}

void Add(const BlockKey& key, const std::optional<BlockKey>& parent, LruLeaves* leaves) {
  leaves->Insert(key, parent);
}
void Add(const BlockKey& key, const std::optional<BlockKey>& parent, ReuseLeaves* leaves) {
  leaves->Insert(key, parent, Arrival::kComputed);
}

// The share of all blocks asked for that was there, in percent.
template <typename Leaves>
double HitPercent(const Trace& trace, size_t capacity) {
  Leaves leaves;
  uint64_t hits = 0;
  uint64_t asked = 0;
  for (const TraceRequest& request : trace.requests) {
    std::vector<BlockKey> keys;
    keys.reserve(request.blocks.size());
    for (const uint32_t block : request.blocks) keys.push_back(KeyOf(block));
    asked += keys.size();
    size_t there = 0;
    while (there < keys.size() && leaves.Contains(keys[there])) ++there;
    hits += there;
    keys.resize(std::min(keys.size(), capacity));  // A longer one does not fit.
    std::vector<BlockKey> held;
    for (const BlockKey& key : keys) {
      if (!leaves.Contains(key)) continue;
      leaves.Hold(key);
      held.push_back(key);
    }
    for (auto key = held.rbegin(); key != held.rend(); ++key) leaves.Touch(*key);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (leaves.Contains(keys[i])) continue;
      if (leaves.size() == capacity) {
        const std::optional<BlockKey> victim = leaves.Victim();
        if (!victim) break;
        leaves.Erase(*victim);
      }
      Add(keys[i], i == 0 ? std::nullopt : std::optional<BlockKey>(keys[i - 1]), &leaves);
      leaves.Hold(keys[i]);
      held.push_back(keys[i]);
    }
    for (const BlockKey& key : held) leaves.Unhold(key);
  }
  return asked == 0 ? 0 : 100 * static_cast<double>(hits) / static_cast<double>(asked);
}

void Measure(const Trace& trace,
             std::vector<std::pair<std::string, std::pair<double, double>>>* figures) {
  std::printf("\n%s: %zu requests, %zu blocks\n", trace.name.c_str(), trace.requests.size(),
              trace.parents.size());
  std::printf("%10s %8s %8s %7s\n", "pool", "worth %", "LRU %", "ratio");
  for (const double percent : kPercents) {
    const auto capacity =
        static_cast<size_t>(static_cast<double>(trace.parents.size()) * percent / 100);
    if (capacity == 0) continue;
    const double worth = HitPercent<ReuseLeaves>(trace, capacity);
    const double lru = HitPercent<LruLeaves>(trace, capacity);
    std::printf("%8.3g %% %8.2f %8.2f %7.3f\n", percent, worth, lru, lru > 0 ? worth / lru : 0);
    std::fflush(stdout);
    figures->push_back({absl::StrFormat("gpu_eviction.%s.%g", trace.name, percent), {worth, lru}});
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; i += 2) {
    if (absl::string_view(argv[i]) != "--trace" || i + 1 == argc) {
      std::fprintf(stderr, "usage: bench_gpu_eviction [--trace FILE]...\n");
      return 2;
    }
    paths.emplace_back(argv[i + 1]);
  }
  std::printf("blocks found in the pool, of all asked for; pool: of the trace's blocks\n");
  std::vector<std::pair<std::string, std::pair<double, double>>> figures;
  if (paths.empty()) Measure(GenerateTrace({}), &figures);
  for (const std::string& path : paths) {
    const absl::StatusOr<Trace> trace = ReadTrace(path);
    if (!trace.ok()) {
      std::fprintf(stderr, "bench_gpu_eviction: %s\n", trace.status().ToString().c_str());
      return 1;
    }
    Measure(*trace, &figures);
  }
  std::printf("\n");
  for (const auto& [name, hits] : figures) {
    PrintFigure(name, hits.first, "%", hits.second > 0 ? hits.first / hits.second : 0, "lru");
  }
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }

#include "bench/trace.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier::bench {
namespace {

// Applies the finaliser of splitmix64 (Steele, Lea and Flood 2014).
uint64_t Spread(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

// The key stands for one of BlockNamer's: both halves look random. But it is made in a few
// nanoseconds, as replays need many millions of keys, and BlockOf() finds the block again.
BlockKey KeyOf(uint32_t block) {
  const uint64_t low = Spread(uint64_t{block} + 1);
  return {.hi = Spread(low) ^ uint64_t{block} << 32, .lo = low};
}

uint32_t BlockOf(const BlockKey& key) {
  return static_cast<uint32_t>((key.hi ^ Spread(key.lo)) >> 32);
}

absl::Duration Trace::BusySpan() const {
  if (requests.empty()) return absl::ZeroDuration();
  return requests[requests.size() * 19 / 20].at;
}

absl::Status TraceBuilder::Add(absl::Duration at, uint64_t tokens, std::span<const uint64_t> blocks,
                               const std::optional<ReuseHint>& hint) {
  TraceRequest request{.at = at, .tokens = tokens, .hint = hint};
  request.blocks.reserve(blocks.size());
  uint32_t parent = kNoBlock;
  for (const uint64_t name : blocks) {
    const auto next = static_cast<uint32_t>(trace_.parents.size());
    const auto [number, is_new] = numbers_.emplace(name, next);
    if (is_new) trace_.parents.push_back(parent);
    if (trace_.parents[number->second] != parent) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", name, " follows two different blocks: not a whole-prefix name"));
    }
    parent = number->second;
    request.blocks.push_back(parent);
  }
  trace_.requests.push_back(std::move(request));
  return absl::OkStatus();
}

Trace TraceBuilder::Finish() && {
  std::vector<TraceRequest>& unsorted = trace_.requests;
  // Requests of the same time stay in the order in which they were added.
  std::vector<size_t> order(unsorted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(unsorted[a].at, a) < std::pair(unsorted[b].at, b);
  });
  std::vector<TraceRequest> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(std::move(unsorted[i]));
  const absl::Duration first = sorted.empty() ? absl::ZeroDuration() : sorted.front().at;
  for (TraceRequest& request : sorted) request.at -= first;
  trace_.requests = std::move(sorted);
  return std::move(trace_);
}

}  // namespace kvtier::bench

#include "bench/trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier::bench {

absl::Duration Trace::BusySpan() const {
  if (requests.empty()) return absl::ZeroDuration();
  return requests[requests.size() * 19 / 20].at;
}

absl::Status TraceBuilder::Add(absl::Duration at, uint64_t tokens,
                               std::span<const uint64_t> blocks) {
  TraceRequest request{.at = at, .tokens = tokens};
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
  std::stable_sort(trace_.requests.begin(), trace_.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.at < b.at; });
  if (!trace_.requests.empty()) {
    const absl::Duration first = trace_.requests.front().at;
    for (TraceRequest& request : trace_.requests) request.at -= first;
  }
  return std::move(trace_);
}

}  // namespace kvtier::bench

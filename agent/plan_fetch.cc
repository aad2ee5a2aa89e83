#include "agent/plan_fetch.h"

#include <algorithm>
#include <map>

#include "agent/limits.h"

namespace kvtier {
namespace {

bool Holds(const std::vector<Holder>& holders, const std::string& address) {
  return std::any_of(holders.begin(), holders.end(),
                     [&](const Holder& holder) { return holder.address == address; });
}

}  // namespace

std::vector<PeerRun> PlanFetch(const LocateReply& located, uint64_t block_bytes,
                               absl::Duration budget, const EstimateOf& estimate_of) {
  std::vector<PeerRun> runs;
  std::map<std::string, uint64_t> bytes_asked;
  for (size_t i = 0; i < located.size() && !located[i].empty(); ++i) {
    const bool stay = !runs.empty() && runs.back().count < kMaxKeysPerFetch &&
                      Holds(located[i], runs.back().address);
    const std::string address = stay ? runs.back().address : located[i].front().address;
    uint64_t& bytes = bytes_asked[address];
    bytes += block_bytes;
    if (!WorthFetching(estimate_of(address), bytes, budget)) break;
    if (stay) {
      ++runs.back().count;
    } else {
      runs.push_back({.address = address, .first = i, .count = 1});
    }
  }
  return runs;
}

}  // namespace kvtier

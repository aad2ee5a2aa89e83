// PlanFetch decides which peers to ask for which blocks: a pure function of the
// coordinator's hints, what each peer was measured to do, and the time there is.
#ifndef KVTIER_AGENT_PLAN_FETCH_H_
#define KVTIER_AGENT_PLAN_FETCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/cost_model.h"
#include "core/report.h"

namespace kvtier {

// A run of blocks to take from one peer, by position in the keys that were located.
struct PeerRun {
  std::string address;
  size_t first = 0;
  size_t count = 0;
};

// Estimate of the peer at an address.
using EstimateOf = std::function<TransferEstimate(const std::string& address)>;

// Follows the located run from its start: stays with one holder while it has the
// next block, else takes the best holder of that block. Stops where the bytes asked
// of a peer so far would not come inside `budget`: a block that comes too late is
// computed instead, and so is all behind it. Runs hold kMaxKeysPerFetch at most.
std::vector<PeerRun> PlanFetch(const LocateReply& located, uint64_t block_bytes,
                               absl::Duration budget, const EstimateOf& estimate_of);

}  // namespace kvtier

#endif  // KVTIER_AGENT_PLAN_FETCH_H_

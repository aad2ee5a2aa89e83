// These flows of calls belong to the agent's service for workers in the product. Here the agent
// runs them for a simulated worker.
#ifndef KVTIER_TESTS_SIM_SERVICE_FLOWS_H_
#define KVTIER_TESTS_SIM_SERVICE_FLOWS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/block_run.h"
#include "core/task.h"

namespace kvtier::sim {

// Takes all parts of an onboard, and returns them as one, with the deadline of the first, which is
// the earliest.
Task<absl::StatusOr<Onboarded>> OnboardInParts(Onboarder* onboarder, OnboardRequest request);
// Tells the agent of the next use of a run; returns how many of its blocks the agent has.
Task<size_t> AdviseAgent(Agent* agent, BlockRun run);
// Keeps a run for `ttl` and returns how many of its blocks are kept. If `ttl` is 0, drops the run
// with all its descendants and returns how many blocks it dropped.
Task<size_t> KeepOrDrop(Agent* agent, BlockRun run, absl::Duration ttl, absl::Duration timeout);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SERVICE_FLOWS_H_

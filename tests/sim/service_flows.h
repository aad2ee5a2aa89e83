// Flows of a call that in the product the agent's service for workers has, as the agent runs them
// for a simulated worker.
#ifndef KVTIER_TESTS_SIM_SERVICE_FLOWS_H_
#define KVTIER_TESTS_SIM_SERVICE_FLOWS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/block_run.h"
#include "core/task.h"

namespace kvtier::sim {

// Takes all parts of an onboard, and returns them as one, with the deadline of the first: it is the
// earliest.
Task<absl::StatusOr<Onboarded>> OnboardInParts(Onboarder* onboarder, OnboardRequest request);
// Tells the agent of the next use of a run; returns how many of its blocks are there.
Task<size_t> AdviseAgent(Agent* agent, BlockRun run);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SERVICE_FLOWS_H_

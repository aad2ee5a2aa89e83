#include "tests/sim/service_flows.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "agent/flows/onboard_parts.h"
#include "core/status_macros.h"

namespace kvtier::sim {

Task<absl::StatusOr<Onboarded>> OnboardInParts(Onboarder* onboarder, OnboardRequest request) {
  std::vector<OnboardRequest> requests;
  requests.push_back(std::move(request));
  KVT_CO_ASSIGN_OR_RETURN(const std::shared_ptr<Onboarder::Parts> parts,
                          Onboarder::Parts::Begin(onboarder, std::move(requests)));
  Onboarded all{.lease_deadline = absl::InfiniteFuture()};
  for (;;) {
    KVT_CO_ASSIGN_OR_RETURN(const OnboardPart part, co_await parts->Next());
    all.lease_deadline = std::min(all.lease_deadline, part.lease_deadline);
    for (const OnboardPart::Sequence& sequence : part.sequences) {
      all.blocks.insert(all.blocks.end(), sequence.blocks.begin(), sequence.blocks.end());
    }
    if (part.missed.empty()) continue;
    all.missed = part.missed[0];
    co_return all;
  }
}

Task<size_t> AdviseAgent(Agent* agent, BlockRun run) {
  const size_t advised = agent->index().Advise(run.keys, run.hint);
  agent->sessions().reservations().Advise(run.keys, run.hint);
  co_return advised;
}

Task<size_t> KeepOrDrop(Agent* agent, BlockRun run, absl::Duration ttl, absl::Duration timeout) {
  std::vector<BlockRun> runs;
  runs.push_back(std::move(run));
  if (ttl == absl::ZeroDuration()) {
    const Deleted deleted =
        co_await agent->flows().block_deleter.Delete(std::move(runs), DeleteScope::kDescendants);
    co_return deleted.blocks;
  }
  KeepRequest request{
      .sequences = std::move(runs), .deadline = agent->executor()->Now() + timeout, .ttl = ttl};
  const absl::StatusOr<Kept> kept = co_await agent->flows().prefix_keeper.Keep(std::move(request));
  co_return kept->sequences[0].indices.size();
}

}  // namespace kvtier::sim

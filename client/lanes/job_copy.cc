#include "client/lanes/job_copy.h"

#include <algorithm>
#include <utility>

#include "core/status_macros.h"

namespace kvtier {
namespace {

LaneRunner::Mark MarkOf(const PlannedJob& job, uint32_t layers) {
  const LayerMark mark = job.marked->mark(layers);
  return {.word = mark.word,
          .value = mark.value,
          .page = job.marked->progress()->page,
          .handed_over = [submitted = job.submitted, layers] { submitted(layers); }};
}

// Memory that the device reads when a batch is submitted, and writes until the batch has ended.
struct Part {
  std::shared_ptr<const BlockPlan> plan;
  size_t first = 0;  // Index of its first batch in the plan.
  OutcomeSlab::Lent outcomes;
};

LaneRunner::Copy CopyOf(const PoolMemory& memory, const PlannedJob& job,
                        const std::shared_ptr<Part>& part) {
  const bool onboard = job.direction == CopyDirection::kHostToDevice;
  LaneRunner::Copy copy = {.direction = job.direction,
                           .urgency = onboard ? CopyUrgency::kForeground : CopyUrgency::kBackground,
                           .region = memory.region.get()};
  copy.batches.reserve(part->outcomes.size());
  const std::vector<BlockPlan::Batch>& planned = part->plan->batches;
  for (size_t i = 0; i < part->outcomes.size(); ++i) {
    const size_t number = part->first + i;
    LaneRunner::Batch& batch = copy.batches.emplace_back();
    batch.blocks = part->plan->BatchOf(number, job.direction);
    batch.blocks->outcomes = part->outcomes.of(i);
    batch.keep = part;
    const uint32_t before = number == 0 ? 0 : planned[number - 1].layers_complete;
    const uint32_t complete = planned[number].layers_complete;
    if (job.marked != nullptr && complete > before) batch.before = MarkOf(job, complete);
  }
  return copy;
}

JobOutcome OutcomeOf(const BlockOutcomes& outcomes, size_t i) {
  JobOutcome outcome = {.bytes = outcomes.codecs[i].bytes};
  const kernels::PayloadSum& sum = outcomes.sums[i];
  if (sum.bytes > 0) outcome.sum = PayloadSum{.hi = sum.hi, .lo = sum.lo};
  return outcome;
}

// Appends the outcomes of the batches that copy the last layers; each block is in one of them.
void AppendOutcomes(const Part& part, std::vector<JobOutcome>* outcomes) {
  for (size_t i = 0; i < part.outcomes.size(); ++i) {
    const BlockPlan::Batch& batch = part.plan->batches[part.first + i];
    if (batch.group + 1 < part.plan->groups.size()) continue;
    for (size_t block = 0; block < batch.end - batch.begin; ++block) {
      outcomes->push_back(OutcomeOf(*part.outcomes.of(i), block));
    }
  }
}

}  // namespace

Task<absl::StatusOr<std::vector<JobOutcome>>> CopyJob(const LaneParts& parts,
                                                      const PoolMemory& memory,
                                                      const PlannedJob& job) {
  KVT_CO_ASSIGN_OR_RETURN(BlockPlan planned, PlanBlocks(memory.form, job.order, job.blocks));
  const auto plan = std::make_shared<const BlockPlan>(std::move(planned));
  const size_t count = plan->batches.size();
  std::vector<JobOutcome> outcomes;
  outcomes.reserve(job.blocks.size());
  for (size_t first = 0; first < count; first += OutcomeSlab::kJobBatches) {
    auto part = std::make_shared<Part>();
    part->plan = plan;
    part->first = first;
    const size_t batches = std::min(OutcomeSlab::kJobBatches, count - first);
    KVT_CO_ASSIGN_OR_RETURN(part->outcomes, parts.outcomes->Lend(job.direction, batches));
    Task<absl::Status> run = parts.runner->Run(CopyOf(memory, job, part));
    const absl::Status copied = co_await run;
    KVT_CO_RETURN_IF_ERROR(copied);
    AppendOutcomes(*part, &outcomes);
  }
  co_return outcomes;
}

}  // namespace kvtier

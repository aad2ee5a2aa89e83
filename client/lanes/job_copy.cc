#include "client/lanes/job_copy.h"

#include <algorithm>
#include <utility>

#include "core/status_macros.h"
#include "tier_gpu/device/pinned_memory.h"
#include "tier_gpu/plan/block_plan.h"
#include "tier_gpu/planned_copy.h"

namespace kvtier {
namespace {

PlannedCopy CopyOf(const PoolMemory& memory, const PlannedJob& job) {
  const bool onboard = job.direction == CopyDirection::kHostToDevice;
  return {.direction = job.direction,
          .urgency = onboard ? CopyUrgency::kForeground : CopyUrgency::kBackground,
          .region = memory.region.get()};
}

LaneRunner::Mark MarkOf(const PlannedJob& job, uint32_t layers) {
  const LayerMark mark = job.marked->mark(layers);
  return {.word = mark.word,
          .value = mark.value,
          .page = job.marked->progress()->page,
          .handed_over = [submitted = job.submitted, layers] { submitted(layers); }};
}

absl::StatusOr<LaneRunner::Copy> PlanRaw(const LaneParts& parts, const PoolMemory& memory,
                                         const PlannedJob& job) {
  const CopyRequest request = {
      .blocks = job.blocks,
      .direction = job.direction,
      .order = job.order,
      .paths = parts.device->has_kernels() ? LanePaths::kAll : LanePaths::kEngine,
      .chunks = {.base = job.arena->base(), .chunk_bytes = kPinChunkBytes},
      .borders = memory.borders};
  KVT_ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopies(memory.geometry, request));
  PlannedCopy copy = CopyOf(memory, job);
  const bool by_layer = job.marked != nullptr && job.order == PlanOrder::kLayerWise;
  if (by_layer) copy.mark = [&job](uint32_t layers) { return MarkOf(job, layers); };
  LaneRunner::Copy batches = RunnerCopy(plan, copy);
  if (job.marked != nullptr && !by_layer) {
    batches.batches.back().before = MarkOf(job, memory.geometry.layers);
  }
  return batches;
}

// What the device reads when a batch is submitted, and writes until it has ended.
struct EncodedPart {
  std::shared_ptr<const BlockPlan> plan;
  size_t first = 0;  // Of the plan's batches.
  OutcomeSlab::Lent outcomes;
};

LaneRunner::Copy CopyOfPart(const PoolMemory& memory, const PlannedJob& job,
                            const std::shared_ptr<EncodedPart>& part) {
  const PlannedCopy what = CopyOf(memory, job);
  LaneRunner::Copy copy = {
      .direction = what.direction, .urgency = what.urgency, .region = what.region};
  copy.batches.reserve(part->outcomes.size());
  for (size_t i = 0; i < part->outcomes.size(); ++i) {
    LaneRunner::Batch& batch = copy.batches.emplace_back();
    batch.blocks = part->plan->Batch(part->first + i, *memory.stored, job.direction);
    batch.blocks->outcomes = part->outcomes.of(i);
    // The agent sums what is committed, and OnboardFlow what was leased.
    batch.blocks->summed = false;
    batch.keep = part;
  }
  return copy;
}

Task<absl::StatusOr<JobOutcomes>> CopyEncoded(const LaneParts& parts, const PoolMemory& memory,
                                              const PlannedJob& job) {
  KVT_CO_ASSIGN_OR_RETURN(BlockPlan planned,
                          PlanBlocks(memory.geometry, *memory.stored, job.blocks));
  const auto plan = std::make_shared<const BlockPlan>(std::move(planned));
  const std::vector<size_t>& ends = plan->ends;
  JobOutcomes outcomes;
  outcomes.reserve(job.blocks.size());
  for (size_t first = 0; first < ends.size(); first += OutcomeSlab::kJobBatches) {
    const size_t batches = std::min(OutcomeSlab::kJobBatches, ends.size() - first);
    auto part = std::make_shared<EncodedPart>();
    part->plan = plan;
    part->first = first;
    KVT_CO_ASSIGN_OR_RETURN(part->outcomes, parts.outcomes->Lend(job.direction, batches));
    LaneRunner::Copy copy = CopyOfPart(memory, job, part);
    if (job.marked != nullptr && first + batches == ends.size()) {
      copy.batches.back().before = MarkOf(job, memory.geometry.layers);
    }
    Task<absl::Status> run = parts.runner->Run(std::move(copy));
    const absl::Status copied = co_await run;
    KVT_CO_RETURN_IF_ERROR(copied);
    for (size_t i = 0; i < batches; ++i) {
      const auto& of_batch = part->outcomes.of(i)->codecs;
      for (size_t block = 0; outcomes.size() < ends[first + i]; ++block) {
        outcomes.push_back(of_batch[block]);
      }
    }
  }
  co_return outcomes;
}

}  // namespace

Task<absl::StatusOr<JobOutcomes>> CopyJob(const LaneParts& parts, const PoolMemory& memory,
                                          const PlannedJob& job) {
  if (memory.stored) {
    Task<absl::StatusOr<JobOutcomes>> encoded = CopyEncoded(parts, memory, job);
    absl::StatusOr<JobOutcomes> outcomes = co_await encoded;
    co_return outcomes;
  }
  KVT_CO_ASSIGN_OR_RETURN(LaneRunner::Copy copy, PlanRaw(parts, memory, job));
  Task<absl::Status> run = parts.runner->Run(std::move(copy));
  const absl::Status copied = co_await run;
  KVT_CO_RETURN_IF_ERROR(copied);
  co_return JobOutcomes();
}

}  // namespace kvtier

#include "client/lanes/pool_memory.h"

#include <utility>

#include "core/status_macros.h"
#include "tier_gpu/planned_copy.h"

namespace kvtier {
namespace {

CopyUrgency UrgencyOf(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? CopyUrgency::kForeground
                                                   : CopyUrgency::kBackground;
}

LaneRunner::Mark MarkOf(const std::shared_ptr<LaneJob>& job, uint32_t layers) {
  const LayerMark mark = job->mark(layers);
  return {.word = mark.word,
          .value = mark.value,
          .page = job->progress()->page,
          .handed_over = [job, layers] { job->Submitted(layers); }};
}

// What the device reads when a batch is submitted, and writes until it has ended.
struct EncodedJob {
  BlockPlan plan;
  std::shared_ptr<JobOutcomes> outcomes;
};

absl::StatusOr<JobCopy> PlanEncoded(const LaneParts& parts, const PoolMemory& memory,
                                    const PlannedJob& job) {
  auto encoded = std::make_shared<EncodedJob>();
  KVT_ASSIGN_OR_RETURN(encoded->plan, PlanBlocks(memory.geometry, *memory.stored, job.blocks));
  const BlockPlan& plan = encoded->plan;
  KVT_ASSIGN_OR_RETURN(encoded->outcomes,
                       JobOutcomes::Take(parts.outcomes, job.direction, plan.ends));
  LaneRunner::Copy copy = {.direction = job.direction,
                           .urgency = UrgencyOf(job.direction),
                           .region = memory.region.get()};
  copy.batches.reserve(plan.ends.size());
  for (size_t i = 0; i < plan.ends.size(); ++i) {
    LaneRunner::Batch& batch = copy.batches.emplace_back();
    batch.blocks = plan.Batch(i, *memory.stored, job.direction);
    batch.blocks->outcomes = encoded->outcomes->of_batch(i);
    // The agent sums what is committed, and has proved what it leases.
    batch.blocks->summed = false;
    batch.keep = encoded;
  }
  if (job.layer_wise != nullptr) {
    copy.batches.back().before = MarkOf(job.layer_wise, memory.geometry.layers);
  }
  return JobCopy{.copy = std::move(copy), .outcomes = encoded->outcomes};
}

}  // namespace

absl::StatusOr<JobCopy> PlanJob(const LaneParts& parts, const PoolMemory& memory,
                                const PlannedJob& job) {
  if (memory.stored) return PlanEncoded(parts, memory, job);
  const CopyRequest request = {
      .blocks = job.blocks,
      .direction = job.direction,
      .order = job.layer_wise == nullptr ? PlanOrder::kWhole : PlanOrder::kLayerWise,
      .paths = parts.device->has_kernels() ? LanePaths::kAll : LanePaths::kEngine,
      .chunks = {.base = job.arena->base(), .chunk_bytes = parts.pin_chunk_bytes},
      .borders = memory.borders};
  KVT_ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopies(memory.geometry, request, *parts.table));
  PlannedCopy copy = {.direction = job.direction,
                      .urgency = UrgencyOf(job.direction),
                      .region = memory.region.get()};
  if (job.layer_wise != nullptr) {
    copy.mark = [&job](uint32_t layers) { return MarkOf(job.layer_wise, layers); };
  }
  return JobCopy{.copy = RunnerCopy(plan, copy)};
}

}  // namespace kvtier

#include "client/lanes/worker_pool.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/lanes/laid_out.h"
#include "client/lanes/onboard_flow.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status CheckMarkTimeout(absl::Duration timeout) {
  if (timeout > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mark_timeout is ", absl::FormatDuration(timeout), "; must be positive"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Register(WorkerLanes* lanes,
                                                                 const KvTensors& tensors,
                                                                 const SpaceSpec& spec) {
  auto memory = std::make_shared<PoolMemory>();
  KVT_ASSIGN_OR_RETURN(memory->form, LayOut(tensors, spec));
  KVT_ASSIGN_OR_RETURN(memory->region,
                       lanes->On([&] { return lanes->device()->AdoptRegion(tensors.tensors); }));
  KVT_ASSIGN_OR_RETURN(memory->space, lanes->client()->RegisterSpace(spec));
  return absl::WrapUnique(new WorkerPool(lanes, std::move(memory)));
}

WorkerPool::~WorkerPool() {
  {
    const absl::MutexLock lock(&mu_);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return jobs_ == 0; };
    mu_.Await(absl::Condition(&idle));
  }
  lanes_->On([this] {
    memory_->region.reset();
    return true;
  });
}

absl::Status WorkerPool::Check(const KeyedSlots& blocks) const {
  if (blocks.keys.size() != blocks.slots.size() || blocks.keys.size() > Client::kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job of ", blocks.keys.size(), " keys and ", blocks.slots.size(),
                     " slots; must have as many of each, at most ", Client::kMaxKeys));
  }
  const uint32_t slots = memory_->form.slots;
  for (size_t i = 0; i < blocks.slots.size(); ++i) {
    if (blocks.slots[i] < slots) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("slots[", i, "] is ", blocks.slots[i], "; must be below ", slots));
  }
  return absl::OkStatus();
}

absl::Status WorkerPool::CheckOnce(const KeyedSlots& blocks) const {
  std::vector<uint32_t> sorted(blocks.slots.begin(), blocks.slots.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("slots has ", *twice, " twice; must be named once"));
}

template <typename Work>
absl::Status WorkerPool::Start(CopyDirection direction, std::shared_ptr<Work> work,
                               Task<WorkerLanes::Tell> (*flow)(const LaneParts&,
                                                               std::shared_ptr<Work>)) {
  {
    const absl::MutexLock lock(&mu_);
    ++jobs_;
  }
  const auto ended = [this] {
    const absl::MutexLock lock(&mu_);
    --jobs_;
  };
  const absl::Status started = lanes_->Start(
      direction,
      [flow, work = std::move(work)](const LaneParts& parts) mutable {
        return flow(parts, std::move(work));
      },
      ended);
  if (!started.ok()) ended();
  return started;
}

absl::StatusOr<std::shared_ptr<LaneJob>> WorkerPool::Offload(const KeyedSlots& blocks,
                                                             const OffloadOptions& options) {
  KVT_RETURN_IF_ERROR(Check(blocks));
  KVT_RETURN_IF_ERROR(CheckMarkTimeout(options.mark_timeout));
  auto work = std::make_shared<OffloadWork>();
  work->memory = memory_;
  work->job = std::make_shared<LaneJob>(std::nullopt, memory_->form.rows.shape.layers);
  work->keys.assign(blocks.keys.begin(), blocks.keys.end());
  work->slots.assign(blocks.slots.begin(), blocks.slots.end());
  work->parent = options.parent;
  work->hint = options.hint;
  work->after = options.after;
  work->mark_timeout = std::min(options.mark_timeout, Client::kMaxTimeout);
  work->hooks = options.hooks;
  std::shared_ptr<LaneJob> job = work->job;
  KVT_RETURN_IF_ERROR(Start(CopyDirection::kDeviceToHost, std::move(work), &OffloadFlow));
  return job;
}

absl::StatusOr<std::shared_ptr<LaneJob>> WorkerPool::Onboard(const KeyedSlots& blocks,
                                                             const LaneOnboardOptions& options) {
  KVT_RETURN_IF_ERROR(Check(blocks));
  KVT_RETURN_IF_ERROR(CheckOnce(blocks));
  KVT_RETURN_IF_ERROR(CheckMarkTimeout(options.mark_timeout));
  auto work = std::make_shared<OnboardWork>();
  work->memory = memory_;
  std::optional<ProgressWord> progress;
  const uint32_t layers = memory_->form.rows.shape.layers;
  if (options.order == PlanOrder::kLayerWise || options.hooks.submitted != nullptr) {
    progress = lanes_->words()->Take();
    if (!progress) {
      return absl::ResourceExhaustedError(
          "lanes: all progress words are in use; poll the jobs that ended");
    }
  }
  work->job = std::make_shared<LaneJob>(progress, layers);
  work->keys.assign(blocks.keys.begin(), blocks.keys.end());
  work->slots.assign(blocks.slots.begin(), blocks.slots.end());
  work->timeout = options.timeout;
  work->hint = options.hint;
  work->after = options.after;
  work->mark_timeout = std::min(options.mark_timeout, Client::kMaxTimeout);
  work->order = options.order;
  work->hooks = options.hooks;
  std::shared_ptr<LaneJob> job = work->job;
  const absl::Status started = Start(CopyDirection::kHostToDevice, std::move(work), &OnboardFlow);
  if (started.ok()) return job;
  if (progress) lanes_->words()->GiveBack(*progress, 0);
  return started;
}

}  // namespace kvtier

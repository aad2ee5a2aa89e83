#include "client/lanes/worker_lanes.h"

#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<WorkerLanes>> WorkerLanes::Open(Client* client, Device* device) {
  KVT_RETURN_IF_ERROR(device->state());
  if (!device->has_kernels()) {
    return absl::InvalidArgumentError(
        absl::StrCat(device->name(), " was opened without kernels; must have them for lanes"));
  }
  Memory memory;
  KVT_ASSIGN_OR_RETURN(memory.progress, SignalPage::Create());
  KVT_ASSIGN_OR_RETURN(memory.outcomes, OutcomeSlab::Pin(device));
  const std::span<std::byte> progress = memory.progress->bytes();
  auto lanes = absl::WrapUnique(new WorkerLanes(client, device, std::move(memory)));
  KVT_RETURN_IF_ERROR(lanes->On([device, progress] { return device->Pin(progress); }));
  lanes->executor_.Post([lanes = lanes.get()] { lanes->KeepPinned(); });
  return lanes;
}

WorkerLanes::WorkerLanes(Client* client, Device* device, Memory memory)
    : outcomes_(std::move(memory.outcomes)),
      runner_(device, &executor_, &executor_),
      pins_(client, device, &executor_),
      words_(std::move(memory.progress)),
      parts_{.client = client,
             .device = device,
             .executor = &executor_,
             .runner = &runner_,
             .pins = &pins_,
             .words = &words_,
             .outcomes = outcomes_.get()} {}

WorkerLanes::~WorkerLanes() {
  // The pools have waited for their jobs; only the coroutine frames of these jobs are left.
  {
    const absl::MutexLock lock(&mu_);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return jobs_[0] == 0 && jobs_[1] == 0;
    };
    mu_.Await(absl::Condition(&idle));
  }
  On([this] {
    scope_.reset();
    return true;
  });
  pins_.Stop();
  executor_.Stop();
  pins_.Unpin();
  // The page is pinned unless the device was lost earlier.
  parts_.device->Unpin(words_.page()->bytes()).IgnoreError();
}

void WorkerLanes::KeepPinned() {
  pins_.Refresh();
  executor_.PostAt(executor_.Now() + kPinInterval, [this] { KeepPinned(); });
}

absl::Status WorkerLanes::Start(CopyDirection direction, Flow flow,
                                absl::AnyInvocable<void()> ended) {
  {
    const absl::MutexLock lock(&mu_);
    size_t& jobs = jobs_[static_cast<size_t>(direction)];
    if (jobs == kMaxJobs) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "lanes: ", kMaxJobs,
          " jobs in this direction are in progress, the most that may be; poll those that ended"));
    }
    ++jobs;
  }
  executor_.Post([this, direction, flow = std::move(flow), ended = std::move(ended)]() mutable {
    scope_->Spawn(RunJob(direction, std::move(flow), std::move(ended)));
  });
  return absl::OkStatus();
}

Task<void> WorkerLanes::RunJob(CopyDirection direction, Flow flow,
                               absl::AnyInvocable<void()> ended) {
  Task<Tell> run = flow(parts_);
  Tell tell = co_await run;
  {
    const absl::MutexLock lock(&mu_);
    --jobs_[static_cast<size_t>(direction)];
  }
  // The destructor gets its turn on this thread after all of this.
  tell();
  tell = nullptr;
  run = {};
  ended();
}

}  // namespace kvtier

#include "client/lanes/onboard_flow.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lanes/abandoned_job.h"
#include "client/lanes/client_call.h"
#include "client/lanes/job_copy.h"
#include "core/event.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

ClientCall<OnboardedBlocks>::Start Lease(const LaneParts& parts, const OnboardWork& work) {
  return StartOf<OnboardedBlocks>([&parts, &work](auto told) {
    const KeySequence run = {.space = work.memory->space, .keys = work.keys, .hint = work.hint};
    return parts.client->SubmitOnboard(
        {&run, 1}, {.timeout = work.timeout},
        [told = std::move(told)](std::vector<OnboardedBlocks> all) { told(std::move(all[0])); });
  });
}

// Locates the leased blocks in pinned memory, with their slots. Errors: kAborted, the session that
// leased them is no longer the one whose memory is pinned.
absl::StatusOr<std::vector<PlannedBlock>> Locate(const PinnedArena* arena,
                                                 const OnboardedBlocks& leased,
                                                 std::span<const uint32_t> slots) {
  std::vector<PlannedBlock> blocks;
  blocks.reserve(leased.size());
  for (size_t i = 0; i < leased.size(); ++i) {
    const bool same = arena != nullptr && arena->memory().read == leased.keep_mapped();
    std::byte* const host = same ? arena->Pinned(leased.bytes(i)) : nullptr;
    if (host == nullptr) {
      return absl::AbortedError(
          "onboard: the session ended after it leased the blocks; onboard again");
    }
    blocks.push_back({.slot = slots[i], .host = host});
  }
  return blocks;
}

// Compares the sum that the device took of each block with the lease's. Without such a sum, the
// lanes' thread sums the bytes that the copy has read, because a stray write stays there. It does
// one block at a time, and other jobs go on between blocks.
Task<absl::Status> Prove(const LaneParts& parts, const OnboardedBlocks& leased,
                         const std::vector<JobOutcome>& outcomes) {
  for (size_t i = 0; i < leased.size(); ++i) {
    const JobOutcome& outcome = outcomes[i];
    if (outcome.sum) {
      KVT_CO_RETURN_IF_ERROR(leased.CheckSum(i, *outcome.sum));
    } else {
      KVT_CO_RETURN_IF_ERROR(leased.Prove(i));
      SleepUntil others(parts.executor, parts.executor->Now());
      co_await others;
    }
    if (outcome.bytes > 0) continue;
    // The sum has shown that the bytes are those that were put: they are no encoding.
    co_return absl::DataLossError(absl::StrCat(
        "onboard: block ", i, " cannot be decoded with the codec of its space; compute it again"));
  }
  co_return absl::OkStatus();
}

// Returns the callback of the copy's submissions: it informs the job and, at the last layer, the
// hook.
std::function<void(uint32_t)> SubmittedOf(const OnboardWork& work) {
  return [job = work.job, told = work.hooks.submitted](uint32_t layers) {
    job->Submitted(layers);
    if (told != nullptr && layers == job->layers()) told(job->mark(layers));
  };
}

// Runs the onboard, and fills in the counts of `end` as far as it gets. It waits for the mark after
// the lease, so that blocks are loaded from disks and nodes meanwhile; a lease that ends before the
// mark is a miss.
Task<absl::StatusOr<size_t>> Bring(const LaneParts& parts, const OnboardWork& work, JobEnd* end) {
  ClientCall<OnboardedBlocks> lease(parts.executor, Lease(parts, work));
  absl::StatusOr<OnboardedBlocks> answer = co_await lease;
  KVT_CO_RETURN_IF_ERROR(answer.status());
  const OnboardedBlocks leased = *std::move(answer);
  if (leased.missed() == MissReason::kUnreachable && leased.empty() && !work.keys.empty()) {
    end->status = absl::UnavailableError(
        "onboard: the agent did not answer; try again later, or compute the blocks");
  }
  if (leased.empty()) co_return size_t{0};
  Task<absl::Status> mark = AwaitMark(parts, work.after, work.mark_timeout);
  const absl::Status free = co_await mark;
  KVT_CO_RETURN_IF_ERROR(free);
  Task<ArenaPins::Arena> pin = parts.pins->Now();
  const ArenaPins::Arena pinned = co_await pin;
  KVT_CO_RETURN_IF_ERROR(pinned.status());
  const std::shared_ptr<const PinnedArena>& arena = *pinned;
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<PlannedBlock> blocks,
                          Locate(arena.get(), leased, work.slots));
  const PlannedJob planned = {.direction = CopyDirection::kHostToDevice,
                              .blocks = blocks,
                              .marked = work.job->progress() ? work.job : nullptr,
                              .order = work.order,
                              .submitted = SubmittedOf(work)};
  work.job->Begin(blocks.size());
  const absl::Time began = parts.executor->Now();
  Task<absl::StatusOr<std::vector<JobOutcome>>> copy = CopyJob(parts, *work.memory, planned);
  const absl::StatusOr<std::vector<JobOutcome>> outcomes = co_await copy;
  end->copied = blocks.size();
  end->copying = parts.executor->Now() - began;
  // An abandoned copy may still run, so its memory is kept. Its lease is not, because nobody reads
  // the bytes that such a copy writes.
  if (IsAbandoned(outcomes.status())) KeepAbandoned(arena, work.memory);
  KVT_CO_RETURN_IF_ERROR(outcomes.status());
  if (!leased.valid()) {
    co_return absl::AbortedError("onboard: the lease ended before the copy did; onboard again");
  }
  Task<absl::Status> proof = Prove(parts, leased, *outcomes);
  const absl::Status proven = co_await proof;
  KVT_CO_RETURN_IF_ERROR(proven);
  co_return blocks.size();
}

void TellOnboard(const LaneParts& parts, LaneJob* job, const absl::StatusOr<size_t>& brought) {
  job->End(brought.status(), brought.value_or(0));
  if (!job->progress()) return;
  // Lets compute that waits for a missing layer go on: its results are void.
  const ProgressWord& progress = *job->progress();
  const uint64_t last = progress.base + job->layers();
  if (progress.word->load(std::memory_order_relaxed) < last) {
    parts.device->Raise(progress.word, last);
  }
  parts.words->GiveBack(progress, job->layers());
}

}  // namespace

Task<WorkerLanes::Tell> OnboardFlow(const LaneParts& parts, std::shared_ptr<OnboardWork> work) {
  auto end = std::make_shared<JobEnd>();
  Task<absl::StatusOr<size_t>> bring = Bring(parts, *work, end.get());
  absl::StatusOr<size_t> brought = co_await bring;
  WorkerLanes::Tell tell = [&parts, work, end, brought = std::move(brought)] {
    if (work->hooks.ended != nullptr) {
      end->status.Update(brought.status());
      end->failed = end->copied - brought.value_or(0);
      end->results.assign(work->keys.size(), false);
      std::fill_n(end->results.begin(), brought.value_or(0), true);
      work->hooks.ended(std::move(*end));
    }
    TellOnboard(parts, work->job.get(), brought);
  };
  co_return std::move(tell);
}

}  // namespace kvtier

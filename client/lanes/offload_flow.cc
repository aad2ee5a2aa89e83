#include "client/lanes/offload_flow.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lanes/abandoned_job.h"
#include "client/lanes/client_call.h"
#include "client/lanes/job_copy.h"
#include "client/stored_keys.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

using Published = absl::StatusOr<size_t>;

ClientCall<ReservedBlocks>::Start Reserve(const LaneParts& parts, const OffloadWork& work) {
  return StartOf<ReservedBlocks>([&parts, &work](auto told) {
    const KeySequence run = {
        .space = work.memory->space, .keys = work.keys, .parent = work.parent, .hint = work.hint};
    return parts.client->SubmitReserve({&run, 1}, {}, std::move(told));
  });
}

ClientCall<size_t>::Start Commit(const LaneParts& parts, ReservedBlocks* reserved) {
  return StartOf<size_t>([&parts, reserved](auto told) {
    return parts.client->SubmitCommit(std::move(*reserved), std::move(told));
  });
}

// Locates the reserved blocks in pinned memory, with their slots. `numbers`: index of each block
// among the reserved ones. Errors: kAborted, the session that reserved them is no longer the one
// whose memory is pinned.
absl::StatusOr<std::vector<PlannedBlock>> Locate(const PinnedArena* arena,
                                                 const ReservedBlocks& reserved,
                                                 std::span<const uint32_t> slots,
                                                 std::vector<size_t>* numbers) {
  if (arena == nullptr || arena->memory().write != reserved.keep_mapped()) {
    return absl::AbortedError("offload: the session ended after it reserved slots; offload again");
  }
  std::vector<PlannedBlock> blocks;
  blocks.reserve(reserved.reserved());
  for (size_t i = 0; i < reserved.size(); ++i) {
    if (reserved.slot(i).empty()) continue;  // The block is there already, or has no room.
    blocks.push_back({.slot = slots[i], .host = reserved.slot(i).data()});
    numbers->push_back(i);
  }
  return blocks;
}

// Gives back the blocks that are not stored, for example one with a NaN in a space that has no room
// for raw ones; notes the sums of the others. `numbers`: index of each block among the reserved
// ones.
void TakeOutcomes(std::span<const JobOutcome> outcomes, uint64_t block_bytes,
                  std::span<const size_t> numbers, ReservedBlocks* reserved) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (outcomes[i].bytes > block_bytes) {
      reserved->GiveBack(numbers[i]);
    } else if (outcomes[i].sum) {
      reserved->NoteSum(numbers[i], *outcomes[i].sum);
    }
  }
}

// Commits the reserved blocks, except those that the worker gives up. Fills in the results of
// `end`.
Task<Published> Publish(const LaneParts& parts, const OffloadWork& work, ReservedBlocks* reserved,
                        JobEnd* end) {
  if (reserved->reserved() == 0) co_return size_t{0};
  if (work.hooks.copied != nullptr) {
    const std::optional<std::vector<size_t>> given_up = work.hooks.copied();
    if (!given_up || !given_up->empty()) {
      end->status =
          absl::AbortedError("offload: the engine took slots back before they were copied");
    }
    if (!given_up) co_return size_t{0};
    for (const size_t block : *given_up) reserved->GiveBack(block);
    if (reserved->reserved() == 0) co_return size_t{0};
  }
  const size_t copied = reserved->reserved();
  std::vector<bool> all = StoredKeys(*reserved, ReservedFate::kPublished);
  ClientCall<size_t> commit(parts.executor, Commit(parts, reserved));
  Published published = co_await commit;
  // If fewer were published, the answer does not say which ones.
  if (published.ok() && *published == copied) end->results = std::move(all);
  co_return published;
}

// Runs the offload, and fills in the results and counts of `end` as far as it gets. It waits for
// the mark before it reserves, because the reservation has a deadline of its own.
Task<Published> Take(const LaneParts& parts, const OffloadWork& work, JobEnd* end) {
  Task<absl::Status> mark = AwaitMark(parts, work.after, work.mark_timeout);
  const absl::Status complete = co_await mark;
  KVT_CO_RETURN_IF_ERROR(complete);
  ClientCall<ReservedBlocks> reserve(parts.executor, Reserve(parts, work));
  absl::StatusOr<ReservedBlocks> answer = co_await reserve;
  KVT_CO_RETURN_IF_ERROR(answer.status());
  ReservedBlocks reserved = *std::move(answer);
  if (reserved.answered()) {
    end->results = StoredKeys(reserved, ReservedFate::kNotPublished);
  } else if (!work.keys.empty()) {
    end->status = absl::UnavailableError(
        "offload: the agent did not answer, or does not take blocks of this space; try again "
        "later");
  }
  if (reserved.reserved() == 0) co_return size_t{0};
  Task<ArenaPins::Arena> pin = parts.pins->Now();
  const ArenaPins::Arena pinned = co_await pin;
  KVT_CO_RETURN_IF_ERROR(pinned.status());
  const std::shared_ptr<const PinnedArena>& arena = *pinned;
  std::vector<size_t> numbers;
  KVT_CO_ASSIGN_OR_RETURN(const std::vector<PlannedBlock> blocks,
                          Locate(arena.get(), reserved, work.slots, &numbers));
  const PlannedJob planned = {.direction = CopyDirection::kDeviceToHost, .blocks = blocks};
  work.job->Begin(blocks.size());
  const absl::Time began = parts.executor->Now();
  Task<absl::StatusOr<std::vector<JobOutcome>>> copy = CopyJob(parts, *work.memory, planned);
  const absl::StatusOr<std::vector<JobOutcome>> outcomes = co_await copy;
  end->copied = blocks.size();
  end->copying = parts.executor->Now() - began;
  if (IsAbandoned(outcomes.status())) {
    KeepAbandoned(std::move(reserved), arena, work.memory);
    co_return outcomes.status();
  }
  KVT_CO_RETURN_IF_ERROR(outcomes.status());
  TakeOutcomes(*outcomes, work.memory->form.block_bytes, numbers, &reserved);
  Task<Published> publish = Publish(parts, work, &reserved, end);
  Published published = co_await publish;
  co_return published;
}

}  // namespace

Task<WorkerLanes::Tell> OffloadFlow(const LaneParts& parts, std::shared_ptr<OffloadWork> work) {
  auto end = std::make_shared<JobEnd>();
  end->results.resize(work->keys.size());
  Task<Published> take = Take(parts, *work, end.get());
  Published published = co_await take;
  WorkerLanes::Tell tell = [work, end, published = std::move(published)] {
    work->job->End(published.status(), published.value_or(0));
    if (work->hooks.ended == nullptr) return;
    end->status.Update(published.status());
    end->failed = end->copied - std::min(end->copied, published.value_or(0));
    work->hooks.ended(std::move(*end));
  };
  co_return std::move(tell);
}

}  // namespace kvtier

#include "agent/flows/swap.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

static_assert(sizeof(CopiedBlock) + sizeof(PayloadSum) + sizeof(GpuSlot) + sizeof(uint32_t) <=
              kBytesPerMovingBlock);

absl::Status SessionEnded() {
  return absl::FailedPreconditionError(
      "the session ended while its sequence was swapped; open another");
}

absl::Status Lost(SwapId id, const char* why) {
  return absl::DataLossError(absl::StrCat("swap_id: ", static_cast<uint64_t>(id),
                                          "; the sequence is lost, so recompute it: ", why));
}

}  // namespace

struct SequenceSwapper::Moving {
  Moving(Executor* executor, GpuTier* tier, Way direction, uint64_t block_length)
      : gpu(tier), way(direction), length(block_length), done(executor) {}
  GpuTier* const gpu;
  const Way way;
  const uint64_t length;  // Length of every block, in bytes.
  std::vector<CopiedBlock> blocks;
  std::vector<PayloadSum> sums;  // Sums of the blocks as they went out.
  absl::Status status;           // The first error of a copy.
  bool is_damaged = false;
  size_t copies = 0;  // Copies that have not ended.
  Event done;
};

Task<absl::StatusOr<SwapId>> SequenceSwapper::SwapOut(SwapOutRequest request) {
  const BlockRun& run = request.run;
  GpuTier* const gpu = parts_.gpus->For(run);
  if (gpu == nullptr) {
    co_return absl::InvalidArgumentError(
        "space_id: no GPU pool of this node has slots for blocks of this space; compute the "
        "sequence again instead");
  }
  if (request.step > 0) {
    KVT_CO_RETURN_IF_ERROR(parts_.gpus->CheckStep(run.session, request.step));
  }
  KVT_CO_ASSIGN_OR_RETURN(std::vector<GpuSlot> held,
                          gpu->grants().HoldAgain(run.session, request.slots));
  const uint64_t length = run.lengths.longest;
  const absl::StatusOr<SwapId> id = parts_.swapped->Begin(
      {.session = run.session,
       .domain = run.domain,
       .gpu = gpu,
       .priority = request.priority,
       .block_length = length,
       .blocks = held.size(),
       .slot_bytes = parts_.evictor->RoomFor(run.domain, run.lengths, length).slot_bytes},
      QuotaOf(run.domain));
  if (!id.ok()) {
    parts_.swapped->CountRefused(run.domain);
    co_return id.status();
  }
  const auto moving = std::make_shared<Moving>(parts_.executor, gpu, Way::kOut, length);
  moving->blocks.resize(held.size());
  for (size_t i = 0; i < held.size(); ++i) moving->blocks[i].gpu = std::move(held[i]);

  absl::Status status;
  const absl::Time deadline = parts_.executor->Now() + kCommitTimeout - kStepPollInterval;
  if (request.step > 0 && !co_await parts_.gpus->AwaitStep(run.session, request.step, deadline)) {
    status =
        absl::AbortedError(absl::StrCat("swapping out: step ", request.step, " did not end within ",
                                        absl::FormatDuration(kCommitTimeout), "; swap out again"));
  }
  if (status.ok()) status = co_await ReserveHost(run, moving.get());
  if (!status.ok()) {
    parts_.swapped->GiveUp(*id);
    co_return status;
  }
  co_await MoveAll(moving);
  if (!moving->done.is_set()) {
    parts_.scope->Spawn(EndLate(*id, moving));
    co_return absl::AbortedError(absl::StrCat("swapping out: the copy took longer than ",
                                              absl::FormatDuration(kCommitTimeout),
                                              "; swap out again"));
  }
  if (!moving->status.ok()) {
    parts_.swapped->GiveUp(*id);
    co_return absl::AbortedError(
        absl::StrCat("swapping out: the copy failed: ", moving->status.message()));
  }
  std::vector<SwappedBlock> blocks(moving->blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {.slot = std::move(moving->blocks[i].host), .sum = moving->sums[i]};
  }
  if (!parts_.swapped->Complete(*id, std::move(blocks))) co_return Unwanted(run.session, *id);
  if (!request.keep_slots) gpu->grants().Release(run.session, request.slots);
  co_return *id;
}

absl::Status SequenceSwapper::Unwanted(SessionId session, SwapId id) const {
  if (!parts_.sessions->IsOpen(session)) return SessionEnded();
  return absl::NotFoundError(absl::StrCat("swap_id: ", static_cast<uint64_t>(id),
                                          "; the sequence was released while it was swapped"));
}

Task<absl::Status> SequenceSwapper::ReserveHost(const BlockRun& run, Moving* moving) {
  const BlockRoom room = parts_.evictor->RoomFor(run.domain, run.lengths, moving->length);
  for (size_t i = 0; i < moving->blocks.size(); ++i) {
    if (i > 0 && i % kKeysPerTurn == 0) co_await parts_.turns->GiveWay(run.domain);
    if (!parts_.sessions->IsOpen(run.session)) co_return SessionEnded();
    absl::StatusOr<HostSlot> slot = parts_.evictor->ReserveHost(run.domain, room);
    if (!slot.ok()) {
      parts_.swapped->CountRefused(run.domain);
      co_return absl::ResourceExhaustedError(
          absl::StrCat("swapping out: host memory has room for ", i, " of ", moving->blocks.size(),
                       " blocks, and all other blocks in it are held; try again later, or "
                       "recompute the sequence"));
    }
    CopiedBlock& block = moving->blocks[i];
    block.slot = block.gpu.ref();
    block.bytes = slot->bytes();
    block.host = *std::move(slot);
  }
  co_return absl::OkStatus();
}

Task<void> SequenceSwapper::MoveAll(std::shared_ptr<Moving> moving) {
  const size_t blocks = moving->blocks.size();
  moving->sums.resize(blocks);
  moving->copies = (blocks + kSwapBlocksPerCopy - 1) / kSwapBlocksPerCopy;
  // All copies begin at once: they wait for each other in the lanes, and the sums run side by side.
  for (size_t first = 0; first < blocks; first += kSwapBlocksPerCopy) {
    const size_t count = std::min(kSwapBlocksPerCopy, blocks - first);
    parts_.scope->Spawn(MoveSome(moving, first, count));
  }
  // A worker may use its slots again after an error, so a swap in waits here without a deadline;
  // a copy that takes too long ends its session.
  absl::Time deadline = absl::InfiniteFuture();
  if (moving->way == Way::kOut) deadline = parts_.executor->Now() + kCommitTimeout;
  co_await parts_.waits->Until(&moving->done, deadline);
}

Task<void> SequenceSwapper::MoveSome(std::shared_ptr<Moving> moving, size_t first, size_t count) {
  const std::span<CopiedBlock> blocks = std::span(moving->blocks).subspan(first, count);
  const std::span<PayloadSum> sums = std::span(moving->sums).subspan(first, count);
  size_t damaged = 0;
  absl::Status status;
  if (moving->way == Way::kOut) {
    status = co_await moving->gpu->CopyOut(blocks);
    ByteThreads::Work sum = [blocks, sums, length = moving->length] {
      for (size_t i = 0; i < blocks.size(); ++i) sums[i] = SumSlot(blocks[i].bytes, length);
    };
    if (status.ok()) co_await parts_.byte_threads->Run(std::move(sum));
  } else {
    ByteThreads::Work prove = [blocks, sums, &damaged, length = moving->length] {
      for (size_t i = 0; i < blocks.size(); ++i) {
        damaged += SumPayload(blocks[i].bytes.first(length)) == sums[i] ? 0 : 1;
      }
    };
    co_await parts_.byte_threads->Run(std::move(prove));
    parts_.stats->verified += count - damaged;
    parts_.stats->verify_failures += damaged;
    if (damaged == 0) status = co_await moving->gpu->CopyIn(blocks);
  }
  moving->is_damaged = moving->is_damaged || damaged > 0;
  moving->status.Update(status);
  if (--moving->copies == 0) moving->done.Set();
}

Task<absl::StatusOr<std::vector<uint32_t>>> SequenceSwapper::SwapIn(SwapInRequest request) {
  KVT_CO_ASSIGN_OR_RETURN(ReturningSequence returning,
                          parts_.swapped->BeginReturn(request.session, request.id));
  GpuTier* const gpu = returning.of.gpu;
  const size_t count = returning.blocks.size();
  absl::Status status;
  std::vector<GpuSlot> slots;
  if (request.slots.size() > count) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "slots: ", request.slots.size(), "; must be at most ", count, ", the sequence's blocks"));
  } else {
    absl::StatusOr<std::vector<GpuSlot>> own =
        gpu->grants().HoldAgain(request.session, request.slots);
    status = own.status();
    if (own.ok()) slots = *std::move(own);
  }
  const size_t wanted = status.ok() ? count - slots.size() : 0;
  if (wanted > 0) status = gpu->grants().CheckRoom(request.session, wanted);
  if (status.ok() && wanted > 0) {
    absl::StatusOr<std::vector<GpuSlot>> taken = co_await gpu->line().Take(
        {.priority = returning.of.priority, .age = static_cast<uint64_t>(request.id)}, wanted,
        request.deadline);
    status = taken.status();
    if (taken.ok()) std::ranges::move(*taken, std::back_inserter(slots));
  }
  if (!status.ok()) {
    parts_.swapped->StayOut(request.id, std::move(returning.blocks));
    co_return status;
  }
  const auto moving =
      std::make_shared<Moving>(parts_.executor, gpu, Way::kIn, returning.of.block_length);
  moving->blocks.resize(count);
  std::vector<uint32_t> numbers(count);
  std::vector<PayloadSum> sums(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = slots[i].ref().index;
    sums[i] = returning.blocks[i].sum;
    moving->blocks[i] = {.slot = slots[i].ref(),
                         .bytes = returning.blocks[i].slot.bytes(),
                         .gpu = std::move(slots[i]),
                         .host = std::move(returning.blocks[i].slot)};
  }
  moving->sums = std::move(sums);
  co_await MoveAll(moving);
  KVT_CO_RETURN_IF_ERROR(EndCopyBack(request.id, moving));
  // The session may have been granted other slots meanwhile.
  if (status = gpu->grants().CheckRoom(request.session, wanted); !status.ok()) {
    const bool stays = StayOut(request.id, moving.get());
    co_return stays ? status : Lost(request.id, "the device was lost");
  }
  if (!parts_.swapped->EndReturn(request.id)) co_return Unwanted(request.session, request.id);
  for (size_t i = request.slots.size(); i < count; ++i) {
    gpu->grants().Grant(request.session, std::move(moving->blocks[i].gpu));
  }
  co_return numbers;
}

absl::Status SequenceSwapper::EndCopyBack(SwapId id, const std::shared_ptr<Moving>& moving) {
  if (!moving->done.is_set()) {
    parts_.scope->Spawn(EndLate(id, moving));
    return absl::UnavailableError("swapping in: this agent is stopping; recompute the sequence");
  }
  if (moving->is_damaged) {
    parts_.swapped->Lose(id);
    return Lost(id, "its bytes in host memory were damaged");
  }
  if (moving->status.ok()) return absl::OkStatus();
  if (!StayOut(id, moving.get())) return Lost(id, "the device was lost while it was copied");
  return absl::AbortedError(
      absl::StrCat("swapping in: the copy failed: ", moving->status.message()));
}

Task<void> SequenceSwapper::EndLate(SwapId id, std::shared_ptr<Moving> moving) {
  co_await moving->done.WaitUntil(absl::InfiniteFuture());
  if (moving->way == Way::kOut) {
    parts_.swapped->GiveUp(id);
  } else if (moving->is_damaged) {
    parts_.swapped->Lose(id);
  } else {
    StayOut(id, moving.get());
  }
}

bool SequenceSwapper::StayOut(SwapId id, Moving* moving) {
  std::vector<SwappedBlock> blocks(moving->blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    // The copy of a lost device may still use the slot, which then stays with that copy
    // (GpuCopies).
    if (!moving->blocks[i].host) {
      parts_.swapped->Lose(id);
      return false;
    }
    blocks[i] = {.slot = std::move(moving->blocks[i].host), .sum = moving->sums[i]};
  }
  parts_.swapped->StayOut(id, std::move(blocks));
  return true;
}

}  // namespace kvtier

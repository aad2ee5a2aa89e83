#include "agent/flows/put.h"

#include <algorithm>
#include <utility>

#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {

struct Putter::Committing {
  explicit Committing(Executor* executor) : done(executor) {}
  size_t left = 0;
  size_t committed = 0;
  Event done;
};

absl::Status Putter::CheckTarget(const BlockRun& run, Tier target) const {
  if (target == Tier::kGpu && parts_.gpus->For(run) == nullptr) {
    return absl::InvalidArgumentError(
        "target: no GPU pool of this node has slots for blocks of this space; ask for TIER_HOST");
  }
  return absl::OkStatus();
}

Task<DiskPromises::Put> Putter::PromisedOf(const BlockRun& run, Tier target) const {
  DiskPromises::Put put{.session = run.session, .domain = run.domain};
  uint64_t first = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < run.keys.size(); ++i) {
    if (i > 0 && i % kKeysPerTurn == 0) co_await parts_.turns->GiveWay(run.payer());
    const BlockKey& key = run.keys[i];
    const BlockRoom room = parts_.evictor->RoomFor(run.domain, run.lengths, run.LengthOf(i));
    if (IsHere(key, target) || parts_.reservations->IsPending(key) ||
        !parts_.offloader->WouldPromise(key, room.length)) {
      continue;
    }
    if (put.blocks == 0) first = room.slot_bytes;
    bytes += room.slot_bytes;
    ++put.blocks;
  }
  // The mean gives room for all blocks. It is no less than the first block's slot, so that any
  // grant is enough for one block.
  if (put.blocks > 0) put.slot_bytes = std::max(first, (bytes + put.blocks - 1) / put.blocks);
  co_return put;
}

Task<absl::StatusOr<Reserved>> Putter::ReserveBy(BlockRun run, Tier target, absl::Time deadline) {
  KVT_CO_RETURN_IF_ERROR(CheckTarget(run, target));
  DiskQueueRoom room;
  if (parts_.offloader != nullptr) {
    const DiskPromises::Put promised = co_await PromisedOf(run, target);
    if (promised.blocks > 0) room = co_await parts_.promises->Await(promised, deadline);
  }
  KVT_CO_RETURN_IF_ERROR(CheckSession(run.session));
  Reserving reserving = BeginReserving(target, std::move(room));
  for (size_t first = 0; first < run.keys.size(); first += kKeysPerTurn) {
    if (first > 0) {
      co_await parts_.turns->GiveWay(run.payer());
      // If the session ended, its reservations so far have ended with it.
      KVT_CO_RETURN_IF_ERROR(CheckSession(run.session));
    }
    KVT_CO_RETURN_IF_ERROR(ReserveSome(run, first, kKeysPerTurn, &reserving));
  }
  if (target == Tier::kGpu) parts_.gpus->For(run)->Pump();
  co_return std::move(reserving.reserved);
}

absl::StatusOr<Reserved> Putter::Reserve(const BlockRun& run, Tier target, DiskQueueRoom room) {
  KVT_RETURN_IF_ERROR(CheckTarget(run, target));
  Reserving reserving = BeginReserving(target, std::move(room));
  KVT_RETURN_IF_ERROR(ReserveSome(run, 0, run.keys.size(), &reserving));
  if (target == Tier::kGpu) parts_.gpus->For(run)->Pump();
  return std::move(reserving.reserved);
}

Putter::Reserving Putter::BeginReserving(Tier target, DiskQueueRoom room) const {
  return {.target = target,
          .room = std::move(room),
          .reserved = {.deadline = parts_.executor->Now() + kReservationDuration}};
}

absl::Status Putter::CheckSession(SessionId session) const {
  if (parts_.sessions->IsOpen(session)) return absl::OkStatus();
  return absl::FailedPreconditionError("the session ended while its put waited; open another");
}

absl::Status Putter::ReserveSome(const BlockRun& run, size_t first, size_t count,
                                 Reserving* reserving) {
  const size_t end = first + std::min(count, run.keys.size() - first);
  std::vector<ReservedBlock>& blocks = reserving->reserved.blocks;
  for (size_t i = first; i < end; ++i) {
    if (reserving->is_over) {
      parts_.stats->host.declined += end - i;
      blocks.insert(blocks.end(), end - i, {.state = ReservedBlock::State::kNoRoom});
      break;
    }
    KVT_ASSIGN_OR_RETURN(const ReservedBlock block, ReserveOne(run, i, reserving));
    reserving->is_over =
        block.state == ReservedBlock::State::kNoRoom && EndsWithoutRoom(run, *reserving);
    blocks.push_back(block);
  }
  return absl::OkStatus();
}

bool Putter::EndsWithoutRoom(const BlockRun& run, const Reserving& reserving) const {
  // Above a disk there is room again as soon as a block was written, and the learnt order must be
  // told of each block that it refuses: there the later blocks are tried, too.
  return parts_.offloader == nullptr && reserving.target == Tier::kHost && !run.is_set &&
         !reserving.refused;
}

absl::StatusOr<ReservedBlock> Putter::ReserveOne(const BlockRun& run, size_t i,
                                                 Reserving* reserving) {
  const Tier target = reserving->target;
  const BlockKey& key = run.keys[i];
  const BlockRoom room = parts_.evictor->RoomFor(run.domain, run.lengths, run.LengthOf(i));
  if (IsHere(key, target)) return ReservedBlock{.state = ReservedBlock::State::kPresent};
  if (parts_.reservations->IsPending(key)) {
    return ReservedBlock{.state = ReservedBlock::State::kPending};
  }
  // A block that a disk has is there also where memory has no room for it.
  const ReservedBlock refused{.state = parts_.index->In(Tier::kDisk, key)
                                           ? ReservedBlock::State::kPresent
                                           : ReservedBlock::State::kNoRoom};
  PendingBlock block{
      .meta = {.key = key, .parent = run.ParentOf(i), .space = run.space, .length = room.length},
      .domain = run.domain,
      .member = run.member,
      .hint = run.hint};
  // The promise comes first, so that a block that is refused evicts nothing.
  if (parts_.offloader != nullptr && parts_.offloader->WouldPromise(key, room.length)) {
    block.room = reserving->room.SplitOne(room.slot_bytes);
    if (!block.room) block.room = parts_.promises->Take(run.domain, room.slot_bytes, 1);
    if (!block.room) {
      parts_.promises->Refused(1);
      return refused;
    }
  }
  uint64_t offset = 0;
  if (target == Tier::kGpu) {
    block.on = parts_.gpus->For(run);
    absl::StatusOr<GpuTier::Reserved> room_in_pool = block.on->Reserve(run.session);
    if (!room_in_pool.ok()) return refused;
    block.gpu = std::move(room_in_pool->slot);
    block.writer = std::move(room_in_pool->writer);
    offset = block.gpu.offset();
  } else {
    const Wanted wanted{.room = room, .followers = static_cast<uint32_t>(run.keys.size() - i - 1)};
    const absl::StatusOr<uint64_t> place = ReserveInHost(run.session, wanted, reserving, &block);
    if (absl::IsInvalidArgument(place.status())) return place.status();
    if (!place.ok()) return refused;
    offset = *place;
  }
  const absl::StatusOr<ReservationId> id =
      parts_.reservations->Add(run.session, std::move(block), reserving->reserved.deadline);
  if (!id.ok()) return refused;
  return ReservedBlock{.state = ReservedBlock::State::kReserved, .id = *id, .offset = offset};
}

absl::StatusOr<HostSlot> Putter::TakeHostSlot(const Wanted& wanted, const PendingBlock& block,
                                              Reserving* reserving) {
  // A node with disks refuses nothing: a disk gets the block through host memory.
  if (parts_.offloader != nullptr) return parts_.evictor->ReserveHost(block.domain, wanted.room);
  // The ancestors of the pinned block have a child and stay, too. Reserved blocks are in no order
  // of eviction yet.
  const std::vector<ReservedBlock>& before = reserving->reserved.blocks;
  if (before.empty() || before.back().state == ReservedBlock::State::kPresent) {
    const std::optional<BlockKey>& parent = block.meta.parent;
    std::optional<Pin> pin = parent.has_value() ? parts_.index->PinOf(*parent) : std::nullopt;
    if (pin.has_value()) reserving->prefix = *std::move(pin);
  }
  absl::StatusOr<HostSlot> slot = parts_.evictor->ReserveHostFor(
      block.domain, wanted.room,
      {.meta = &block.meta,
       .slot_bytes = wanted.room.slot_bytes,
       .followers = wanted.followers,
       .parent_refused = reserving->refused && block.meta.parent.has_value(),
       .hint = block.hint});
  reserving->refused = reserving->refused || absl::IsFailedPrecondition(slot.status());
  return slot;
}

absl::StatusOr<uint64_t> Putter::ReserveInHost(SessionId session, const Wanted& wanted,
                                               Reserving* reserving, PendingBlock* block) {
  // The staging region comes first, so that a block without room to be written in evicts nothing.
  if (parts_.staging->enabled()) {
    block->staged = parts_.staging->Take(session, SlotBytes(wanted.room.length));
  }
  const bool nowhere = parts_.staging->enabled() && !block->staged;
  if (nowhere || parts_.reservations->TooMuchIsLate(block->domain)) {
    ++parts_.stats->host.declined;
    return absl::ResourceExhaustedError(
        "the session has no memory left to write a block in; commit or abort other puts first");
  }
  KVT_ASSIGN_OR_RETURN(block->host, TakeHostSlot(wanted, *block, reserving));
  return block->staged ? block->staged.offset() : block->host.offset().value;
}

bool Putter::IsHere(const BlockKey& key, Tier target) const {
  if (target == Tier::kGpu && parts_.index->In(Tier::kGpu, key)) return true;
  return parts_.index->In(Tier::kHost, key);
}

absl::Status Putter::CheckStep(SessionId session, uint64_t step) const {
  if (step == 0) return absl::OkStatus();
  return parts_.gpus->CheckStep(session, step);
}

bool Putter::IsReady(const PendingBlock& block) { return block.summed && !block.staged; }

Task<size_t> Putter::Commit(SessionId session, std::vector<ReservationId> ids, uint64_t step) {
  // Without its session the reservations are over.
  if (!parts_.sessions->IsOpen(session)) co_return 0;
  const DomainId payer = parts_.sessions->PayerOf(session);
  const auto committing = std::make_shared<Committing>(parts_.executor);
  if (step > 0) {
    std::vector<ReservationId> awaited;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i > 0 && i % kKeysPerTurn == 0) co_await parts_.turns->GiveWay(payer);
      if (parts_.reservations->Await(session, ids[i])) awaited.push_back(ids[i]);
    }
    if (awaited.empty()) co_return 0;
    parts_.scope->Spawn(CommitAfterStep(session, step, std::move(awaited), committing));
  } else {
    std::vector<PendingBlock> blocks;
    std::span<const ReservationId> left = ids;
    while (!left.empty()) {
      const std::span<const ReservationId> some = left.first(std::min(left.size(), kKeysPerTurn));
      left = left.subspan(some.size());
      CommitSome(session, some, committing.get(), &blocks);
      if (!left.empty()) co_await parts_.turns->GiveWay(payer);
    }
    if (blocks.empty()) co_return committing->committed;
    co_await CommitAll(std::move(blocks), committing);
  }
  co_await parts_.waits->Until(&committing->done, parts_.executor->Now() + kCommitTimeout);
  co_return committing->committed;
}

void Putter::CommitSome(SessionId session, std::span<const ReservationId> ids,
                        Committing* committing, std::vector<PendingBlock>* unready) {
  for (const ReservationId id : ids) {
    const PendingBlock* const block = parts_.reservations->Find(session, id);
    if (block == nullptr) continue;
    parts_.index->PrefetchCacheLines(block->domain, block->meta.key);
  }
  const absl::Time now = parts_.index->Now();
  for (const ReservationId id : ids) {
    PendingBlock* const block = parts_.reservations->Find(session, id);
    if (block == nullptr) continue;
    if (IsReady(*block)) {
      Publish(block, now);
      parts_.reservations->End(id);
      ++committing->committed;
    } else {
      unready->push_back(*parts_.reservations->Take(session, id));
    }
  }
}

Task<void> Putter::CommitAll(std::vector<PendingBlock> blocks,
                             std::shared_ptr<Committing> committing) {
  committing->left = blocks.size();
  const absl::Time now = parts_.index->Now();
  std::vector<PendingBlock> in_gpu;
  for (size_t i = 0; i < blocks.size(); ++i) {
    PendingBlock& block = blocks[i];
    if (i > 0 && i % kKeysPerTurn == 0) co_await parts_.turns->GiveWay(block.payer());
    if (block.gpu) {
      in_gpu.push_back(std::move(block));
      if (in_gpu.size() < kMaxBlocksGathered) continue;
      parts_.scope->Spawn(CommitGathered(std::exchange(in_gpu, {}), committing));
    } else if (IsReady(block)) {
      Publish(&block, now);
      ++committing->committed;
      Finish(block.meta.key, committing.get());
    } else {
      // All commits begin at once, so that the checksums run side by side on the byte threads.
      parts_.scope->Spawn(CommitOne(std::move(block), committing));
    }
  }
  if (!in_gpu.empty()) parts_.scope->Spawn(CommitGathered(std::move(in_gpu), committing));
}

Task<void> Putter::CommitGathered(std::vector<PendingBlock> blocks,
                                  std::shared_ptr<Committing> committing) {
  std::vector<CopiedBlock> copies(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    copies[i].meta = blocks[i].meta;
    copies[i].gpu = std::move(blocks[i].gpu);
  }
  // The blocks belong to one session, which works on one GPU.
  co_await blocks.front().on->Gather(&copies);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].gpu = std::move(copies[i].gpu);
    blocks[i].host = std::move(copies[i].host);
    if (blocks[i].host) {
      parts_.scope->Spawn(CommitOne(std::move(blocks[i]), committing));
    } else {
      Finish(blocks[i].meta.key, committing.get());
    }
  }
}

Task<void> Putter::CommitAfterStep(SessionId session, uint64_t step, std::vector<ReservationId> ids,
                                   std::shared_ptr<Committing> committing) {
  // The wait ends before Commit() does, so that its answer says what has become of the slots.
  const absl::Time deadline = parts_.executor->Now() + kCommitTimeout - kStepPollInterval;
  if (co_await parts_.gpus->AwaitStep(session, step, deadline)) {
    std::vector<PendingBlock> blocks;
    blocks.reserve(ids.size());
    for (const ReservationId id : ids) {
      blocks.push_back(parts_.reservations->TakeAwaited(id));
    }
    co_await CommitAll(std::move(blocks), committing);
    co_return;
  }
  for (const ReservationId id : ids) parts_.reservations->GiveUpAwaited(id);
  committing->done.Set();
}

Task<void> Putter::CommitOne(PendingBlock block, std::shared_ptr<Committing> committing) {
  const std::span<std::byte> slot = block.host.bytes();
  const uint64_t length = block.meta.length;
  PayloadSum sum;
  ByteThreads::Work pass = [&block, &sum, slot, length] {
    sum =
        block.staged ? CopyToSlot(slot, block.staged.bytes().first(length)) : SumSlot(slot, length);
  };
  const absl::Time start = parts_.executor->Now();
  co_await parts_.byte_threads->Run(std::move(pass));
  if (block.staged) ++parts_.stats->staged_blocks;
  // The staged room is free before the answer, so that the worker's next put finds it.
  block.staged.Release();
  parts_.stats->host.write_latency.Record(parts_.executor->Now() - start);
  if (block.summed && block.meta.sum != sum) {
    ++parts_.stats->refused_sums;
    block.host.Release();
  } else {
    block.meta.sum = sum;
    Publish(&block, parts_.index->Now());
    ++committing->committed;
  }
  Finish(block.meta.key, committing.get());
}

void Putter::Publish(PendingBlock* block, absl::Time now) {
  // A fetch of the same block may have come first.
  if (!parts_.index->In(Tier::kHost, block->meta.key)) {
    parts_.index->PublishHost(block->meta, std::move(block->host), Arrival::kComputed, block->hint,
                              now);
  }
  if (block->gpu) block->on->Publish(block->meta, std::move(block->gpu), block->hint);
  // The request may have ended while its last blocks were on their way.
  if (const auto advice = parts_.reservations->AdviceFor(block->meta.key)) {
    parts_.index->Advise({&block->meta.key, 1}, *advice);
  }
  ++parts_.stats->host.inserts;
  parts_.stats->host.bytes_in += block->meta.length;
  if (parts_.offloader != nullptr) {
    parts_.offloader->Committed(block->meta.key, std::move(block->room));
  }
}

void Putter::Finish(const BlockKey& key, Committing* committing) {
  parts_.reservations->Finish(key);
  if (--committing->left == 0) committing->done.Set();
}

}  // namespace kvtier

#include "agent/flows/memory_mover.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "agent/sessions/fair_turns.h"
#include "core/event.h"
#include "core/log.h"

namespace kvtier {

Task<void> MemoryMover::Run() {
  while (!parts_.waits->ended()) {
    co_await ReturnStrays();
    while (running_ < kMaxSlabMoves) {
      const std::optional<SlabMove> move = NextMove();
      if (!move.has_value()) break;
      ++running_;
      parts_.shares->Begin(*move);
      parts_.scope->Spawn(Carry(*move));
    }
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
  }
}

std::optional<SlabMove> MemoryMover::NextMove() const {
  // A slab that leaves the node needs no memory.
  if (parts_.executor->Now() < no_memory_until_) return parts_.shares->NextToLeave(*parts_.host);
  const std::optional<SlabMove> move = parts_.shares->Next(*parts_.host);
  if (move.has_value() || !fills_all_) return move;
  return parts_.shares->NextToFill(*parts_.host);
}

void MemoryMover::FillAll() {
  fills_all_ = true;
  failure_.clear();
  no_memory_until_ = absl::InfinitePast();
}

Task<void> MemoryMover::Carry(SlabMove move) {
  HostShares::Outcome outcome = HostShares::Outcome::kMoved;
  if (move.from.has_value() && !co_await TakeFrom(move)) outcome = HostShares::Outcome::kStayed;
  const bool arrives = outcome == HostShares::Outcome::kMoved && move.to.has_value();
  const Room room = move.from.has_value() ? Room::kIsThere : Room::kIsUnknown;
  if (arrives) co_await GiveTo(*move.to, room);
  parts_.shares->End(move, outcome);
  --running_;
}

Task<bool> MemoryMover::TakeFrom(SlabMove move) {
  const DomainId domain = *move.from;
  const SlotPool& slots = parts_.host->slots(domain);
  std::optional<uint32_t> chosen = slots.LastFree();
  if (!chosen.has_value()) chosen = parts_.index->host_order(domain).SlabToEmpty(slots);
  if (!chosen.has_value()) {
    // All slabs of the domain are about to leave. Nothing changes before one of them has left.
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
    co_return false;
  }
  const Slab slab(domain, *chosen);
  parts_.host->CloseSlab(domain, *chosen);
  parts_.index->OrderNow(domain).BeginLeaving(*chosen);
  const bool empty = co_await Drain(slab, move);
  parts_.index->OrderNow(domain).EndLeaving(*chosen);
  if (!empty) {
    parts_.host->ReopenSlab(domain, *chosen);
    co_return false;
  }
  parts_.shares->NoteRemoved();
  co_await Remove(slab);
  co_return true;
}

Task<void> MemoryMover::Remove(Slab slab) {
  const auto [domain, number] = slab;
  parts_.host->RemoveSlab(domain, number);
  TellCapacity(domain);
  between_.insert(slab);
  const std::span<std::byte> bytes = parts_.host->BytesOf(domain, number);
  co_await parts_.disks->RemoveMemory(bytes);
  ByteThreads::Work empty = [arena = parts_.host->ArenaOf(domain),
                             offset = number * parts_.host->slab_bytes(),
                             length = bytes.size()] { arena->Empty(offset, length); };
  co_await parts_.memory->Run(std::move(empty));
  between_.erase(slab);
}

Task<void> MemoryMover::EndDomain(DomainId domain) {
  const SlotPool& slots = parts_.host->slots(domain);
  // Threads fill and empty slabs that are absent, so the arena outlasts these, too.
  while (slots.present_slabs() > 0 || SlabsBetween(domain) > 0) {
    const std::optional<uint32_t> slab = slots.LastFree();
    if (slab.has_value()) {
      parts_.host->CloseSlab(domain, *slab);
      co_await Remove({domain, *slab});
    } else {
      // Slabs that are already on their way to other domains leave by themselves.
      co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
    }
  }
  std::unique_ptr<Arena> arena = parts_.host->DropDomain(domain);
  ByteThreads::Work unmap = [&arena] { arena.reset(); };
  co_await parts_.memory->Run(std::move(unmap));
}

Task<bool> MemoryMover::Drain(Slab slab, SlabMove move) {
  const auto [domain, number] = slab;
  const absl::Time deadline = parts_.executor->Now() + kSlabLeaveTimeout;
  while (true) {
    if (!move.to.has_value() && parts_.shares->MayStay(domain, *parts_.host)) co_return false;
    // Blocks that leave with the node's memory leave for no tenant.
    const DomainId cause = move.to.value_or(domain);
    co_await MoveWorthier(slab, cause);
    parts_.evictor->EvictSlab(domain, number, cause);
    co_await MoveKept(slab);
    if (parts_.host->slots(domain).UseOf(number).used == 0) co_return true;
    if (parts_.waits->ended()) co_return false;
    if (parts_.executor->Now() >= deadline) {
      ++figures_.timed_out;
      co_return false;
    }
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
  }
}

std::optional<BlockRoom> MemoryMover::RoomToMove(const BlockKey& key, Slab slab) const {
  const HostBlock* const block = parts_.index->Find(key);
  // The block may have left, or be read, since the list that names it was made.
  if (block == nullptr || block->slot.domain() != slab.first || block->slot.slab() != slab.second ||
      block->pins > 0) {
    return std::nullopt;
  }
  return BlockRoom{.length = block->meta.length, .slot_bytes = block->slot.slot_bytes()};
}

Task<void> MemoryMover::MoveWorthier(Slab slab, DomainId cause) {
  const auto [domain, number] = slab;
  size_t evicted = 0;
  // The most recently used blocks are copied first, so that few copies are evicted for later blocks
  // of this slab.
  for (const BlockKey& key : parts_.index->host_order(domain).LatestUsedOf(number)) {
    if (parts_.index->IsKept(key)) continue;
    while (const std::optional<BlockRoom> room = RoomToMove(key, slab)) {
      absl::StatusOr<HostSlot> slot = parts_.host->Reserve(domain, *room);
      if (slot.ok()) {
        co_await MoveOne(key, *std::move(slot));
        break;
      }
      // The evicted block may be the one that is to be copied.
      if (!parts_.evictor->EvictNext(domain, room->slot_bytes, cause)) co_return;
      // No long turn: others' calls come in between.
      if (++evicted % kKeysPerTurn > 0) continue;
      co_await SleepUntil(parts_.executor, parts_.executor->Now());
    }
  }
}

Task<void> MemoryMover::MoveKept(Slab slab) {
  const auto [domain, number] = slab;
  for (const BlockKey& key : parts_.index->host_order(domain).BlocksOf(number)) {
    // ReserveHost() may evict a block that is not kept, also this one. EvictSlab() drops it next.
    if (!parts_.index->IsKept(key)) continue;
    const std::optional<BlockRoom> room = RoomToMove(key, slab);
    if (!room.has_value()) continue;
    absl::StatusOr<HostSlot> slot = parts_.evictor->ReserveHost(domain, *room);
    if (!slot.ok()) co_return;  // All blocks of the domain are held.
    co_await MoveOne(key, *std::move(slot));
  }
}

Task<void> MemoryMover::MoveOne(BlockKey key, HostSlot slot) {
  const DomainId domain = slot.domain();
  const uint64_t erasures = parts_.index->erasures(domain);
  Pin pin = *parts_.index->PinOf(key);
  const BlockMeta meta = pin.block().meta;
  const std::span<const std::byte> from = parts_.index->Find(key)->slot.bytes();
  PayloadSum sum;
  ByteThreads::Work copy = [&sum, to = slot.bytes(), from, length = meta.length] {
    sum = CopyToSlot(to, from.first(length));
  };
  co_await parts_.byte_threads->Run(std::move(copy));
  const bool is_condemned = pin.block().is_condemned;
  pin.Release();
  // Another block may have the key of a condemned one by now.
  if (is_condemned) co_return;
  if (parts_.index->IsPinned(key)) co_return;  // The block's turn comes again.
  const bool is_whole = sum == meta.sum && parts_.index->erasures(domain) == erasures;
  if (!is_whole) {
    parts_.evictor->DropFromHost(key);
    co_return;
  }
  parts_.index->MoveTo(key, std::move(slot)).Release();
  ++figures_.copied;
}

std::optional<uint32_t> MemoryMover::AbsentSlabOf(DomainId domain) const {
  for (const uint32_t slab : parts_.host->slots(domain).absent_slabs()) {
    if (!between_.contains({domain, slab})) return slab;
  }
  return std::nullopt;
}

Task<void> MemoryMover::FillNew(DomainId domain, uint64_t slabs) {
  for (; slabs > 0 && !parts_.waits->ended(); --slabs) {
    co_await GiveTo(domain, Room::kIsThere);
  }
}

Task<void> MemoryMover::GiveTo(DomainId domain, Room room) {
  const std::optional<uint32_t> chosen = AbsentSlabOf(domain);
  if (!chosen.has_value()) {
    // The domain's last slabs are on their way out.
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
    co_return;
  }
  const Slab slab(domain, *chosen);
  between_.insert(slab);
  const absl::Status filled = co_await Fill(slab, room);
  if (!filled.ok()) {
    Log(LogLevel::kWarning, absl::StrCat("host memory does not grow: ", filled.message()));
    failure_ = std::string(filled.message());
    no_memory_until_ = parts_.executor->Now() + kNoMemoryRetryInterval;
    between_.erase(slab);
    co_return;
  }
  co_await parts_.disks->AddMemory(parts_.host->BytesOf(domain, *chosen));
  parts_.host->AddSlab(domain, *chosen);
  between_.erase(slab);
  if (parts_.shares->Of(domain).maximum == 0) {
    // The domain's tenant was dropped meanwhile.
    parts_.host->CloseSlab(domain, *chosen);
    co_await Remove(slab);
    co_return;
  }
  TellCapacity(domain);
  ++figures_.moved;
}

Task<absl::Status> MemoryMover::Fill(Slab slab, Room room) {
  const auto [domain, number] = slab;
  absl::Status filled;
  auto* const free_memory = room == Room::kIsUnknown ? parts_.free_memory : nullptr;
  ByteThreads::Work fill = [&filled, arena = parts_.host->ArenaOf(domain),
                            offset = number * parts_.host->slab_bytes(),
                            length = parts_.host->slab_bytes(), free_memory] {
    const uint64_t free = free_memory == nullptr ? UINT64_MAX : free_memory();
    filled = free >= length + kFreeMemoryLeft
                 ? arena->Fill(offset, length)
                 : absl::ResourceExhaustedError(absl::StrCat(
                       "the system has ", free, " bytes left for the agent, and a slab needs ",
                       length, " and ", kFreeMemoryLeft, " that stay free; free some memory"));
  };
  co_await parts_.memory->Run(std::move(fill));
  co_return filled;
}

size_t MemoryMover::SlabsBetween(DomainId domain) const {
  return static_cast<size_t>(std::ranges::count(between_, domain, &Slab::first));
}

void MemoryMover::TellCapacity(DomainId domain) {
  DiskPromises* const promises = parts_.disks->promises();
  if (promises == nullptr) return;
  promises->SetCapacity(domain, parts_.host->slots(domain).capacity_bytes());
}

Task<void> MemoryMover::ReturnStrays() {
  if (parts_.executor->Now() < next_look_) co_return;
  next_look_ = parts_.executor->Now() + kStrayInterval;
  for (size_t i = 0; i < parts_.host->domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (!parts_.host->HasArena(domain)) continue;
    const SlotPool& slots = parts_.host->slots(domain);
    Arena* const arena = parts_.host->ArenaOf(domain);
    const uint64_t held = arena->held_bytes();
    const uint64_t expected =
        slots.capacity_bytes() + SlabsBetween(domain) * parts_.host->slab_bytes();
    if (held <= expected) continue;
    std::vector<uint32_t> strays;
    for (const uint32_t slab : slots.absent_slabs()) {
      if (between_.insert({domain, slab}).second) strays.push_back(slab);
    }
    ByteThreads::Work empty = [arena, &strays, slab_bytes = parts_.host->slab_bytes()] {
      for (const uint32_t slab : strays) arena->Empty(slab * slab_bytes, slab_bytes);
    };
    co_await parts_.memory->Run(std::move(empty));
    for (const uint32_t slab : strays) between_.erase({domain, slab});
    figures_.stray_bytes += held - expected;
  }
}

}  // namespace kvtier

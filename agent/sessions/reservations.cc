#include "agent/sessions/reservations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/space.h"

namespace kvtier {
namespace {

// Returns the bytes of memory that is not the worker's own and that it may write.
uint64_t BytesOf(const PendingBlock& block) {
  if (block.staged) return 0;
  return block.gpu ? SlotBytes(block.meta.length) : block.host.slot_bytes();
}

}  // namespace

absl::StatusOr<ReservationId> ReservationTable::Add(SessionId session, PendingBlock block,
                                                    absl::Time deadline) {
  const DomainId payer = block.payer();
  if (!shares_.MayTake(payer)) return shares_.Refuse("reservations", payer);
  size_t& count = counts_[session];
  if (count >= kMaxReservationsPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("reservations: the session holds ", kMaxReservationsPerSession,
                     ", the most that it may; commit or abort some"));
  }
  ++count;
  shares_.Take(payer);
  KVT_CHECK(pending_keys_.insert(block.meta.key).second);
  return reserved_.Add({.session = session, .block = std::move(block)}, deadline);
}

void ReservationTable::Finish(const BlockKey& key) {
  pending_keys_.erase(key);
  if (!advice_.empty()) advice_.erase(key);
}

void ReservationTable::Advise(std::span<const BlockKey> keys, const ReuseHint& hint) {
  for (const BlockKey& key : keys) {
    if (IsPending(key)) advice_[key] = hint;
  }
}

std::optional<ReuseHint> ReservationTable::AdviceFor(const BlockKey& key) const {
  if (advice_.empty()) return std::nullopt;
  const auto found = advice_.find(key);
  if (found == advice_.end()) return std::nullopt;
  return found->second;
}

void ReservationTable::Erase(ReservationId id, const Reserved& reserved) {
  const auto count = counts_.find(reserved.session);
  if (--count->second == 0) counts_.erase(count);
  if (reserved.late) LateBytesOf(reserved.block) -= BytesOf(reserved.block);
  shares_.GiveBack(reserved.block.payer());
  reserved_.Erase(id);
}

PendingBlock ReservationTable::TakeOut(ReservationId id, Reserved* reserved) {
  PendingBlock block = std::move(reserved->block);
  Erase(id, *reserved);
  return block;
}

ReservationTable::Reserved* ReservationTable::FindOpen(SessionId session, ReservationId id) {
  Reserved* const reserved = reserved_.Find(id);
  const bool open = reserved != nullptr && reserved->session == session && !reserved->late &&
                    !reserved->awaits_step;
  return open ? reserved : nullptr;
}

ReservationTable::Reserved* ReservationTable::FindAwaited(ReservationId id) {
  Reserved* const reserved = reserved_.Find(id);
  KVT_CHECK(reserved != nullptr && reserved->awaits_step);
  return reserved;
}

PendingBlock* ReservationTable::Find(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  return reserved == nullptr ? nullptr : &reserved->block;
}

void ReservationTable::End(ReservationId id) {
  const Reserved& reserved = *reserved_.Find(id);
  Finish(reserved.block.meta.key);
  Erase(id, reserved);
}

std::optional<PendingBlock> ReservationTable::Take(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  if (reserved == nullptr) return std::nullopt;
  return TakeOut(id, reserved);
}

std::vector<BlockKey> ReservationTable::KeysOf(SessionId session,
                                               std::span<const ReservationId> ids) {
  std::vector<BlockKey> keys;
  for (const ReservationId id : ids) {
    if (const PendingBlock* const block = Find(session, id)) keys.push_back(block->meta.key);
  }
  return keys;
}

void ReservationTable::NoteSum(SessionId session, ReservationId id, const PayloadSum& sum) {
  PendingBlock* const block = Find(session, id);
  if (block == nullptr || block->gpu) return;
  block->meta.sum = sum;
  block->summed = true;
}

bool ReservationTable::Await(SessionId session, ReservationId id) {
  Reserved* const reserved = FindOpen(session, id);
  if (reserved == nullptr) return false;
  reserved_.DropDeadline(id);
  reserved->awaits_step = true;
  return true;
}

PendingBlock ReservationTable::TakeAwaited(ReservationId id) {
  return TakeOut(id, FindAwaited(id));
}

void ReservationTable::GiveUpAwaited(ReservationId id) {
  Reserved* const reserved = FindAwaited(id);
  reserved->awaits_step = false;
  GiveBack(id, reserved, gpus_->StepsOf(reserved->session));
}

void ReservationTable::GiveBack(ReservationId id, Reserved* reserved, const BegunSteps& steps) {
  if (reserved->awaits_step) return;
  if (steps.ended() || reserved->block.writer) {
    if (!reserved->late) Finish(reserved->block.meta.key);
    Erase(id, *reserved);
    return;
  }
  if (!reserved->late) MakeLate(id, reserved);
  // A slot that is given back a second time still waits for the steps of the first time.
  if (!reserved->written_by.has_value()) {
    reserved->written_by = steps;
    given_back_.push_back(id);
  }
}

void ReservationTable::Release(SessionId session, std::span<const ReservationId> ids) {
  const BegunSteps steps = gpus_->StepsOf(session);
  for (const ReservationId id : ids) {
    Reserved* const reserved = reserved_.Find(id);
    if (reserved != nullptr && reserved->session == session) GiveBack(id, reserved, steps);
  }
}

size_t ReservationTable::GiveBackUnwritten(SessionId session, std::span<const ReservationId> ids) {
  if (ids.empty()) return 0;
  size_t unwritten = 0;
  for (const ReservationId id : ids) {
    const PendingBlock* const block = Find(session, id);
    if (block == nullptr) continue;
    ++(block->gpu ? unwritten_gpu_blocks_ : unwritten_host_blocks_);
    ++unwritten;
  }
  Release(session, ids);
  return unwritten;
}

void ReservationTable::ForEachOf(SessionId session,
                                 absl::FunctionRef<void(ReservationId, Reserved*)> visit) {
  if (!counts_.contains(session)) return;
  reserved_.ForEach([&](ReservationId id, Reserved& reserved) {
    if (reserved.session == session) visit(id, &reserved);
  });
}

void ReservationTable::ReleaseAll(SessionId session) {
  const BegunSteps steps = gpus_->StepsOf(session);
  ForEachOf(session, [&](ReservationId id, Reserved* reserved) { GiveBack(id, reserved, steps); });
}

void ReservationTable::Sweep() {
  std::erase_if(given_back_, [this](ReservationId id) {
    const Reserved* const reserved = reserved_.Find(id);
    if (reserved == nullptr) return true;
    if (!reserved->written_by->ended()) return false;
    Erase(id, *reserved);
    return true;
  });
}

size_t ReservationTable::EndSession(SessionId session) {
  ForEachOf(session, [this](ReservationId id, Reserved* ended) {
    if (ended->awaits_step) return;
    if (ended->block.staged) {
      if (!ended->late) Finish(ended->block.meta.key);
      Erase(id, *ended);
    } else if (!ended->late) {
      MakeLate(id, ended);
    }
  });
  const auto left = counts_.find(session);
  return left == counts_.end() ? 0 : left->second;
}

size_t ReservationTable::Expire(absl::Time now, size_t limit) {
  size_t expired = 0;
  for (; expired < limit; ++expired) {
    const auto id = reserved_.Overdue(now);
    if (!id.has_value()) break;
    MakeLate(*id, reserved_.Find(*id));
  }
  return expired;
}

void ReservationTable::MakeLate(ReservationId id, Reserved* reserved) {
  reserved_.DropDeadline(id);
  reserved->late = true;
  LateBytesOf(reserved->block) += BytesOf(reserved->block);
  Finish(reserved->block.meta.key);
  reserved->block.room.Release();
  // Nobody writes there.
  if (reserved->block.staged) reserved->block.host.Release();
}

uint64_t& ReservationTable::LateBytesOf(const PendingBlock& block) {
  return block.gpu ? late_gpu_bytes_ : late_host_bytes_[block.domain];
}

uint64_t ReservationTable::late_bytes(Tier tier) const {
  if (tier == Tier::kGpu) return late_gpu_bytes_;
  uint64_t bytes = 0;
  for (const auto& [domain, late] : late_host_bytes_) bytes += late;
  return bytes;
}

bool ReservationTable::TooMuchIsLate(DomainId domain) const {
  const auto late = late_host_bytes_.find(domain);
  return late != late_host_bytes_.end() &&
         late->second >= max_late_bytes_.at(static_cast<size_t>(domain));
}

void ReservationTable::Audit() const {
  reserved_.Audit();
  for (const auto& [key, hint] : advice_) KVT_CHECK(IsPending(key));
  absl::flat_hash_map<SessionId, size_t> counts;
  uint64_t late = 0;
  reserved_.ForEach([&](ReservationId, const Reserved& reserved) {
    KVT_CHECK(!(reserved.late && reserved.awaits_step));
    ++counts[reserved.session];
    const bool in_gpu = static_cast<bool>(reserved.block.gpu);
    const bool is_staged = static_cast<bool>(reserved.block.staged);
    const bool gave_up_host = reserved.late && is_staged;
    KVT_CHECK(!(is_staged && in_gpu));
    KVT_CHECK(static_cast<bool>(reserved.block.host) == !(in_gpu || gave_up_host));
    KVT_CHECK(reserved.late || pending_keys_.contains(reserved.block.meta.key));
    if (reserved.late) late += BytesOf(reserved.block);
  });
  KVT_CHECK(late == late_bytes(Tier::kHost) + late_bytes(Tier::kGpu));
  KVT_CHECK(counts == counts_);
  shares_.Audit();
  KVT_CHECK(shares_.taken() == reserved_.size());
}

}  // namespace kvtier

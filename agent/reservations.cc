#include "agent/reservations.h"

#include <iterator>
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
  if (reservations_.size() >= kMaxReservations) {
    return absl::ResourceExhaustedError(
        absl::StrCat("reservations: all ", kMaxReservations, " of the node are held"));
  }
  size_t& count = counts_[session];
  if (count >= kMaxReservationsPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("reservations: the session holds all of its ", kMaxReservationsPerSession));
  }
  ++count;
  KVT_CHECK(pending_keys_.insert(block.meta.key).second);
  const ReservationId id{next_id_++};
  reservations_.emplace_hint(
      reservations_.end(), id,
      Reserved{.session = session, .block = std::move(block), .deadline = deadline});
  by_deadline_.emplace(deadline, id);
  return id;
}

ReservationTable::Reservations::iterator ReservationTable::End(Reservations::iterator reserved) {
  const auto count = counts_.find(reserved->second.session);
  if (--count->second == 0) counts_.erase(count);
  if (reserved->second.late) {
    LateBytesOf(reserved->second.block) -= BytesOf(reserved->second.block);
  }
  by_deadline_.erase({reserved->second.deadline, reserved->first});
  return reservations_.erase(reserved);
}

ReservationTable::Reservations::iterator ReservationTable::FindOpen(SessionId session,
                                                                    ReservationId id) {
  const auto found = reservations_.find(id);
  if (found == reservations_.end()) return found;
  const Reserved& reserved = found->second;
  const bool open = reserved.session == session && !reserved.late && !reserved.awaits_step;
  return open ? found : reservations_.end();
}

std::optional<PendingBlock> ReservationTable::Take(SessionId session, ReservationId id) {
  const auto reserved = FindOpen(session, id);
  if (reserved == reservations_.end()) return std::nullopt;
  PendingBlock block = std::move(reserved->second.block);
  End(reserved);
  return block;
}

std::vector<BlockKey> ReservationTable::KeysOf(SessionId session,
                                               std::span<const ReservationId> ids) {
  std::vector<BlockKey> keys;
  for (const ReservationId id : ids) {
    const auto reserved = FindOpen(session, id);
    if (reserved != reservations_.end()) keys.push_back(reserved->second.block.meta.key);
  }
  return keys;
}

void ReservationTable::NoteSum(SessionId session, ReservationId id, const PayloadSum& sum) {
  const auto reserved = FindOpen(session, id);
  if (reserved == reservations_.end() || reserved->second.block.gpu) return;
  reserved->second.block.meta.sum = sum;
  reserved->second.block.summed = true;
}

bool ReservationTable::Await(SessionId session, ReservationId id) {
  const auto reserved = FindOpen(session, id);
  if (reserved == reservations_.end()) return false;
  reserved->second.awaits_step = true;
  by_deadline_.erase({reserved->second.deadline, id});
  return true;
}

PendingBlock ReservationTable::TakeAwaited(ReservationId id) {
  const auto reserved = reservations_.find(id);
  KVT_CHECK(reserved != reservations_.end() && reserved->second.awaits_step);
  PendingBlock block = std::move(reserved->second.block);
  End(reserved);
  return block;
}

void ReservationTable::GiveUpAwaited(ReservationId id) {
  const auto reserved = reservations_.find(id);
  KVT_CHECK(reserved != reservations_.end() && reserved->second.awaits_step);
  reserved->second.awaits_step = false;
  GiveBack(reserved, StepsOf(reserved->second.session));
}

BegunSteps ReservationTable::StepsOf(SessionId session) const {
  return workers_ == nullptr ? BegunSteps() : workers_->StepsOf(session);
}

ReservationTable::Reservations::iterator ReservationTable::GiveBack(Reservations::iterator found,
                                                                    const BegunSteps& steps) {
  const auto& [id, reserved] = *found;
  if (reserved.awaits_step) return std::next(found);
  if (steps.ended() || reserved.block.writer) {
    if (!reserved.late) pending_keys_.erase(reserved.block.meta.key);
    return End(found);
  }
  by_deadline_.erase({reserved.deadline, id});
  if (!reserved.late) MakeLate(&found->second);
  // Given back a second time, it still waits for the first time's steps.
  if (!reserved.written_by.has_value()) {
    found->second.written_by = steps;
    given_back_.push_back(id);
  }
  return std::next(found);
}

void ReservationTable::Release(SessionId session, std::span<const ReservationId> ids) {
  const BegunSteps steps = StepsOf(session);
  for (const ReservationId id : ids) {
    const auto reserved = reservations_.find(id);
    if (reserved == reservations_.end() || reserved->second.session != session) continue;
    GiveBack(reserved, steps);
  }
}

size_t ReservationTable::GiveBackUnwritten(SessionId session, std::span<const ReservationId> ids) {
  size_t unwritten = 0;
  for (const ReservationId id : ids) {
    const auto reserved = FindOpen(session, id);
    if (reserved == reservations_.end()) continue;
    ++(reserved->second.block.gpu ? unwritten_gpu_blocks_ : unwritten_host_blocks_);
    ++unwritten;
  }
  Release(session, ids);
  return unwritten;
}

void ReservationTable::ReleaseAll(SessionId session) {
  if (!counts_.contains(session)) return;
  const BegunSteps steps = StepsOf(session);
  for (auto reserved = reservations_.begin(); reserved != reservations_.end();) {
    reserved =
        reserved->second.session == session ? GiveBack(reserved, steps) : std::next(reserved);
  }
}

void ReservationTable::Sweep() {
  std::erase_if(given_back_, [this](ReservationId id) {
    const auto reserved = reservations_.find(id);
    if (reserved == reservations_.end()) return true;
    if (!reserved->second.written_by->ended()) return false;
    End(reserved);
    return true;
  });
}

size_t ReservationTable::EndSession(SessionId session) {
  if (!counts_.contains(session)) return 0;
  for (auto reserved = reservations_.begin(); reserved != reservations_.end();) {
    Reserved& ended = reserved->second;
    if (ended.session == session && ended.block.staged && !ended.awaits_step) {
      if (!ended.late) pending_keys_.erase(ended.block.meta.key);
      reserved = End(reserved);
      continue;
    }
    if (ended.session == session && !ended.late && !ended.awaits_step) {
      by_deadline_.erase({ended.deadline, reserved->first});
      MakeLate(&ended);
    }
    ++reserved;
  }
  const auto left = counts_.find(session);
  return left == counts_.end() ? 0 : left->second;
}

size_t ReservationTable::Expire(absl::Time now) {
  size_t expired = 0;
  while (!by_deadline_.empty() && by_deadline_.begin()->first < now) {
    MakeLate(&reservations_.at(by_deadline_.begin()->second));
    by_deadline_.erase(by_deadline_.begin());
    ++expired;
  }
  return expired;
}

void ReservationTable::MakeLate(Reserved* reserved) {
  reserved->late = true;
  LateBytesOf(reserved->block) += BytesOf(reserved->block);
  pending_keys_.erase(reserved->block.meta.key);
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
  return late != late_host_bytes_.end() && late->second >= max_late_bytes_;
}

void ReservationTable::Audit() const {
  absl::flat_hash_map<SessionId, size_t> counts;
  uint64_t late = 0;
  for (const auto& [id, reserved] : reservations_) {
    ++counts[reserved.session];
    const bool in_gpu = static_cast<bool>(reserved.block.gpu);
    const bool is_staged = static_cast<bool>(reserved.block.staged);
    const bool gave_up_host = reserved.late && is_staged;
    KVT_CHECK(!(is_staged && in_gpu));
    KVT_CHECK(static_cast<bool>(reserved.block.host) == !(in_gpu || gave_up_host));
    KVT_CHECK(reserved.late || pending_keys_.contains(reserved.block.meta.key));
    if (reserved.late) late += BytesOf(reserved.block);
  }
  KVT_CHECK(late == late_bytes(Tier::kHost) + late_bytes(Tier::kGpu));
  KVT_CHECK(counts == counts_);
}

}  // namespace kvtier

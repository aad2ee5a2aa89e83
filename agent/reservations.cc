#include "agent/reservations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<ReservationId> ReservationTable::Add(SessionId session, PendingBlock block,
                                                    absl::Time deadline) {
  size_t& count = counts_[session];
  if (count >= kMaxReservationsPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("reservations: the session holds all of its ", kMaxReservationsPerSession));
  }
  ++count;
  KVT_CHECK(pending_keys_.insert(block.meta.key).second);
  const ReservationId id{next_id_++};
  const auto reserved =
      reservations_
          .emplace(id,
                   Reserved{.session = session, .block = std::move(block), .deadline = deadline})
          .first;
  by_deadline_.emplace(std::pair{deadline, id}, reserved);
  return id;
}

ReservationTable::Reservations::iterator ReservationTable::End(Reservations::iterator reserved) {
  const auto count = counts_.find(reserved->second.session);
  if (--count->second == 0) counts_.erase(count);
  by_deadline_.erase({reserved->second.deadline, reserved->first});
  return reservations_.erase(reserved);
}

std::optional<PendingBlock> ReservationTable::Take(SessionId session, ReservationId id) {
  const auto reserved = reservations_.find(id);
  if (reserved == reservations_.end() || reserved->second.session != session ||
      reserved->second.late) {
    return std::nullopt;
  }
  PendingBlock block = std::move(reserved->second.block);
  End(reserved);
  return block;
}

void ReservationTable::Release(SessionId session, std::span<const ReservationId> ids) {
  for (const ReservationId id : ids) {
    const auto reserved = reservations_.find(id);
    if (reserved == reservations_.end() || reserved->second.session != session) continue;
    if (!reserved->second.late) pending_keys_.erase(reserved->second.block.meta.key);
    End(reserved);
  }
}

void ReservationTable::ReleaseAll(SessionId session) {
  if (!counts_.contains(session)) return;
  for (auto reserved = reservations_.begin(); reserved != reservations_.end();) {
    if (reserved->second.session != session) {
      ++reserved;
      continue;
    }
    if (!reserved->second.late) pending_keys_.erase(reserved->second.block.meta.key);
    reserved = End(reserved);
  }
}

size_t ReservationTable::Expire(absl::Time now) {
  size_t expired = 0;
  while (!by_deadline_.empty() && by_deadline_.begin()->first.first < now) {
    Reserved& reserved = by_deadline_.begin()->second->second;
    reserved.late = true;
#ifdef KVTIER_PLANT_FREE_LATE_SLOTS
    reserved.block.host.Release();
    reserved.block.gpu.Release();
    reserved.block.writer.Release();
#endif
    pending_keys_.erase(reserved.block.meta.key);
    by_deadline_.erase(by_deadline_.begin());
    ++expired;
  }
  return expired;
}

void ReservationTable::Audit() const {
  absl::flat_hash_map<SessionId, size_t> counts;
  for (const auto& [id, reserved] : reservations_) {
    ++counts[reserved.session];
    KVT_CHECK(static_cast<bool>(reserved.block.host) != static_cast<bool>(reserved.block.gpu));
    KVT_CHECK(reserved.late || pending_keys_.contains(reserved.block.meta.key));
  }
  KVT_CHECK(counts == counts_);
}

}  // namespace kvtier

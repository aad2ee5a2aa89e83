#include "agent/leases.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<LeaseId> LeaseTable::Grant(SessionId session, Pin pin, absl::Time deadline,
                                          GpuHold hold) {
  if (leases_.size() >= kMaxLeases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("leases: all ", kMaxLeases, " of the node are held"));
  }
  size_t& count = counts_[session];
  if (count >= kMaxLeasesPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("leases: the session holds all of its ", kMaxLeasesPerSession));
  }
  ++count;
  const LeaseId id{next_id_++};
  leases_.emplace_hint(leases_.end(), id,
                       Lease{.session = session,
                             .pin = std::move(pin),
                             .hold = std::move(hold),
                             .deadline = deadline});
  by_deadline_.emplace(deadline, id);
  return id;
}

void LeaseTable::End(Leases::iterator lease) {
  const auto count = counts_.find(lease->second.session);
  if (--count->second == 0) counts_.erase(count);
  by_deadline_.erase({lease->second.deadline, lease->first});
  leases_.erase(lease);
}

std::optional<BlockKey> LeaseTable::HostBlockOf(SessionId session, LeaseId id) const {
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || lease->second.session != session ||
      lease->second.pin.tier() != Tier::kHost) {
    return std::nullopt;
  }
  return lease->second.pin.key();
}

void LeaseTable::Release(SessionId session, std::span<const LeaseId> ids) {
  for (const LeaseId id : ids) {
    const auto lease = leases_.find(id);
    if (lease != leases_.end() && lease->second.session == session) End(lease);
  }
}

void LeaseTable::ReleaseAll(SessionId session) {
  if (!counts_.contains(session)) return;
  std::vector<LeaseId> ended;
  for (const auto& [id, lease] : leases_) {
    if (lease.session == session) ended.push_back(id);
  }
  Release(session, ended);
}

size_t LeaseTable::Expire(absl::Time now) {
  size_t expired = 0;
  while (!by_deadline_.empty() && by_deadline_.begin()->first < now) {
    End(leases_.find(by_deadline_.begin()->second));
    ++expired;
  }
  return expired;
}

void LeaseTable::Audit() const {
  absl::flat_hash_map<SessionId, size_t> counts;
  for (const auto& [id, lease] : leases_) {
    KVT_CHECK(lease.pin);
    ++counts[lease.session];
  }
  KVT_CHECK(counts == counts_);
  KVT_CHECK(by_deadline_.size() == leases_.size());
}

}  // namespace kvtier

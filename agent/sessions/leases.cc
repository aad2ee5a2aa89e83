#include "agent/sessions/leases.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<LeaseId> LeaseTable::Grant(SessionId session, DomainId payer, Pin pin,
                                          absl::Time deadline, GpuHold hold) {
  if (!shares_.MayTake(payer)) return shares_.Refuse("leases", payer);
  size_t& count = counts_[session];
  if (count >= kMaxLeasesPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat("leases: the session holds ",
                                                     kMaxLeasesPerSession,
                                                     ", the most that it may; release some"));
  }
  ++count;
  shares_.Take(payer);
  return leases_.Add(
      {.session = session, .payer = payer, .pin = std::move(pin), .hold = std::move(hold)},
      deadline);
}

const LeaseTable::Lease* LeaseTable::Find(SessionId session, LeaseId id) const {
  const Lease* const lease = leases_.Find(id);
  return lease != nullptr && lease->session == session ? lease : nullptr;
}

void LeaseTable::End(LeaseId id, const Lease& lease) {
  const auto count = counts_.find(lease.session);
  if (--count->second == 0) counts_.erase(count);
  shares_.GiveBack(lease.payer);
  leases_.Erase(id);
}

std::optional<BlockKey> LeaseTable::HostBlockOf(SessionId session, LeaseId id) const {
  const Lease* const lease = Find(session, id);
  if (lease == nullptr || lease->pin.tier() != Tier::kHost) return std::nullopt;
  return lease->pin.key();
}

void LeaseTable::Release(SessionId session, std::span<const LeaseId> ids) {
  for (const LeaseId id : ids) {
    if (const Lease* const lease = Find(session, id)) End(id, *lease);
  }
}

void LeaseTable::ReleaseAll(SessionId session) {
  if (!counts_.contains(session)) return;
  size_t ended = 0;
  leases_.ForEach([&](LeaseId id, const Lease& lease) {
    if (lease.session != session) return;
    if (ended++ < kEndedPerSweep) {
      End(id, lease);
    } else {
      leases_.MakeOverdue(id);
    }
  });
}

size_t LeaseTable::Expire(absl::Time now, size_t limit) {
  size_t expired = 0;
  for (; expired < limit; ++expired) {
    const auto id = leases_.Overdue(now);
    if (!id.has_value()) break;
    End(*id, *leases_.Find(*id));
  }
  return expired;
}

void LeaseTable::Audit() const {
  leases_.Audit();
  absl::flat_hash_map<SessionId, size_t> counts;
  leases_.ForEach([&](LeaseId, const Lease& lease) {
    KVT_CHECK(lease.pin);
    ++counts[lease.session];
  });
  KVT_CHECK(counts == counts_);
  shares_.Audit();
  KVT_CHECK(shares_.taken() == leases_.size());
}

}  // namespace kvtier

#include "agent/sessions/leases.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

absl::StatusOr<LeaseId> LeaseTable::Grant(SessionId session, DomainId domain, Pin pin,
                                          absl::Time deadline, GpuHold hold) {
  if (!shares_.MayTake(domain)) return shares_.Refusal("leases", domain);
  size_t& count = counts_[session];
  if (count >= kMaxLeasesPerSession) {
    return absl::ResourceExhaustedError(
        absl::StrCat("leases: the session holds all of its ", kMaxLeasesPerSession));
  }
  ++count;
  shares_.Take(domain);
  const LeaseId id{next_id_++};
  // Most are the last: they all last equally long.
  auto next = leases_.end();
  while (next != leases_.begin() && std::prev(next)->deadline > deadline) --next;
  const auto lease = leases_.insert(next, Lease{.id = id,
                                                .session = session,
                                                .domain = domain,
                                                .pin = std::move(pin),
                                                .hold = std::move(hold),
                                                .deadline = deadline});
  by_id_.emplace(id, lease);
  return id;
}

LeaseTable::Leases::const_iterator LeaseTable::Find(SessionId session, LeaseId id) const {
  const auto found = by_id_.find(id);
  const bool is_its = found != by_id_.end() && found->second->session == session;
  return is_its ? found->second : leases_.end();
}

LeaseTable::Leases::const_iterator LeaseTable::End(Leases::const_iterator lease) {
  const auto count = counts_.find(lease->session);
  if (--count->second == 0) counts_.erase(count);
  shares_.GiveBack(lease->domain);
  by_id_.erase(lease->id);
  return leases_.erase(lease);
}

std::optional<BlockKey> LeaseTable::HostBlockOf(SessionId session, LeaseId id) const {
  const auto lease = Find(session, id);
  if (lease == leases_.end() || lease->pin.tier() != Tier::kHost) return std::nullopt;
  return lease->pin.key();
}

void LeaseTable::Release(SessionId session, std::span<const LeaseId> ids) {
  for (const LeaseId id : ids) {
    const auto lease = Find(session, id);
    if (lease != leases_.end()) End(lease);
  }
}

void LeaseTable::ReleaseAll(SessionId session) {
  if (!counts_.contains(session)) return;
  for (auto lease = leases_.cbegin(); lease != leases_.cend();) {
    lease = lease->session == session ? End(lease) : std::next(lease);
  }
}

size_t LeaseTable::Expire(absl::Time now) {
  size_t expired = 0;
  while (!leases_.empty() && leases_.front().deadline < now) {
    End(leases_.begin());
    ++expired;
  }
  return expired;
}

void LeaseTable::Audit() const {
  absl::flat_hash_map<SessionId, size_t> counts;
  absl::Time deadline = absl::InfinitePast();
  for (auto lease = leases_.begin(); lease != leases_.end(); ++lease) {
    KVT_CHECK(lease->pin && lease->deadline >= deadline);
    KVT_CHECK(by_id_.at(lease->id) == lease);
    deadline = lease->deadline;
    ++counts[lease->session];
  }
  KVT_CHECK(counts == counts_);
  shares_.Audit();
  KVT_CHECK(shares_.taken() == leases_.size());
  KVT_CHECK(by_id_.size() == leases_.size());
}

}  // namespace kvtier

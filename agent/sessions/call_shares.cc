#include "agent/sessions/call_shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

void CallShares::AddDomain() {
  absl::MutexLock lock(&mu_);
  shares_.AddDomain();
}

void CallShares::DropDomain(DomainId domain) {
  absl::MutexLock lock(&mu_);
  shares_.DropDomain(domain);
}

void CallShares::SessionOpened(const SessionToken& token, DomainId domain) {
  absl::MutexLock lock(&mu_);
  KVT_CHECK(domains_.emplace(token, domain).second);
}

void CallShares::SessionClosed(const SessionToken& token) {
  absl::MutexLock lock(&mu_);
  KVT_CHECK(domains_.erase(token) == 1);
}

absl::StatusOr<std::optional<DomainId>> CallShares::Take(absl::string_view token, size_t bytes) {
  SessionToken of_session{};
  if (token.size() != of_session.size()) return std::nullopt;
  std::copy(token.begin(), token.end(), of_session.begin());
  absl::MutexLock lock(&mu_);
  const auto session = domains_.find(of_session);
  if (session == domains_.end()) return std::nullopt;
  const DomainId domain = session->second;
  if (!shares_.MayTake(domain, bytes)) {
    shares_.CountRefused(domain);
    return absl::ResourceExhaustedError(absl::StrCat(
        "calls: the tenant's calls in progress take ", shares_.Taken(domain),
        " bytes of memory, and this call of ", bytes, " is beyond its share of the ",
        shares_.limit(), " that all tenants have; call again when some of them have ended"));
  }
  shares_.Take(domain, bytes);
  return domain;
}

void CallShares::GiveBack(DomainId domain, size_t bytes) {
  absl::MutexLock lock(&mu_);
  shares_.GiveBack(domain, bytes);
}

CallShares::Use CallShares::Of(DomainId domain) const {
  absl::MutexLock lock(&mu_);
  return {.taken = shares_.Taken(domain),
          .guaranteed = shares_.Guarantee(domain),
          .refused = shares_.Refused(domain),
          .limit = shares_.limit()};
}

void CallShares::Audit(size_t sessions) const {
  absl::MutexLock lock(&mu_);
  shares_.Audit();
  KVT_CHECK(domains_.size() == sessions);
}

}  // namespace kvtier

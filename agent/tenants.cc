#include "agent/tenants.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/node.h"
#include "core/secret_file.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr size_t kMinSecretBytes = 16;

}  // namespace

absl::StatusOr<TenantTable> TenantTable::Create(const std::vector<Entry>& entries) {
  if (entries.empty() || entries.size() > kMaxTenants) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenants: ", entries.size(), "; must be 1 to ", kMaxTenants));
  }
  TenantTable table;
  for (const Entry& entry : entries) {
    KVT_RETURN_IF_ERROR(table.Check(entry));
    table.Add(entry);
  }
  return table;
}

absl::Status TenantTable::Check(const Entry& entry) const {
  const auto refused = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("tenant '", entry.name, "': ", why...));
  };
  // A tenant's name has the alphabet of a node's.
  if (!NodeId::FromString(entry.name).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant name '", entry.name,
                     "'; must be 1 to 63 of [a-zA-Z0-9._-], starting with a letter or digit"));
  }
  const absl::string_view end = EndOfOtherFile(entry.name);
  if (!end.empty()) {
    return refused("its name ends in '", end,
                   "', and files of such names hold no secrets; give it ", "another name");
  }
  if (Find(entry.name) != nullptr) return refused("it is given twice; give it once");
  const bool open = entry.secret.empty() && entry.name == kOpenTenant;
  if (!open && entry.secret.size() < kMinSecretBytes) {
    return refused("the secret has ", entry.secret.size(), " bytes; must have at least ",
                   kMinSecretBytes);
  }
  const TenantKey key = TenantKey::FromSecret(entry.secret);
  for (const Row& row : rows_) {
    if (row.state == State::kForgotten) continue;
    if (row.state == State::kLeft && (row.tenant.name == entry.name || row.tenant.key == key)) {
      return absl::FailedPreconditionError(
          absl::StrCat("tenant '", entry.name, "': blocks of '", row.tenant.name,
                       "', which was dropped, are still held; try again when they are released"));
    }
    // Two tenants with one key would name the same blocks, and each would look for them in its own
    // arena.
    if (row.tenant.key == key)
      return refused("its secret is that of tenant '", row.tenant.name, "'; give it another");
  }
  if (size() >= kMaxTenants) {
    return refused("this node has ", kMaxTenants,
                   " tenants already, the most that it may; drop one first");
  }
  if (rows_.size() >= kMaxDomains) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tenant '", entry.name, "': ", kMaxDomains,
        " tenants came since the agent started, the most that it can take; restart the "
        "agent"));
  }
  return absl::OkStatus();
}

const Tenant& TenantTable::Add(const Entry& entry) {
  const auto domain = static_cast<DomainId>(rows_.size());
  const absl::MutexLock lock(mu_.get());
  rows_.push_back({.tenant = {.name = entry.name,
                              .key = TenantKey::FromSecret(entry.secret),
                              .session_key = SessionKey::FromSecret(entry.secret),
                              .peer_namer = std::make_unique<const PeerNamer>(
                                  PeerKey::FromSecret(entry.secret)),
                              .domain = domain}});
  KVT_CHECK(by_name_.emplace(entry.name, domain).second);
  KVT_CHECK(by_peer_tag_.emplace(rows_.back().tenant.peer_namer->tag(), domain).second);
  owners_.insert_or_assign(TenantTagOf(entry.name), domain);
  return rows_.back().tenant;
}

void TenantTable::Move(DomainId domain, State from, State to) {
  Row& row = rows_.at(static_cast<size_t>(domain));
  KVT_CHECK(row.state == from || row.state == to);
  row.state = to;
}

void TenantTable::Shut(DomainId domain) {
  const absl::MutexLock lock(mu_.get());
  Move(domain, State::kAdmitted, State::kShut);
}

void TenantTable::Reopen(DomainId domain) {
  const absl::MutexLock lock(mu_.get());
  Move(domain, State::kShut, State::kAdmitted);
}

void TenantTable::SetMembers(DomainId group, GroupMembers members) {
  const absl::MutexLock lock(mu_.get());
  rows_.at(static_cast<size_t>(group)).members = std::move(members);
}

void TenantTable::Leave(DomainId domain) {
  const absl::MutexLock lock(mu_.get());
  Row& row = rows_.at(static_cast<size_t>(domain));
  KVT_CHECK(by_name_.erase(row.tenant.name) == 1);
  owners_.erase(TenantTagOf(row.tenant.name));
  by_peer_tag_.erase(row.tenant.peer_namer->tag());
  row.state = State::kLeft;
}

void TenantTable::Forget(DomainId domain) {
  const absl::MutexLock lock(mu_.get());
  Move(domain, State::kLeft, State::kForgotten);
}

const Tenant* TenantTable::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &OfDomain(found->second);
}

const Tenant* TenantTable::FindAdmitted(absl::string_view name) const {
  const absl::MutexLock lock(mu_.get());
  const Row* const row = FindAdmittedRow(name);
  return row == nullptr ? nullptr : &row->tenant;
}

const TenantTable::Row* TenantTable::FindAdmittedRow(absl::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  const Row& row = RowOf(found->second);
  return row.state == State::kAdmitted ? &row : nullptr;
}

std::optional<SessionTenants> TenantTable::Admitted(absl::string_view name,
                                                    absl::string_view group) const {
  const absl::MutexLock lock(mu_.get());
  const Row* const payer = FindAdmittedRow(name);
  if (payer == nullptr) return std::nullopt;
  if (group.empty()) return SessionTenants::Own(payer->tenant);
  const Row* const home = FindAdmittedRow(group);
  if (home == nullptr) return std::nullopt;
  const auto access = home->members.find(payer->tenant.name);
  if (access == home->members.end()) return std::nullopt;
  return SessionTenants{.home = &home->tenant,
                        .payer = &payer->tenant,
                        .may_write = access->second == GroupAccess::kWrite};
}

std::vector<const Tenant*> TenantTable::All() const {
  std::vector<const Tenant*> all;
  for (const Row& row : rows_) {
    if (row.state == State::kAdmitted || row.state == State::kShut) all.push_back(&row.tenant);
  }
  return all;
}

const Tenant* TenantTable::FindServed(PeerTag tag) const {
  const auto found = by_peer_tag_.find(tag);
  if (found == by_peer_tag_.end() || IsShut(found->second)) return nullptr;
  return &OfDomain(found->second);
}

std::optional<DomainId> TenantTable::DomainOf(TenantTag owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kvtier

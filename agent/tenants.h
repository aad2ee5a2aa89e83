// TenantTable knows the tenants of the node: each tenant's key and the isolation domain its bytes
// live in. Tenants come and go at run time. A tenant that is admitted may open sessions. A tenant
// that is shut may not, and keeps its blocks. A tenant that is dropped leaves, and its name is no
// longer found. Its name and secret may be used again once nothing of its domain is held. The
// tenant that uses them gets another domain, because ids are never used again.
//
// Executor thread only, but for FindAdmitted() and Admitted(), which any thread may call. A Tenant
// keeps its address and does not change as long as the table lives.
#ifndef KVTIER_AGENT_TENANTS_H_
#define KVTIER_AGENT_TENANTS_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/block_key.h"
#include "core/peer_name.h"
#include "core/peer_namer.h"
#include "core/session_key.h"
#include "core/tenant_settings.h"
#include "core/tenant_tag.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Tenant that exists without a secret, where no secrets are configured.
inline constexpr absl::string_view kOpenTenant = "default";

struct Tenant {
  std::string name;  // 1..63 of [a-zA-Z0-9._-].
  TenantKey key;
  SessionKey session_key;
  std::unique_ptr<const PeerNamer> peer_namer;  // Used on the executor thread only.
  DomainId domain{};
};

// SessionTenants are the tenants of one session. A TenantTable owns both and outlives this.
struct SessionTenants {
  const Tenant* home =
      nullptr;  // Tenant in whose domain its blocks lie: a share group, or `payer`.
  const Tenant* payer = nullptr;  // Tenant that proved itself; it pays for what the session takes.
  bool may_write = true;  // Whether it may write the blocks of the share group, or only read them.

  static SessionTenants Own(const Tenant& tenant) { return {.home = &tenant, .payer = &tenant}; }
  bool in_group() const { return home != payer; }
  friend bool operator==(const SessionTenants&, const SessionTenants&) = default;
};

class TenantTable {
 public:
  struct Entry {
    std::string name;
    std::string secret;  // Secret of the tenant; empty only for the open "default" tenant.
  };
  // Makes a table of the tenants. Errors: Check()'s; kInvalidArgument, none or more than
  // kMaxTenants.
  static absl::StatusOr<TenantTable> Create(const std::vector<Entry>& entries);

  // Returns why the tenant may not be added: kInvalidArgument, a bad or repeated name, a secret
  // under 16 bytes or another's, too many; kFailedPrecondition, a tenant of this name or secret was
  // dropped and some of it is still held (wait), or kMaxDomains were used (restart the agent).
  absl::Status Check(const Entry& entry) const;
  // Adds the tenant and admits it; its domain is the next one. REQUIRES: Check() is OK.
  const Tenant& Add(const Entry& entry);
  // Shut() ends the admission of the tenant, Reopen() admits it again. REQUIRES of both: it is one
  // of All().
  void Shut(DomainId domain);
  void Reopen(DomainId domain);
  // Names the tenants that may use the blocks of this one. REQUIRES: it is one of All().
  void SetMembers(DomainId group, GroupMembers members);
  // Removes a tenant that was dropped; its blocks belong to no tenant now. REQUIRES: it is one of
  // All().
  void Leave(DomainId domain);
  // Allows the name and the secret to be used again. REQUIRES: Leave() was called, and nothing of
  // the domain is held.
  void Forget(DomainId domain);

  // Returns the tenant, admitted or not; nullptr: there is none of this name.
  const Tenant* Find(absl::string_view name) const;
  // Returns the tenant if it is admitted; nullptr: it is not, or there is none. Any thread.
  const Tenant* FindAdmitted(absl::string_view name) const;
  // Returns the tenants of a session that `name` opens in the domain of `group`, or in its own
  // where that is empty; nullopt: one of the two is not admitted or not there, or `name` is no
  // member of the group. Any thread.
  std::optional<SessionTenants> Admitted(absl::string_view name, absl::string_view group) const;
  bool IsShut(DomainId domain) const { return RowOf(domain).state == State::kShut; }
  // Returns all tenants but those that left, in the order of their domains.
  std::vector<const Tenant*> All() const;
  size_t size() const { return by_name_.size(); }  // Size of All().
  // Returns the tenant of the domain, also one that left. REQUIRES: the domain was given.
  const Tenant& OfDomain(DomainId domain) const { return RowOf(domain).tenant; }
  // Returns the tenant whose blocks other nodes may ask for by the tag, which is one that is
  // admitted; nullptr: there is none. A tenant that is shut may have had its secret replaced, and
  // who knows the old one gets nothing.
  const Tenant* FindServed(PeerTag tag) const;
  // Returns the domain of the tenant that the tag names; nullopt: it is none of All().
  std::optional<DomainId> DomainOf(TenantTag owner) const;

 private:
  enum class State { kAdmitted, kShut, kLeft, kForgotten };
  struct Row {
    Tenant tenant;
    State state = State::kAdmitted;
    GroupMembers members{};
  };
  TenantTable() = default;
  // Returns the row of a tenant that is admitted; nullptr: it is not, or there is none.
  const Row* FindAdmittedRow(absl::string_view name) const;
  const Row& RowOf(DomainId domain) const { return rows_.at(static_cast<size_t>(domain)); }
  // Sets the state of a row to `to`. REQUIRES: its state is `from` or `to`.
  void Move(DomainId domain, State from, State to);

  // Held by the executor's thread to write, and by other threads to read. The executor's thread
  // reads without it, because no other thread writes.
  std::unique_ptr<absl::Mutex> mu_ = std::make_unique<absl::Mutex>();
  std::deque<Row> rows_;  // Rows by domain.
  absl::flat_hash_map<std::string, DomainId> by_name_;
  absl::flat_hash_map<TenantTag, DomainId> owners_;
  absl::flat_hash_map<PeerTag, DomainId> by_peer_tag_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_TENANTS_H_

// TenantTable knows who may open a session: each tenant's key and the isolation
// domain its bytes live in. Immutable after Create(), so any thread may read it.
#ifndef KVTIER_AGENT_TENANTS_H_
#define KVTIER_AGENT_TENANTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/block_key.h"
#include "core/tenant_tag.h"
#include "tier_host/host_tier.h"

namespace kvtier {

struct Tenant {
  std::string name;  // 1..63 of [a-zA-Z0-9._-].
  TenantKey key;
  DomainId domain{};
};

class TenantTable {
 public:
  struct Entry {
    std::string name;
    std::string secret;  // Empty only for the open "default" tenant.
  };
  // Each tenant gets its own domain, in the order given. Errors: kInvalidArgument,
  // naming the tenant: a bad or repeated name, a secret under 16 bytes or another's, too many.
  static absl::StatusOr<TenantTable> Create(const std::vector<Entry>& entries);
  // nullptr: no such tenant.
  const Tenant* Find(absl::string_view name) const;
  const std::vector<Tenant>& tenants() const { return tenants_; }
  // REQUIRES: a domain of one of them.
  const Tenant& OfDomain(DomainId domain) const { return tenants_.at(static_cast<size_t>(domain)); }
  // Returns the domain of the tenant that the tag names; nullopt: it is none of these.
  std::optional<DomainId> DomainOf(TenantTag owner) const;

 private:
  std::vector<Tenant> tenants_;
  absl::flat_hash_map<TenantTag, DomainId> owners_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_TENANTS_H_

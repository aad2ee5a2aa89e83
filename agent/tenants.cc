#include "agent/tenants.h"

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/node.h"

namespace kvtier {
namespace {

constexpr size_t kMinSecretBytes = 16;
constexpr char kOpenTenant[] = "default";

}  // namespace

absl::StatusOr<TenantTable> TenantTable::Create(const std::vector<Entry>& entries) {
  if (entries.empty() || entries.size() > kMaxTenants) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenants: ", entries.size(), " given, 1 to ", kMaxTenants, " allowed"));
  }
  TenantTable table;
  for (const Entry& entry : entries) {
    // A tenant's name has the alphabet of a node's.
    if (!NodeId::FromString(entry.name).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tenant name '", entry.name, "': 1 to 63 of [a-zA-Z0-9._-], starting alphanumeric"));
    }
    if (table.Find(entry.name) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("tenant '", entry.name, "': given twice"));
    }
    const bool open = entry.secret.empty() && entry.name == kOpenTenant;
    if (!open && entry.secret.size() < kMinSecretBytes) {
      return absl::InvalidArgumentError(absl::StrCat("tenant '", entry.name, "': the secret has ",
                                                     entry.secret.size(), " bytes, at least ",
                                                     kMinSecretBytes, " are needed"));
    }
    const TenantKey key = TenantKey::FromSecret(entry.secret);
    for (const Tenant& other : table.tenants_) {
      // They would name the same blocks, and each would look for them in its own arena.
      if (other.key == key) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tenant '", entry.name, "': its secret is that of tenant '", other.name, "'"));
      }
    }
    const auto domain = static_cast<DomainId>(table.tenants_.size());
    table.tenants_.push_back({.name = entry.name, .key = key, .domain = domain});
    table.owners_.emplace(TenantTagOf(entry.name), domain);
  }
  return table;
}

const Tenant* TenantTable::Find(absl::string_view name) const {
  for (const Tenant& tenant : tenants_) {
    if (tenant.name == name) return &tenant;
  }
  return nullptr;
}

std::optional<DomainId> TenantTable::DomainOf(TenantTag owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kvtier

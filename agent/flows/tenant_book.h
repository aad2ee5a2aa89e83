// TenantBook knows the settings of tenants, the source of each, and which apply. For each tenant
// all settings come from one source: those made on the node, else those of the cluster, else those
// of the file that the agent was started with, else the defaults.
//
// Pure bookkeeping. Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_TENANT_BOOK_H_
#define KVTIER_AGENT_FLOWS_TENANT_BOOK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "agent/flows/tenant_store.h"
#include "core/tenant_settings.h"

namespace kvtier {

// Source of the settings of a tenant that hold.
enum class SettingsSource { kDefault, kFile, kCluster, kNode };

class TenantBook {
 public:
  struct Holding {
    SettingsSource source = SettingsSource::kDefault;
    TenantSettings settings;
  };
  // Makes a book from `file`, the settings that the agent was started with.
  explicit TenantBook(TenantSettingsMap file) : file_(std::move(file)) {}

  // Returns the settings that hold.
  Holding Of(const std::string& name) const;
  // Returns whether any source has settings of the tenant.
  bool Knows(const std::string& name) const { return Of(name).source != SettingsSource::kDefault; }

  // Returns the settings to keep after the change is made on this node. The change applies to the
  // settings that hold; a tenant all of whose settings are defaults has none. Errors:
  // kInvalidArgument, TenantSettings::Validate()'s; CheckMayKeep()'s.
  absl::StatusOr<KeptTenantSettings> With(const TenantChange& change) const;
  // Returns the settings to keep after the node has forgotten those made on it for the tenant.
  KeptTenantSettings Without(const std::string& name) const;

  // Replaces all settings but those of the file.
  void Take(KeptTenantSettings kept) { kept_ = std::move(kept); }
  const KeptTenantSettings& kept() const { return kept_; }
  const TenantSettingsMap& file() const { return file_; }

 private:
  const TenantSettingsMap file_;
  KeptTenantSettings kept_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TENANT_BOOK_H_

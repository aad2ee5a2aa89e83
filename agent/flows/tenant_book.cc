#include "agent/flows/tenant_book.h"

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {

TenantBook::Holding TenantBook::Of(const std::string& name) const {
  const std::pair<const TenantSettingsMap*, SettingsSource> sources[] = {
      {&kept_.node, SettingsSource::kNode},
      {&kept_.cluster.settings, SettingsSource::kCluster},
      {&file_, SettingsSource::kFile}};
  for (const auto& [settings, source] : sources) {
    const auto found = settings->find(name);
    if (found != settings->end()) return {.source = source, .settings = found->second};
  }
  return {.settings = {.name = name}};
}

absl::StatusOr<KeptTenantSettings> TenantBook::With(const TenantChange& change) const {
  // An empty change only makes the tenant, and takes over no settings of other sources.
  if (change.IsEmpty()) return kept_;
  KVT_ASSIGN_OR_RETURN(TenantSettings changed, change.In(Of(change.name).settings));
  KeptTenantSettings kept = kept_;
  if (changed.IsDefault()) {
    kept.node.erase(change.name);
  } else {
    kept.node.insert_or_assign(change.name, std::move(changed));
  }
  KVT_RETURN_IF_ERROR(CheckMayKeep(kept.node, change.name));
  return kept;
}

KeptTenantSettings TenantBook::Without(const std::string& name) const {
  KeptTenantSettings kept = kept_;
  kept.node.erase(name);
  return kept;
}

}  // namespace kvtier

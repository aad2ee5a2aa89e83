// TenantStore stores the settings and secrets of a node's tenants, so that they outlast the agent:
// in files (TenantFiles), or in a fake of tests. The two are kept apart: secrets are files that an
// operator may mount.
#ifndef KVTIER_AGENT_FLOWS_TENANT_STORE_H_
#define KVTIER_AGENT_FLOWS_TENANT_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/cluster_tenants.h"
#include "core/task.h"
#include "core/tenant_settings.h"

namespace kvtier {

// Settings that outlast the agent.
struct KeptTenantSettings {
  TenantSettingsMap node;  // Settings made on this node; they override those of the cluster.
  ClusterTenants cluster;  // Settings that the node follows; version 0: none.
  friend bool operator==(const KeptTenantSettings&, const KeptTenantSettings&) = default;
};

struct TenantSecret {
  std::string name;
  // The secret, or why it cannot be read: kUnavailable, it may not be whole yet;
  // kFailedPrecondition, the file is no tenant's and is skipped.
  absl::StatusOr<std::string> secret;
};

// Executor thread only; one call at a time.
class TenantStore {
 public:
  virtual ~TenantStore() = default;
  // Returns what was saved last; empty: nothing was. Errors: kDataLoss and kFailedPrecondition, the
  // stored settings are damaged or another version's, and were set aside, as the text says: go on
  // without them; kUnavailable, they cannot be read, and must not be replaced.
  virtual Task<absl::StatusOr<KeptTenantSettings>> LoadSettings() = 0;
  // Replaces what was saved, as a whole: a crash leaves the old or the new. Errors:
  // kResourceExhausted, there is no room; kUnavailable: try again later.
  virtual Task<absl::Status> SaveSettings(KeptTenantSettings settings) = 0;
  // Returns the secrets that are there now. Errors: kInvalidArgument, they cannot be listed;
  // kFailedPrecondition, none are configured: the node has the one open tenant.
  virtual Task<absl::StatusOr<std::vector<TenantSecret>>> ReadSecrets() = 0;
  // Writes the tenant's secret. Errors: kFailedPrecondition, none are configured, or they cannot be
  // written here; the text says what to do; FileError()'s.
  virtual Task<absl::Status> WriteSecret(std::string name, std::string secret) = 0;
  // Removes the secret; one that is not there is removed already. Errors: as WriteSecret().
  virtual Task<absl::Status> RemoveSecret(std::string name) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TENANT_STORE_H_

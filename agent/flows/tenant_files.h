// TenantFiles is a TenantStore in two directories of the node. The settings are one summed file,
// `tenant_settings`:
//
//   magic:8 version:4 cluster_version:8 | the node's settings | the cluster's (PutTenantSettings())
//   the sum of all that (SummedBytes)
//
// which is renamed to `tenant_settings.set_aside` when it is damaged. The secret of a tenant is the
// content of the file of its name in --tenants_dir, mode 0600, without a newline at its end.
#ifndef KVTIER_AGENT_FLOWS_TENANT_FILES_H_
#define KVTIER_AGENT_FLOWS_TENANT_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/flows/tenant_store.h"
#include "core/byte_threads.h"

namespace kvtier {

inline constexpr char kTenantSettingsFileName[] = "tenant_settings";

// Returns the secrets in `directory`: everything whose name does not start with a dot, and that is
// no directory, is a tenant's file; in the order of the names. Blocks. Errors: kInvalidArgument,
// the directory cannot be read.
absl::StatusOr<std::vector<TenantSecret>> ReadTenantSecrets(const std::string& directory);

class TenantFiles final : public TenantStore {
 public:
  struct Directories {
    std::string settings;
    std::string secrets;  // Directory of the tenants' secrets; empty: none is configured.
  };
  // Takes the threads that do all reads and writes, which it does not own. Makes no directory.
  TenantFiles(ByteThreads* byte_threads, Directories directories)
      : byte_threads_(byte_threads), directories_(std::move(directories)) {}

  Task<absl::StatusOr<KeptTenantSettings>> LoadSettings() override;
  Task<absl::Status> SaveSettings(KeptTenantSettings settings) override;
  Task<absl::StatusOr<std::vector<TenantSecret>>> ReadSecrets() override;
  Task<absl::Status> WriteSecret(std::string name, std::string secret) override;
  Task<absl::Status> RemoveSecret(std::string name) override;

 private:
  // Each of these functions reads, writes or removes, and blocks the calling thread.
  absl::StatusOr<KeptTenantSettings> Read() const;
  absl::Status Write(const std::string& name, const std::string& secret) const;
  absl::Status Remove(const std::string& name) const;
  // Returns the error of a directory of secrets that cannot be written to.
  absl::Status NotWritable(const absl::Status& why, const std::string& name) const;
  absl::Status CheckConfigured() const;

  ByteThreads* const byte_threads_;
  const Directories directories_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TENANT_FILES_H_

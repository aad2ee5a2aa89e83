// TenantFiles is a TenantStore in two directories of the node. The settings are one summed file,
// `tenant_settings`:
//
//   magic:8 version:4 | the node's settings (PutTenantSettings())
//   the cluster's (PutClusterTenants()) | the sum of all that (SummedBytes)
//
// which is renamed to `tenant_settings.set_aside` when it is damaged. The secret of a tenant is in
// the file of its name in --tenants_dir (core/secret_file.h).
#ifndef KVTIER_AGENT_FLOWS_TENANT_FILES_H_
#define KVTIER_AGENT_FLOWS_TENANT_FILES_H_

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/flows/tenant_store.h"
#include "core/byte_threads.h"
#include "core/secret_file.h"

namespace kvtier {

inline constexpr char kTenantSettingsFileName[] = "tenant_settings";

// SecretLooks looks at a directory of secrets again and again. A file is taken once it has stayed
// the same for kSecretSettleTime since a look saw it, because a half-written secret is another
// secret. Thread-compatible.
class SecretLooks {
 public:
  // Returns the secrets in `directory`: everything whose name does not start with a dot, and that
  // is no directory, is a tenant's file; in the order of the names. A secret is kUnavailable until
  // its file has stayed the same, and kFailedPrecondition if the file is skipped because of the end
  // of its name (EndOfOtherFile()). Blocks. Errors: kInvalidArgument, the directory cannot be read.
  absl::StatusOr<std::vector<TenantSecret>> Look(const std::string& directory);
  // Takes the file as it is now for one that has stayed the same: its writer is done.
  void Trust(const std::string& path);

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Seen {
    SecretFileVersion version;
    Moment first;  // When a look saw this version first.
  };
  TenantSecret Read(const std::string& path, const std::string& name,
                    std::map<std::string, Seen>* now);

  std::map<std::string, Seen> seen_;  // Files of the latest look, by path.
};

// Looks at the directory until each file has stayed the same, or kMaxSecretWait is over. Results
// and errors are those of SecretLooks::Look().
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
  mutable SecretLooks looks_;  // Used by one call at a time.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TENANT_FILES_H_

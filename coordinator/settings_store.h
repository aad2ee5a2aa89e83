// SettingsStore keeps operators' settings across restarts, in an embedded RocksDB: durations of the
// coordinator itself, and settings of tenants for all nodes. It does not keep the directory of
// blocks, which is soft state, nor any tenant's secret.
#ifndef KVTIER_COORDINATOR_SETTINGS_STORE_H_
#define KVTIER_COORDINATOR_SETTINGS_STORE_H_

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/report.h"
#include "core/tenant_settings.h"

namespace rocksdb {
class DB;
}

namespace kvtier {

// Settings that can be changed while the coordinator runs. Names on the wire have the unit:
// "node_timeout_ms", "forget_after_ms".
struct CoordinatorSettings {
  // Silence after which a node's blocks are not located; 100 ms to 1 h.
  absl::Duration node_timeout = absl::Seconds(5);
  // Silence after which a node is forgotten; node_timeout to 7 days.
  absl::Duration forget_after = absl::Minutes(5);

  // Returns kInvalidArgument, naming the setting and the value, if a field is out of range.
  absl::Status Validate() const;
};

// SettingsStore stores settings. Thread-safe. Survives kill -9: after a Set() that returned OK, the
// value is there after the restart.
class SettingsStore {
 public:
  struct Options {
    std::string directory;         // Made if missing; one process at a time.
    CoordinatorSettings defaults;  // Values of settings that were never set.
  };
  // Opens the store. Errors: kUnavailable, the directory cannot be opened or another process has
  // it; kDataLoss, its content is damaged or out of range.
  static absl::StatusOr<std::unique_ptr<SettingsStore>> Open(const Options& options);
  ~SettingsStore();

  // Sets a value; returns once it is on the disk. Errors: kInvalidArgument, no such name or a value
  // out of range (the text lists the names); kAborted, another Set() is being written (retry);
  // kUnavailable, the disk refused: nothing has changed.
  absl::Status Set(const std::string& name, const std::string& value) ABSL_LOCKS_EXCLUDED(mu_);

  // Change the settings of one tenant, and return the new settings of all tenants, with `version`.
  // Errors: as Set(); of ChangeTenant() also TenantChange::In()'s, and kResourceExhausted,
  // kMaxTenantSettings are reached; of DropTenant() also kNotFound.
  absl::StatusOr<ClusterTenants> ChangeTenant(const TenantChange& change, uint64_t version)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ClusterTenants> DropTenant(const std::string& name, uint64_t version)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes over the settings of a node that knows a later version, because they were lost here, and
  // returns the settings of all tenants. Settings that were changed here stay, whatever the node
  // says of these tenants; the version is then one later than the node's, so that nodes learn of
  // them. Settings that were taken over from a node before and not changed since give way. An older
  // version than the stored one changes nothing. REQUIRES: `told` is valid, its version below 2^63.
  // Errors: as Set(); kResourceExhausted, CheckMayKeep()'s for both together.
  absl::StatusOr<ClusterTenants> AdoptTenants(const ClusterTenants& told) ABSL_LOCKS_EXCLUDED(mu_);
  ClusterTenants tenants() const ABSL_LOCKS_EXCLUDED(mu_);

  CoordinatorSettings current() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns every setting by name, set or not.
  std::map<std::string, std::string> All() const ABSL_LOCKS_EXCLUDED(mu_);

  // Settings of tenants, and whose they are.
  struct Tenants {
    ClusterTenants all;
    // Names of tenants whose settings came from a node and were not changed here since.
    std::set<std::string> adopted{};
  };

 private:
  SettingsStore(std::unique_ptr<rocksdb::DB> db, const CoordinatorSettings& settings,
                Tenants tenants);
  // Begins a change of the tenants' settings: no other call writes until StoreTenants().
  absl::StatusOr<Tenants> BeginTenants() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the change, with settings, or with an error that leaves them unchanged.
  absl::StatusOr<ClusterTenants> StoreTenants(absl::StatusOr<Tenants> tenants)
      ABSL_LOCKS_EXCLUDED(mu_);

  const std::unique_ptr<rocksdb::DB> db_;  // Database, written without mu_ by one Set() at a time.
  mutable absl::Mutex mu_;
  CoordinatorSettings settings_ ABSL_GUARDED_BY(mu_);
  Tenants tenants_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_SETTINGS_STORE_H_

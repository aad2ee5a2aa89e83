// SettingsStore keeps operators' settings across restarts, in an embedded RocksDB: durations of the
// coordinator itself, and settings of tenants for all nodes. It does not keep the directory of
// blocks, which is soft state, nor any tenant's secret.
//
// In a new directory settings are *unknown*, because they may have been lost: until an operator
// says Init() or Import(), nothing can be set, and no node is told anything.
#ifndef KVTIER_COORDINATOR_SETTINGS_STORE_H_
#define KVTIER_COORDINATOR_SETTINGS_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/cluster_tenants.h"
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

  // Sets a value; returns once it is on the disk, and the next start would find it there. Errors:
  // kInvalidArgument, no such name or a value out of range (the text lists the names);
  // kFailedPrecondition, settings are unknown; kAborted, another Set() is being written (retry);
  // kUnavailable, the disk refused, or the directory or files of it are gone or replaced: nothing
  // has changed.
  absl::Status Set(const std::string& name, const std::string& value) ABSL_LOCKS_EXCLUDED(mu_);

  // Change the settings of one tenant, and return the new settings of all tenants, which have the
  // next version. Errors: as Set(); of ChangeTenant() also TenantChange::In()'s, and
  // kResourceExhausted, kMaxTenantSettings are reached; of DropTenant() also kNotFound.
  absl::StatusOr<ClusterTenants> ChangeTenant(const TenantChange& change) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ClusterTenants> DropTenant(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);
  // Begins settings of a new cluster, with an id of their own. With `replaced`, nodes that follow
  // that store are to follow this one; then it may be that settings are known already, and they
  // stay. Errors: as Set() but the first two; kFailedPrecondition, settings are known, and
  // `replaced` is 0 or their own store; kResourceExhausted, kMaxReplacedStores are reached.
  absl::StatusOr<ClusterTenants> Init(uint64_t replaced) ABSL_LOCKS_EXCLUDED(mu_);
  // Says whether settings that are known may give way to imported ones.
  enum class Existing { kStay, kGiveWay };
  // Makes these settings those of this coordinator. Where they take the place of another store's,
  // the nodes of that one are to follow them. Errors: as Set() but the first two;
  // kFailedPrecondition, other settings are known that are to stay, or that are of the same store
  // and later; kResourceExhausted, kMaxReplacedStores are reached. REQUIRES: `tenants` are valid.
  absl::StatusOr<ClusterTenants> Import(ClusterTenants tenants, Existing existing)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the settings of tenants; store and version are 0 while they are unknown.
  ClusterTenants tenants() const ABSL_LOCKS_EXCLUDED(mu_);

  CoordinatorSettings current() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns every setting by name, set or not.
  std::map<std::string, std::string> All() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  SettingsStore(std::string directory, std::unique_ptr<rocksdb::DB> db,
                const CoordinatorSettings& settings, ClusterTenants tenants);
  // The write-ahead log that takes the next row, as the directory's name shows it; 0: it is not
  // there.
  struct LogOnDisk {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  LogOnDisk FindLog() const;
  // Returns whether the next start finds the row that was just written: whether the log that the
  // directory's name shows has grown by it since the last check, and the other files are there.
  // Called by one Set() at a time. Errors: kUnavailable.
  absl::Status CheckStored(const std::string& key, const std::string& value);
  // Begins a change of the tenants' settings: no other call writes until StoreTenants().
  absl::StatusOr<ClusterTenants> BeginTenants() ABSL_LOCKS_EXCLUDED(mu_);
  // The same where settings are known. Errors: as Set() but the first.
  absl::StatusOr<ClusterTenants> BeginChange() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the change, with settings, or with an error that leaves them unchanged.
  absl::StatusOr<ClusterTenants> StoreTenants(absl::StatusOr<ClusterTenants> tenants)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckKnown() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string directory_;
  const std::unique_ptr<rocksdb::DB> db_;  // Database, written without mu_ by one Set() at a time.
  LogOnDisk log_ = FindLog();              // Result at the last CheckStored().
  mutable absl::Mutex mu_;
  CoordinatorSettings settings_ ABSL_GUARDED_BY(mu_);
  ClusterTenants tenants_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_SETTINGS_STORE_H_

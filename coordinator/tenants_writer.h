// TenantsWriter changes the cluster's settings of tenants: it stores them durably, and then hands
// them to the Coordinator, whose answers to reports carry them to the nodes. Changes are an
// operator's, or settings that were lost here and that a node still knows.
#ifndef KVTIER_COORDINATOR_TENANTS_WRITER_H_
#define KVTIER_COORDINATOR_TENANTS_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/guarded_coordinator.h"
#include "coordinator/settings_store.h"
#include "core/report.h"
#include "core/tenant_settings.h"

namespace kvtier {

// TenantsWriter is thread-safe. Owns neither `coordinator` nor `settings`.
class TenantsWriter {
 public:
  TenantsWriter(GuardedCoordinator* coordinator, SettingsStore* settings)
      : coordinator_(coordinator), settings_(settings) {}

  // Make an operator's change, and return the new settings of all tenants. Errors:
  // Coordinator::BeginTenantsChange()'s; those of the SettingsStore's method of the same purpose.
  absl::StatusOr<ClusterTenants> Change(const TenantChange& change);
  absl::StatusOr<ClusterTenants> Drop(const std::string& name);

  // Takes over the settings that a report brings, if the coordinator lost them, and says in `reply`
  // that they are no longer wanted. If they cannot be taken over, that is logged, once for each
  // reason, and the node brings them again. REQUIRES: `reply` is OnReport()'s to `report`.
  void Adopt(const Report& report, ReportReply* reply) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::StatusOr<uint64_t> Begin();
  void End(uint64_t known);
  void LogAdoption(const Report& report, const absl::Status& stored) ABSL_LOCKS_EXCLUDED(mu_);

  GuardedCoordinator* const coordinator_;
  SettingsStore* const settings_;
  absl::Mutex mu_;
  std::string complaint_ ABSL_GUARDED_BY(mu_);  // Reason that was logged last.
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_TENANTS_WRITER_H_

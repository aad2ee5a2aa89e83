#include "coordinator/tenants_writer.h"

#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<uint64_t> TenantsWriter::Begin() {
  absl::MutexLock lock(&coordinator_->mu);
  return coordinator_->coordinator.BeginTenantsChange();
}

void TenantsWriter::End(uint64_t known) {
  absl::MutexLock lock(&coordinator_->mu);
  coordinator_->coordinator.EndTenantsChange(settings_->tenants(), known);
}

absl::StatusOr<ClusterTenants> TenantsWriter::Change(const TenantChange& change) {
  KVT_ASSIGN_OR_RETURN(const uint64_t version, Begin());
  absl::StatusOr<ClusterTenants> stored = settings_->ChangeTenant(change, version);
  End(0);
  return stored;
}

absl::StatusOr<ClusterTenants> TenantsWriter::Drop(const std::string& name) {
  KVT_ASSIGN_OR_RETURN(const uint64_t version, Begin());
  absl::StatusOr<ClusterTenants> stored = settings_->DropTenant(name, version);
  End(0);
  return stored;
}

void TenantsWriter::Adopt(const Report& report, ReportReply* reply) {
  {
    absl::MutexLock lock(&coordinator_->mu);
    if (!coordinator_->coordinator.BeginAdoption(report)) return;
  }
  const absl::Status stored = settings_->AdoptTenants(*report.tenants).status();
  End(stored.ok() ? report.tenants->version : 0);
  LogAdoption(report, stored);
  absl::MutexLock lock(&coordinator_->mu);
  coordinator_->coordinator.AnswerTenants(report, reply);
}

void TenantsWriter::LogAdoption(const Report& report, const absl::Status& stored) {
  if (stored.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("settings of tenants were lost here; took over version ",
                     report.tenants->version, " from node ", report.node.str()));
    return;
  }
  if (absl::IsAborted(stored)) return;  // Another setting was being written: the next try succeeds.
  const std::string complaint =
      absl::StrCat("settings of tenants were lost here, and those of node ", report.node.str(),
                   " cannot be taken over: ", stored.message(),
                   "; to begin with the nodes' settings alone, stop this coordinator, remove "
                   "--data_dir and start it again");
  absl::MutexLock lock(&mu_);
  if (complaint == complaint_) return;
  complaint_ = complaint;
  Log(LogLevel::kError, complaint);
}

}  // namespace kvtier

// AgentAdmin and CoordinatorAdmin ask one program over gRPC, each question within the
// same time limit. Nothing is retried: a person or a script decides.
#ifndef KVTIER_CLI_ADMIN_CLIENT_H_
#define KVTIER_CLI_ADMIN_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// Program that is asked, and how long it has for each answer.
struct AskedProgram {
  std::string noun;     // "agent" or "coordinator".
  std::string address;  // gRPC address.
  absl::Duration timeout;
};

// Returns the error of a question to that program. Where gRPC could not connect, its words are
// replaced by who is not there and what to do; any other error stays as it is.
absl::Status ErrorOf(const absl::Status& status, const AskedProgram& asked);
// Returns whether the words of this error are those of ErrorOf().
bool SaysNobodyAnswers(const absl::Status& status);
// Returns whether the program answers that its start is not over.
bool SaysStarting(const absl::Status& status);

// Thread-safe. Errors of every question: kUnavailable or kDeadlineExceeded, nobody answered within
// `timeout`; kFailedPrecondition, the other side speaks no version of our protocol; any other error
// is the answer itself, in the program's words.
class AgentAdmin {
 public:
  AgentAdmin(const std::string& address, absl::Duration timeout);
  absl::StatusOr<v1::AgentStatusResponse> Status() const;
  absl::StatusOr<v1::LookupResponse> Lookup(const v1::LookupRequest& request) const;
  absl::StatusOr<v1::EvictTierResponse> EvictTier(const v1::EvictTierRequest& request) const;
  absl::StatusOr<v1::EraseTenantResponse> EraseTenant(const v1::EraseTenantRequest& request) const;
  absl::StatusOr<v1::ResizeGpuPoolResponse> ResizeGpuPool(
      const v1::ResizeGpuPoolRequest& request) const;
  absl::StatusOr<v1::ResizeHostMemoryResponse> ResizeHostMemory(
      const v1::ResizeHostMemoryRequest& request) const;
  absl::StatusOr<v1::StartDiskVerifyResponse> StartDiskVerify(
      const v1::StartDiskVerifyRequest& request) const;
  absl::StatusOr<v1::DiskVerifyStatusResponse> DiskVerifyStatus() const;
  absl::StatusOr<v1::DescribeSharingResponse> DescribeSharing() const;
  absl::StatusOr<v1::ListTenantsResponse> ListTenants() const;
  absl::StatusOr<v1::ListTenantsKeptResponse> ListTenantsKept(
      const v1::ListTenantsKeptRequest& request) const;
  absl::StatusOr<v1::EndTenantKeptResponse> EndTenantKept(
      const v1::EndTenantKeptRequest& request) const;
  absl::StatusOr<v1::DropPrefixResponse> DropPrefix(const v1::DropPrefixRequest& request) const;
  absl::StatusOr<v1::SetTenantResponse> SetTenant(const v1::SetTenantRequest& request) const;
  absl::StatusOr<v1::DropTenantResponse> DropTenant(const v1::DropTenantRequest& request) const;
  absl::StatusOr<v1::ExportTenantsResponse> ExportTenants() const;

 private:
  const std::unique_ptr<v1::AgentAdmin::Stub> stub_;
  const AskedProgram asked_;
};

class CoordinatorAdmin {
 public:
  CoordinatorAdmin(const std::string& address, absl::Duration timeout);
  absl::StatusOr<v1::CoordinatorStatusResponse> Status() const;
  absl::StatusOr<v1::LookupResponse> Lookup(const v1::LookupRequest& request) const;
  absl::StatusOr<v1::ListTenantsResponse> ListTenants() const;
  absl::StatusOr<v1::SetTenantResponse> SetTenant(const v1::SetTenantRequest& request) const;
  absl::StatusOr<v1::DropTenantResponse> DropTenant(const v1::DropTenantRequest& request) const;
  absl::StatusOr<v1::ExportTenantsResponse> ExportTenants() const;
  absl::StatusOr<v1::ImportTenantsResponse> ImportTenants(
      const v1::ImportTenantsRequest& request) const;
  absl::StatusOr<v1::InitTenantsResponse> InitTenants(const v1::InitTenantsRequest& request) const;
  absl::StatusOr<v1::GetSettingsResponse> GetSettings() const;
  absl::StatusOr<v1::SetSettingResponse> SetSetting(const v1::SetSettingRequest& request) const;

 private:
  const std::unique_ptr<v1::CoordinatorAdmin::Stub> stub_;
  const AskedProgram asked_;
};

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_ADMIN_CLIENT_H_

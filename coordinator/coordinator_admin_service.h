// CoordinatorAdminService answers `kvtier`'s requests to the coordinator, on a Unix socket for
// operators only.
#ifndef KVTIER_COORDINATOR_COORDINATOR_ADMIN_SERVICE_H_
#define KVTIER_COORDINATOR_COORDINATOR_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "coordinator/guarded_coordinator.h"
#include "coordinator/settings_store.h"
#include "kvtier/v1/admin.grpc.pb.h"

namespace kvtier {

// CoordinatorAdminService is thread-safe. Owns none of the objects that it is made with.
class CoordinatorAdminService final : public v1::CoordinatorAdmin::Service {
 public:
  CoordinatorAdminService(GuardedCoordinator* coordinator, SettingsStore* settings,
                          std::string build)
      : coordinator_(coordinator), settings_(settings), build_(std::move(build)) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::CoordinatorStatusRequest* request,
                      v1::CoordinatorStatusResponse* response) override;
  // Looks up by block key only: the coordinator has no tenant's secret to derive one.
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
  grpc::Status ListTenants(grpc::ServerContext* context, const v1::ListTenantsRequest* request,
                           v1::ListTenantsResponse* response) override;
  // This call and those down to InitTenants() that change settings store them durably before they
  // answer; each node that takes them gets them with the answer to its next report.
  grpc::Status SetTenant(grpc::ServerContext* context, const v1::SetTenantRequest* request,
                         v1::SetTenantResponse* response) override;
  grpc::Status DropTenant(grpc::ServerContext* context, const v1::DropTenantRequest* request,
                          v1::DropTenantResponse* response) override;
  grpc::Status ExportTenants(grpc::ServerContext* context, const v1::ExportTenantsRequest* request,
                             v1::ExportTenantsResponse* response) override;
  grpc::Status ImportTenants(grpc::ServerContext* context, const v1::ImportTenantsRequest* request,
                             v1::ImportTenantsResponse* response) override;
  grpc::Status InitTenants(grpc::ServerContext* context, const v1::InitTenantsRequest* request,
                           v1::InitTenantsResponse* response) override;
  grpc::Status GetSettings(grpc::ServerContext* context, const v1::GetSettingsRequest* request,
                           v1::GetSettingsResponse* response) override;
  // Stores the setting durably before it answers; it is in force from then on.
  grpc::Status SetSetting(grpc::ServerContext* context, const v1::SetSettingRequest* request,
                          v1::SetSettingResponse* response) override;

 private:
  // Hands the stored settings of tenants to the coordinator, whose answers carry them to nodes.
  void Publish();

  GuardedCoordinator* const coordinator_;
  SettingsStore* const settings_;
  const std::string build_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_ADMIN_SERVICE_H_

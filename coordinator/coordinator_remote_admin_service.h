// CoordinatorRemoteAdminService is the part of CoordinatorAdmin that the TCP port offers: requests
// that read and name no block. It answers all others with the path of the socket that serves them,
// until callers over TCP can prove who they are.
#ifndef KVTIER_COORDINATOR_COORDINATOR_REMOTE_ADMIN_SERVICE_H_
#define KVTIER_COORDINATOR_COORDINATOR_REMOTE_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "coordinator/coordinator_admin_service.h"
#include "kvtier/v1/admin.grpc.pb.h"

namespace kvtier {

// CoordinatorRemoteAdminService is thread-safe. REQUIRES: `admin` outlives the server. An RPC that
// is not named here is answered with UNIMPLEMENTED; tests/integration/doors_test.cc requires a
// place for each.
class CoordinatorRemoteAdminService final : public v1::CoordinatorAdmin::Service {
 public:
  CoordinatorRemoteAdminService(CoordinatorAdminService* admin, std::string admin_socket)
      : admin_(admin), admin_socket_(std::move(admin_socket)) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::CoordinatorStatusRequest* request,
                      v1::CoordinatorStatusResponse* response) override;
  grpc::Status GetSettings(grpc::ServerContext* context, const v1::GetSettingsRequest* request,
                           v1::GetSettingsResponse* response) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
  grpc::Status SetSetting(grpc::ServerContext* context, const v1::SetSettingRequest* request,
                          v1::SetSettingResponse* response) override;
  grpc::Status ListTenants(grpc::ServerContext* context, const v1::ListTenantsRequest* request,
                           v1::ListTenantsResponse* response) override;
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

 private:
  CoordinatorAdminService* const admin_;
  const std::string admin_socket_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_REMOTE_ADMIN_SERVICE_H_

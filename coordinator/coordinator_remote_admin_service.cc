#include "coordinator/coordinator_remote_admin_service.h"

#include "proto/convert.h"
#include "proto/rpc_door.h"

namespace kvtier {

grpc::Status CoordinatorRemoteAdminService::Status(grpc::ServerContext* context,
                                                   const v1::CoordinatorStatusRequest* request,
                                                   v1::CoordinatorStatusResponse* response) {
  return admin_->Status(context, request, response);
}

grpc::Status CoordinatorRemoteAdminService::GetSettings(grpc::ServerContext* context,
                                                        const v1::GetSettingsRequest* request,
                                                        v1::GetSettingsResponse* response) {
  return admin_->GetSettings(context, request, response);
}

grpc::Status CoordinatorRemoteAdminService::Lookup(grpc::ServerContext*, const v1::LookupRequest*,
                                                   v1::LookupResponse*) {
  return convert::ToGrpc(NotAtThisDoor("Lookup", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::SetSetting(grpc::ServerContext*,
                                                       const v1::SetSettingRequest*,
                                                       v1::SetSettingResponse*) {
  return convert::ToGrpc(NotAtThisDoor("SetSetting", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::ListTenants(grpc::ServerContext*,
                                                        const v1::ListTenantsRequest*,
                                                        v1::ListTenantsResponse*) {
  return convert::ToGrpc(NotAtThisDoor("ListTenants", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::SetTenant(grpc::ServerContext*,
                                                      const v1::SetTenantRequest*,
                                                      v1::SetTenantResponse*) {
  return convert::ToGrpc(NotAtThisDoor("SetTenant", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::DropTenant(grpc::ServerContext*,
                                                       const v1::DropTenantRequest*,
                                                       v1::DropTenantResponse*) {
  return convert::ToGrpc(NotAtThisDoor("DropTenant", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::ExportTenants(grpc::ServerContext*,
                                                          const v1::ExportTenantsRequest*,
                                                          v1::ExportTenantsResponse*) {
  return convert::ToGrpc(NotAtThisDoor("ExportTenants", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::ImportTenants(grpc::ServerContext*,
                                                          const v1::ImportTenantsRequest*,
                                                          v1::ImportTenantsResponse*) {
  return convert::ToGrpc(NotAtThisDoor("ImportTenants", admin_socket_));
}

grpc::Status CoordinatorRemoteAdminService::InitTenants(grpc::ServerContext*,
                                                        const v1::InitTenantsRequest*,
                                                        v1::InitTenantsResponse*) {
  return convert::ToGrpc(NotAtThisDoor("InitTenants", admin_socket_));
}

}  // namespace kvtier

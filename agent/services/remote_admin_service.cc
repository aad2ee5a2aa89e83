#include "agent/services/remote_admin_service.h"

#include "proto/convert.h"
#include "proto/rpc_door.h"

namespace kvtier {

RemoteAdminService::Reactor* RemoteAdminService::Status(Context* context,
                                                        const v1::AgentStatusRequest* request,
                                                        v1::AgentStatusResponse* response) {
  return calls_.Run(context, *request, admin_->PublicStatus(response));
}

RemoteAdminService::Reactor* RemoteAdminService::Refuse(Context* context, const char* rpc) const {
  Reactor* const reactor = context->DefaultReactor();
  reactor->Finish(convert::ToGrpc(NotAtThisDoor(rpc, admin_socket_)));
  return reactor;
}

RemoteAdminService::Reactor* RemoteAdminService::Lookup(Context* context,
                                                        const v1::LookupRequest* /*request*/,
                                                        v1::LookupResponse* /*response*/) {
  return Refuse(context, "Lookup");
}

RemoteAdminService::Reactor* RemoteAdminService::EvictTier(Context* context,
                                                           const v1::EvictTierRequest* /*request*/,
                                                           v1::EvictTierResponse* /*response*/) {
  return Refuse(context, "EvictTier");
}

RemoteAdminService::Reactor* RemoteAdminService::EraseTenant(
    Context* context, const v1::EraseTenantRequest* /*request*/,
    v1::EraseTenantResponse* /*response*/) {
  return Refuse(context, "EraseTenant");
}

RemoteAdminService::Reactor* RemoteAdminService::ResizeGpuPool(
    Context* context, const v1::ResizeGpuPoolRequest* /*request*/,
    v1::ResizeGpuPoolResponse* /*response*/) {
  return Refuse(context, "ResizeGpuPool");
}

RemoteAdminService::Reactor* RemoteAdminService::ResizeHostMemory(
    Context* context, const v1::ResizeHostMemoryRequest* /*request*/,
    v1::ResizeHostMemoryResponse* /*response*/) {
  return Refuse(context, "ResizeHostMemory");
}

RemoteAdminService::Reactor* RemoteAdminService::StartDiskVerify(
    Context* context, const v1::StartDiskVerifyRequest* /*request*/,
    v1::StartDiskVerifyResponse* /*response*/) {
  return Refuse(context, "StartDiskVerify");
}

RemoteAdminService::Reactor* RemoteAdminService::DiskVerifyStatus(
    Context* context, const v1::DiskVerifyStatusRequest* /*request*/,
    v1::DiskVerifyStatusResponse* /*response*/) {
  return Refuse(context, "DiskVerifyStatus");
}

RemoteAdminService::Reactor* RemoteAdminService::DescribeSharing(
    Context* context, const v1::DescribeSharingRequest* /*request*/,
    v1::DescribeSharingResponse* /*response*/) {
  return Refuse(context, "DescribeSharing");
}

RemoteAdminService::Reactor* RemoteAdminService::ListTenants(
    Context* context, const v1::ListTenantsRequest* /*request*/,
    v1::ListTenantsResponse* /*response*/) {
  return Refuse(context, "ListTenants");
}

RemoteAdminService::Reactor* RemoteAdminService::ListTenantsKept(
    Context* context, const v1::ListTenantsKeptRequest* /*request*/,
    v1::ListTenantsKeptResponse* /*response*/) {
  return Refuse(context, "ListTenantsKept");
}

RemoteAdminService::Reactor* RemoteAdminService::EndTenantKept(
    Context* context, const v1::EndTenantKeptRequest* /*request*/,
    v1::EndTenantKeptResponse* /*response*/) {
  return Refuse(context, "EndTenantKept");
}

RemoteAdminService::Reactor* RemoteAdminService::DropPrefix(
    Context* context, const v1::DropPrefixRequest* /*request*/,
    v1::DropPrefixResponse* /*response*/) {
  return Refuse(context, "DropPrefix");
}

RemoteAdminService::Reactor* RemoteAdminService::SetTenant(Context* context,
                                                           const v1::SetTenantRequest* /*request*/,
                                                           v1::SetTenantResponse* /*response*/) {
  return Refuse(context, "SetTenant");
}

RemoteAdminService::Reactor* RemoteAdminService::DropTenant(
    Context* context, const v1::DropTenantRequest* /*request*/,
    v1::DropTenantResponse* /*response*/) {
  return Refuse(context, "DropTenant");
}

RemoteAdminService::Reactor* RemoteAdminService::ExportTenants(
    Context* context, const v1::ExportTenantsRequest* /*request*/,
    v1::ExportTenantsResponse* /*response*/) {
  return Refuse(context, "ExportTenants");
}

}  // namespace kvtier

// RemoteAdminService is the part of AgentAdmin that the TCP port offers: a status without keys or
// tenants. It answers all other calls with the path of the socket that serves them, until callers
// over TCP can prove who they are.
#ifndef KVTIER_AGENT_SERVICES_REMOTE_ADMIN_SERVICE_H_
#define KVTIER_AGENT_SERVICES_REMOTE_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "agent/services/admin_service.h"
#include "kvtier/v1/admin.grpc.pb.h"

namespace kvtier {

// Thread-safe. REQUIRES: `agent` and `admin` outlive the server. An RPC that is not named here is
// answered with UNIMPLEMENTED; tests/integration/doors_test.cc fails until each RPC has its door.
class RemoteAdminService final : public v1::AgentAdmin::CallbackService {
 public:
  RemoteAdminService(Agent* agent, AdminService* admin, std::string admin_socket)
      : admin_(admin),
        admin_socket_(std::move(admin_socket)),
        budget_({.bytes = kMaxAdminCallBytes, .duration = kMaxCallDuration}),
        calls_(agent->executor(), agent->scope(), &budget_) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* Status(Context* context, const v1::AgentStatusRequest* request,
                  v1::AgentStatusResponse* response) override;
  Reactor* Lookup(Context* context, const v1::LookupRequest* request,
                  v1::LookupResponse* response) override;
  Reactor* EvictTier(Context* context, const v1::EvictTierRequest* request,
                     v1::EvictTierResponse* response) override;
  Reactor* EraseTenant(Context* context, const v1::EraseTenantRequest* request,
                       v1::EraseTenantResponse* response) override;
  Reactor* ResizeGpuPool(Context* context, const v1::ResizeGpuPoolRequest* request,
                         v1::ResizeGpuPoolResponse* response) override;
  Reactor* ResizeHostMemory(Context* context, const v1::ResizeHostMemoryRequest* request,
                            v1::ResizeHostMemoryResponse* response) override;
  Reactor* StartDiskVerify(Context* context, const v1::StartDiskVerifyRequest* request,
                           v1::StartDiskVerifyResponse* response) override;
  Reactor* DiskVerifyStatus(Context* context, const v1::DiskVerifyStatusRequest* request,
                            v1::DiskVerifyStatusResponse* response) override;
  Reactor* DescribeSharing(Context* context, const v1::DescribeSharingRequest* request,
                           v1::DescribeSharingResponse* response) override;
  Reactor* ListTenants(Context* context, const v1::ListTenantsRequest* request,
                       v1::ListTenantsResponse* response) override;
  Reactor* ListTenantsKept(Context* context, const v1::ListTenantsKeptRequest* request,
                           v1::ListTenantsKeptResponse* response) override;
  Reactor* EndTenantKept(Context* context, const v1::EndTenantKeptRequest* request,
                         v1::EndTenantKeptResponse* response) override;
  Reactor* DropPrefix(Context* context, const v1::DropPrefixRequest* request,
                      v1::DropPrefixResponse* response) override;
  Reactor* SetTenant(Context* context, const v1::SetTenantRequest* request,
                     v1::SetTenantResponse* response) override;
  Reactor* DropTenant(Context* context, const v1::DropTenantRequest* request,
                      v1::DropTenantResponse* response) override;
  Reactor* ExportTenants(Context* context, const v1::ExportTenantsRequest* request,
                         v1::ExportTenantsResponse* response) override;

 private:
  Reactor* Refuse(Context* context, const char* rpc) const;

  AdminService* const admin_;
  const std::string admin_socket_;
  // Budget of this service alone, so that callers over TCP take nothing from local operators.
  CallBudget budget_;
  UnaryCalls calls_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_REMOTE_ADMIN_SERVICE_H_

// FakeAgentAdmin and FakeCoordinatorAdmin answer admin questions as a test scripts
// them; AdminServer serves them over real gRPC on a port of the loopback.
#ifndef KVTIER_TESTS_TESTING_FAKE_ADMIN_H_
#define KVTIER_TESTS_TESTING_FAKE_ADMIN_H_

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/server.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::testing {

// A test sets the answers before it serves them. If `status` is an error, every call returns it.
class FakeAgentAdmin final : public v1::AgentAdmin::Service {
 public:
  grpc::Status status;
  v1::AgentStatusResponse status_response;
  // Answers of Lookup by block key, and block keys by engine key, for a Lookup by engine key.
  std::map<std::string, v1::LookupResponse> blocks;
  std::map<std::string, std::string> block_key_of;
  std::string peer_name;  // Name of each block in answers of Lookup; empty: it is not known.
  // Answers of EvictTier, by tier.
  std::map<v1::Tier, v1::EvictTierResponse> evictions;
  v1::EraseTenantResponse erased;
  v1::EraseTenantRequest erase_asked;  // The last request.
  v1::ResizeGpuPoolResponse resized;
  v1::ResizeGpuPoolRequest resize_asked;  // The last request.
  v1::ResizeHostMemoryResponse host_resized;
  v1::ResizeHostMemoryRequest host_resize_asked;  // The last request.
  // Answer of StartDiskVerify, and answers of DiskVerifyStatus in order; the last one is repeated.
  v1::StartDiskVerifyResponse verify_began;
  std::deque<v1::DiskVerifyStatusResponse> verify_steps;
  v1::StartDiskVerifyRequest verify_asked;  // The last request.
  v1::DescribeSharingResponse sharing;
  v1::ListTenantsResponse tenants;
  grpc::Status tenants_status;  // Answer of ListTenants if this is an error.
  v1::ListTenantsKeptResponse kept;
  v1::ListTenantsKeptRequest kept_asked;  // The last request; so are the next two.
  v1::EndTenantKeptResponse ended;
  v1::EndTenantKeptRequest end_asked;
  v1::DropPrefixResponse dropped;
  v1::DropPrefixRequest drop_asked;
  v1::SetTenantRequest set_asked;           // The last request.
  v1::DropTenantRequest tenant_drop_asked;  // The last request.
  v1::DropTenantResponse tenant_dropped;
  // Whether Status() is not answered before `released`, which is a member here and not in the test
  // so that it outlives the call that waits for it.
  bool hangs = false;
  absl::Notification released;

  grpc::Status Status(grpc::ServerContext* context, const v1::AgentStatusRequest* request,
                      v1::AgentStatusResponse* response) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
  grpc::Status EvictTier(grpc::ServerContext* context, const v1::EvictTierRequest* request,
                         v1::EvictTierResponse* response) override;
  grpc::Status EraseTenant(grpc::ServerContext* context, const v1::EraseTenantRequest* request,
                           v1::EraseTenantResponse* response) override;
  grpc::Status ResizeGpuPool(grpc::ServerContext* context, const v1::ResizeGpuPoolRequest* request,
                             v1::ResizeGpuPoolResponse* response) override;
  grpc::Status ResizeHostMemory(grpc::ServerContext* context,
                                const v1::ResizeHostMemoryRequest* request,
                                v1::ResizeHostMemoryResponse* response) override;
  grpc::Status StartDiskVerify(grpc::ServerContext* context,
                               const v1::StartDiskVerifyRequest* request,
                               v1::StartDiskVerifyResponse* response) override;
  grpc::Status DiskVerifyStatus(grpc::ServerContext* context,
                                const v1::DiskVerifyStatusRequest* request,
                                v1::DiskVerifyStatusResponse* response) override;
  grpc::Status DescribeSharing(grpc::ServerContext* context,
                               const v1::DescribeSharingRequest* request,
                               v1::DescribeSharingResponse* response) override;
  grpc::Status ListTenants(grpc::ServerContext* context, const v1::ListTenantsRequest* request,
                           v1::ListTenantsResponse* response) override;
  grpc::Status ListTenantsKept(grpc::ServerContext* context,
                               const v1::ListTenantsKeptRequest* request,
                               v1::ListTenantsKeptResponse* response) override;
  grpc::Status EndTenantKept(grpc::ServerContext* context, const v1::EndTenantKeptRequest* request,
                             v1::EndTenantKeptResponse* response) override;
  grpc::Status DropPrefix(grpc::ServerContext* context, const v1::DropPrefixRequest* request,
                          v1::DropPrefixResponse* response) override;
  grpc::Status SetTenant(grpc::ServerContext* context, const v1::SetTenantRequest* request,
                         v1::SetTenantResponse* response) override;
  grpc::Status DropTenant(grpc::ServerContext* context, const v1::DropTenantRequest* request,
                          v1::DropTenantResponse* response) override;
};

// FakeCoordinatorAdmin returns settings that were set before, and refuses the setting `frozen`.
class FakeCoordinatorAdmin final : public v1::CoordinatorAdmin::Service {
 public:
  v1::CoordinatorStatusResponse status_response;
  std::map<std::string, v1::LookupResponse> blocks;  // Answers to Lookup() by peer name.
  v1::ListTenantsResponse tenants;
  v1::SetTenantRequest set_asked;  // The last request, as are the next two.
  v1::ImportTenantsRequest import_asked;
  v1::InitTenantsRequest init_asked;
  v1::ExportTenantsResponse exported;

  grpc::Status Status(grpc::ServerContext* context, const v1::CoordinatorStatusRequest* request,
                      v1::CoordinatorStatusResponse* response) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
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
  grpc::Status GetSettings(grpc::ServerContext* context, const v1::GetSettingsRequest* request,
                           v1::GetSettingsResponse* response) override;
  grpc::Status SetSetting(grpc::ServerContext* context, const v1::SetSettingRequest* request,
                          v1::SetSettingResponse* response) override;

 private:
  absl::Mutex mu_;
  std::map<std::string, std::string> settings_ ABSL_GUARDED_BY(mu_);
};

// Serves `service`, which it does not own, until it is destroyed.
class AdminServer {
 public:
  explicit AdminServer(grpc::Service* service);
  ~AdminServer();
  const std::string& address() const { return address_; }  // "127.0.0.1:PORT".

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_ADMIN_H_

#include "tests/testing/fake_admin.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/check.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace kvtier::testing {

grpc::Status FakeAgentAdmin::Status(grpc::ServerContext* /*context*/,
                                    const v1::AgentStatusRequest* /*request*/,
                                    v1::AgentStatusResponse* response) {
  if (hangs) released.WaitForNotification();
  *response = status_response;
  return status;
}

grpc::Status FakeAgentAdmin::Lookup(grpc::ServerContext* /*context*/,
                                    const v1::LookupRequest* request,
                                    v1::LookupResponse* response) {
  std::string key = request->block_key();
  if (key.empty()) {
    const auto named = block_key_of.find(request->engine_key());
    if (named == block_key_of.end() || request->tenant().empty() ||
        request->space_digest().size() != 32) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no such tenant"};
    }
    key = named->second;
  }
  if (const auto found = blocks.find(key); found != blocks.end()) *response = found->second;
  response->set_block_key(key);
  if (!peer_name.empty()) response->set_peer_name(peer_name);
  return status;
}

grpc::Status FakeAgentAdmin::EvictTier(grpc::ServerContext* /*context*/,
                                       const v1::EvictTierRequest* request,
                                       v1::EvictTierResponse* response) {
  *response = evictions[request->tier()];
  return status;
}

grpc::Status FakeAgentAdmin::EraseTenant(grpc::ServerContext* /*context*/,
                                         const v1::EraseTenantRequest* request,
                                         v1::EraseTenantResponse* response) {
  erase_asked = *request;
  *response = erased;
  return status;
}

grpc::Status FakeAgentAdmin::ResizeGpuPool(grpc::ServerContext* /*context*/,
                                           const v1::ResizeGpuPoolRequest* request,
                                           v1::ResizeGpuPoolResponse* response) {
  resize_asked = *request;
  *response = resized;
  return status;
}

grpc::Status FakeAgentAdmin::ResizeHostMemory(grpc::ServerContext* /*context*/,
                                              const v1::ResizeHostMemoryRequest* request,
                                              v1::ResizeHostMemoryResponse* response) {
  host_resize_asked = *request;
  *response = host_resized;
  return status;
}

grpc::Status FakeAgentAdmin::StartDiskVerify(grpc::ServerContext* /*context*/,
                                             const v1::StartDiskVerifyRequest* request,
                                             v1::StartDiskVerifyResponse* response) {
  verify_asked = *request;
  *response = verify_began;
  return status;
}

grpc::Status FakeAgentAdmin::DiskVerifyStatus(grpc::ServerContext* /*context*/,
                                              const v1::DiskVerifyStatusRequest* /*request*/,
                                              v1::DiskVerifyStatusResponse* response) {
  if (verify_steps.empty()) return {grpc::StatusCode::INTERNAL, "nothing is scripted"};
  *response = verify_steps.front();
  if (verify_steps.size() > 1) verify_steps.pop_front();
  return status;
}

grpc::Status FakeAgentAdmin::DescribeSharing(grpc::ServerContext* /*context*/,
                                             const v1::DescribeSharingRequest* /*request*/,
                                             v1::DescribeSharingResponse* response) {
  *response = sharing;
  return status;
}

grpc::Status FakeAgentAdmin::ListTenants(grpc::ServerContext* /*context*/,
                                         const v1::ListTenantsRequest* /*request*/,
                                         v1::ListTenantsResponse* response) {
  *response = tenants;
  return tenants_status.ok() ? status : tenants_status;
}

grpc::Status FakeAgentAdmin::ListTenantsKept(grpc::ServerContext* /*context*/,
                                             const v1::ListTenantsKeptRequest* request,
                                             v1::ListTenantsKeptResponse* response) {
  kept_asked = *request;
  *response = kept;
  return status;
}

grpc::Status FakeAgentAdmin::EndTenantKept(grpc::ServerContext* /*context*/,
                                           const v1::EndTenantKeptRequest* request,
                                           v1::EndTenantKeptResponse* response) {
  end_asked = *request;
  *response = ended;
  return status;
}

grpc::Status FakeAgentAdmin::DropPrefix(grpc::ServerContext* /*context*/,
                                        const v1::DropPrefixRequest* request,
                                        v1::DropPrefixResponse* response) {
  drop_asked = *request;
  *response = dropped;
  return status;
}

grpc::Status FakeAgentAdmin::SetTenant(grpc::ServerContext* /*context*/,
                                       const v1::SetTenantRequest* request,
                                       v1::SetTenantResponse* response) {
  set_asked = *request;
  response->mutable_tenant()->set_name(request->settings().name());
  *response->mutable_tenant()->mutable_settings() = request->settings();
  return status;
}

grpc::Status FakeAgentAdmin::DropTenant(grpc::ServerContext* /*context*/,
                                        const v1::DropTenantRequest* request,
                                        v1::DropTenantResponse* response) {
  tenant_drop_asked = *request;
  *response = tenant_dropped;
  return status;
}

grpc::Status FakeCoordinatorAdmin::Status(grpc::ServerContext* /*context*/,
                                          const v1::CoordinatorStatusRequest* /*request*/,
                                          v1::CoordinatorStatusResponse* response) {
  *response = status_response;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::Lookup(grpc::ServerContext* /*context*/,
                                          const v1::LookupRequest* request,
                                          v1::LookupResponse* response) {
  if (request->peer_name().size() != 16) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "peer_name is not 16 bytes"};
  }
  const auto found = blocks.find(request->peer_name());
  if (found != blocks.end()) *response = found->second;
  response->set_peer_name(request->peer_name());
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::ListTenants(grpc::ServerContext* /*context*/,
                                               const v1::ListTenantsRequest* /*request*/,
                                               v1::ListTenantsResponse* response) {
  *response = tenants;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::SetTenant(grpc::ServerContext* /*context*/,
                                             const v1::SetTenantRequest* request,
                                             v1::SetTenantResponse* response) {
  set_asked = *request;
  response->mutable_tenant()->set_name(request->settings().name());
  *response->mutable_tenant()->mutable_settings() = request->settings();
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::DropTenant(grpc::ServerContext* /*context*/,
                                              const v1::DropTenantRequest* /*request*/,
                                              v1::DropTenantResponse* response) {
  response->set_had_settings(true);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::ExportTenants(grpc::ServerContext* /*context*/,
                                                 const v1::ExportTenantsRequest* /*request*/,
                                                 v1::ExportTenantsResponse* response) {
  *response = exported;
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::ImportTenants(grpc::ServerContext* /*context*/,
                                                 const v1::ImportTenantsRequest* request,
                                                 v1::ImportTenantsResponse* response) {
  import_asked = *request;
  response->set_settings_store(request->tenants().store());
  response->set_settings_version(request->tenants().version());
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::InitTenants(grpc::ServerContext* /*context*/,
                                               const v1::InitTenantsRequest* request,
                                               v1::InitTenantsResponse* response) {
  init_asked = *request;
  response->set_settings_store(0xb0);
  response->set_settings_version(1);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::GetSettings(grpc::ServerContext* /*context*/,
                                               const v1::GetSettingsRequest* /*request*/,
                                               v1::GetSettingsResponse* response) {
  absl::MutexLock lock(&mu_);
  for (const auto& [name, value] : settings_) {
    v1::Setting* setting = response->add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinatorAdmin::SetSetting(grpc::ServerContext* /*context*/,
                                              const v1::SetSettingRequest* request,
                                              v1::SetSettingResponse* /*response*/) {
  absl::MutexLock lock(&mu_);
  if (request->setting().name() == "frozen") {
    return {grpc::StatusCode::INVALID_ARGUMENT, "frozen cannot be set"};
  }
  settings_[request->setting().name()] = request->setting().value();
  return grpc::Status::OK;
}

AdminServer::AdminServer(grpc::Service* service) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  KVT_CHECK(server_ != nullptr && port != 0);
  address_ = absl::StrCat("127.0.0.1:", port);
}

AdminServer::~AdminServer() {
  server_->Shutdown(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
}

}  // namespace kvtier::testing

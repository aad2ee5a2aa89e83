#include "cli/admin_client.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/convert.h"
#include "proto/link.h"

namespace kvtier::cli {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), LinkArguments());
}

// Asks one question. `method` is a member of the generated stub.
template <typename Response, typename Stub, typename Method, typename Request>
absl::StatusOr<Response> Ask(Stub* stub, Method method, const Request& request,
                             const AskedProgram& asked) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(asked.timeout));
  Response response;
  KVT_RETURN_IF_ERROR(
      ErrorOf(convert::FromGrpc((stub->*method)(&context, request, &response)), asked));
  return response;
}

// Beginnings of gRPC's words for a connection that it could not make; versions differ.
constexpr absl::string_view kNotConnected[] = {"failed to connect to all addresses",
                                               "connections to all backends failing",
                                               "DNS resolution failed", "empty address list"};

// Ends the words by which ErrorOf() says who is not there: "no agent answers at".
constexpr absl::string_view kAnswersAt = " answers at ";

// Returns "No such file or directory", the last part of gRPC's words; empty: they have no parts.
absl::string_view ReasonIn(absl::string_view words) {
  const size_t colon = words.rfind(": ");
  return colon == absl::string_view::npos ? "" : words.substr(colon + 2);
}

}  // namespace

absl::Status ErrorOf(const absl::Status& status, const AskedProgram& asked) {
  const absl::string_view words = status.message();
  const bool connected = std::ranges::none_of(
      kNotConnected, [&](absl::string_view begin) { return absl::StartsWith(words, begin); });
  if (!absl::IsUnavailable(status) || connected) return status;
  const absl::string_view reason = ReasonIn(words);
  const std::string remedy =
      absl::StrContains(reason, "Permission denied")
          ? absl::StrCat("run kvtier as root or as the user of kvtier-", asked.noun)
          : absl::StrCat("start kvtier-", asked.noun, ", or give its address by --", asked.noun);
  return absl::UnavailableError(absl::StrCat("no ", asked.noun, kAnswersAt, asked.address,
                                             reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
                                             "; ", remedy));
}

bool SaysNobodyAnswers(const absl::Status& status) {
  return absl::IsUnavailable(status) && absl::StartsWith(status.message(), "no ") &&
         absl::StrContains(status.message(), kAnswersAt);
}

bool SaysStarting(const absl::Status& status) {
  return absl::IsUnavailable(status) && absl::StrContains(status.message(), " is starting: ");
}

AgentAdmin::AgentAdmin(const std::string& address, absl::Duration timeout)
    : stub_(v1::AgentAdmin::NewStub(Connect(address))),
      asked_({.noun = "agent", .address = address, .timeout = timeout}) {}

absl::StatusOr<v1::AgentStatusResponse> AgentAdmin::Status() const {
  KVT_ASSIGN_OR_RETURN(v1::AgentStatusResponse response,
                       Ask<v1::AgentStatusResponse>(stub_.get(), &v1::AgentAdmin::Stub::Status,
                                                    v1::AgentStatusRequest(), asked_));
  KVT_RETURN_IF_ERROR(convert::CheckVersion(response.version()));
  return response;
}

absl::StatusOr<v1::LookupResponse> AgentAdmin::Lookup(const v1::LookupRequest& request) const {
  return Ask<v1::LookupResponse>(stub_.get(), &v1::AgentAdmin::Stub::Lookup, request, asked_);
}

absl::StatusOr<v1::EvictTierResponse> AgentAdmin::EvictTier(
    const v1::EvictTierRequest& request) const {
  return Ask<v1::EvictTierResponse>(stub_.get(), &v1::AgentAdmin::Stub::EvictTier, request, asked_);
}

absl::StatusOr<v1::EraseTenantResponse> AgentAdmin::EraseTenant(
    const v1::EraseTenantRequest& request) const {
  return Ask<v1::EraseTenantResponse>(stub_.get(), &v1::AgentAdmin::Stub::EraseTenant, request,
                                      asked_);
}

absl::StatusOr<v1::ResizeGpuPoolResponse> AgentAdmin::ResizeGpuPool(
    const v1::ResizeGpuPoolRequest& request) const {
  return Ask<v1::ResizeGpuPoolResponse>(stub_.get(), &v1::AgentAdmin::Stub::ResizeGpuPool, request,
                                        asked_);
}

absl::StatusOr<v1::ResizeHostMemoryResponse> AgentAdmin::ResizeHostMemory(
    const v1::ResizeHostMemoryRequest& request) const {
  return Ask<v1::ResizeHostMemoryResponse>(stub_.get(), &v1::AgentAdmin::Stub::ResizeHostMemory,
                                           request, asked_);
}

absl::StatusOr<v1::StartDiskVerifyResponse> AgentAdmin::StartDiskVerify(
    const v1::StartDiskVerifyRequest& request) const {
  return Ask<v1::StartDiskVerifyResponse>(stub_.get(), &v1::AgentAdmin::Stub::StartDiskVerify,
                                          request, asked_);
}

absl::StatusOr<v1::DiskVerifyStatusResponse> AgentAdmin::DiskVerifyStatus() const {
  return Ask<v1::DiskVerifyStatusResponse>(stub_.get(), &v1::AgentAdmin::Stub::DiskVerifyStatus,
                                           v1::DiskVerifyStatusRequest(), asked_);
}

absl::StatusOr<v1::DescribeSharingResponse> AgentAdmin::DescribeSharing() const {
  return Ask<v1::DescribeSharingResponse>(stub_.get(), &v1::AgentAdmin::Stub::DescribeSharing,
                                          v1::DescribeSharingRequest(), asked_);
}

absl::StatusOr<v1::ListTenantsResponse> AgentAdmin::ListTenants() const {
  return Ask<v1::ListTenantsResponse>(stub_.get(), &v1::AgentAdmin::Stub::ListTenants,
                                      v1::ListTenantsRequest(), asked_);
}

absl::StatusOr<v1::ListTenantsKeptResponse> AgentAdmin::ListTenantsKept(
    const v1::ListTenantsKeptRequest& request) const {
  return Ask<v1::ListTenantsKeptResponse>(stub_.get(), &v1::AgentAdmin::Stub::ListTenantsKept,
                                          request, asked_);
}

absl::StatusOr<v1::EndTenantKeptResponse> AgentAdmin::EndTenantKept(
    const v1::EndTenantKeptRequest& request) const {
  return Ask<v1::EndTenantKeptResponse>(stub_.get(), &v1::AgentAdmin::Stub::EndTenantKept, request,
                                        asked_);
}

absl::StatusOr<v1::DropPrefixResponse> AgentAdmin::DropPrefix(
    const v1::DropPrefixRequest& request) const {
  return Ask<v1::DropPrefixResponse>(stub_.get(), &v1::AgentAdmin::Stub::DropPrefix, request,
                                     asked_);
}

absl::StatusOr<v1::SetTenantResponse> AgentAdmin::SetTenant(
    const v1::SetTenantRequest& request) const {
  return Ask<v1::SetTenantResponse>(stub_.get(), &v1::AgentAdmin::Stub::SetTenant, request, asked_);
}

absl::StatusOr<v1::DropTenantResponse> AgentAdmin::DropTenant(
    const v1::DropTenantRequest& request) const {
  return Ask<v1::DropTenantResponse>(stub_.get(), &v1::AgentAdmin::Stub::DropTenant, request,
                                     asked_);
}

absl::StatusOr<v1::ExportTenantsResponse> AgentAdmin::ExportTenants() const {
  return Ask<v1::ExportTenantsResponse>(stub_.get(), &v1::AgentAdmin::Stub::ExportTenants,
                                        v1::ExportTenantsRequest(), asked_);
}

CoordinatorAdmin::CoordinatorAdmin(const std::string& address, absl::Duration timeout)
    : stub_(v1::CoordinatorAdmin::NewStub(Connect(address))),
      asked_({.noun = "coordinator", .address = address, .timeout = timeout}) {}

absl::StatusOr<v1::CoordinatorStatusResponse> CoordinatorAdmin::Status() const {
  KVT_ASSIGN_OR_RETURN(
      v1::CoordinatorStatusResponse response,
      Ask<v1::CoordinatorStatusResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::Status,
                                         v1::CoordinatorStatusRequest(), asked_));
  KVT_RETURN_IF_ERROR(convert::CheckVersion(response.version()));
  return response;
}

absl::StatusOr<v1::LookupResponse> CoordinatorAdmin::Lookup(
    const v1::LookupRequest& request) const {
  return Ask<v1::LookupResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::Lookup, request, asked_);
}

absl::StatusOr<v1::ListTenantsResponse> CoordinatorAdmin::ListTenants() const {
  return Ask<v1::ListTenantsResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::ListTenants,
                                      v1::ListTenantsRequest(), asked_);
}

absl::StatusOr<v1::SetTenantResponse> CoordinatorAdmin::SetTenant(
    const v1::SetTenantRequest& request) const {
  return Ask<v1::SetTenantResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::SetTenant, request,
                                    asked_);
}

absl::StatusOr<v1::DropTenantResponse> CoordinatorAdmin::DropTenant(
    const v1::DropTenantRequest& request) const {
  return Ask<v1::DropTenantResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::DropTenant, request,
                                     asked_);
}

absl::StatusOr<v1::ExportTenantsResponse> CoordinatorAdmin::ExportTenants() const {
  return Ask<v1::ExportTenantsResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::ExportTenants,
                                        v1::ExportTenantsRequest(), asked_);
}

absl::StatusOr<v1::ImportTenantsResponse> CoordinatorAdmin::ImportTenants(
    const v1::ImportTenantsRequest& request) const {
  return Ask<v1::ImportTenantsResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::ImportTenants,
                                        request, asked_);
}

absl::StatusOr<v1::InitTenantsResponse> CoordinatorAdmin::InitTenants(
    const v1::InitTenantsRequest& request) const {
  return Ask<v1::InitTenantsResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::InitTenants,
                                      request, asked_);
}

absl::StatusOr<v1::GetSettingsResponse> CoordinatorAdmin::GetSettings() const {
  return Ask<v1::GetSettingsResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::GetSettings,
                                      v1::GetSettingsRequest(), asked_);
}

absl::StatusOr<v1::SetSettingResponse> CoordinatorAdmin::SetSetting(
    const v1::SetSettingRequest& request) const {
  return Ask<v1::SetSettingResponse>(stub_.get(), &v1::CoordinatorAdmin::Stub::SetSetting, request,
                                     asked_);
}

}  // namespace kvtier::cli

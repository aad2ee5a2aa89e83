#include "coordinator/coordinator_admin_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"

namespace kvtier {
namespace {

void FillNode(const NodeView& node, v1::NodeReport* wire) {
  wire->set_node_id(node.id.str());
  wire->set_node_epoch(node.epoch.value);
  wire->set_address(node.address);
  wire->set_state(NodeStateName(node.state));
  wire->set_silence_seconds(absl::ToDoubleSeconds(node.silence));
  wire->set_directory_blocks(node.directory_blocks);
  for (const TierUsage& usage : node.tiers) *wire->add_tiers() = convert::ToWire(usage);
  wire->set_settings_store(node.tenants.store);
  wire->set_settings_version(node.tenants.version);
  wire->set_settings_differ(node.tenants_differ);
  wire->set_namesake_address(node.namesake_address);
  wire->set_namesake_silence_seconds(absl::ToDoubleSeconds(node.namesake_silence));
}

}  // namespace

grpc::Status CoordinatorAdminService::Status(grpc::ServerContext*,
                                             const v1::CoordinatorStatusRequest*,
                                             v1::CoordinatorStatusResponse* response) {
  CoordinatorView view;
  {
    absl::MutexLock lock(&coordinator_->mu);
    view = coordinator_->coordinator.snapshot();
  }
  *response->mutable_version() = convert::OurVersion(build_);
  response->set_coordinator_epoch(view.epoch.value);
  response->set_uptime_seconds(absl::ToDoubleSeconds(view.uptime));
  response->set_directory_keys(view.directory_keys);
  response->set_settings_store(view.tenants.store);
  response->set_settings_version(view.tenants.version);
  response->set_locate_requests(view.stats.locate_requests);
  response->set_reports(view.stats.reports);
  response->set_resyncs(view.stats.resyncs);
  response->set_refused_keys(view.stats.refused_keys);
  response->set_refused_holders(view.stats.refused_holders);
  response->set_refused_nodes(view.stats.refused_nodes);
  for (const NodeView& node : view.nodes) FillNode(node, response->add_nodes());
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                                             v1::LookupResponse* response) {
  if (request->peer_name().empty()) {
    return convert::ToGrpc(absl::InvalidArgumentError(
        "peer_name is empty; must be given to a coordinator, and an agent that has the block's "
        "tenant can make it"));
  }
  const absl::StatusOr<PeerName> name = convert::PeerNameFrom(request->peer_name(), "peer_name");
  if (!name.ok()) return convert::ToGrpc(name.status());
  std::vector<Holder> copies;
  {
    absl::MutexLock lock(&coordinator_->mu);
    copies = coordinator_->coordinator.Lookup(*name);
  }
  response->set_peer_name(request->peer_name());
  for (const Holder& copy : copies) {
    v1::LookupResponse::Copy* const wire = response->add_copies();
    wire->set_node_id(copy.node.str());
    wire->set_tier(convert::ToWire(copy.tier));
  }
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::GetSettings(grpc::ServerContext*,
                                                  const v1::GetSettingsRequest*,
                                                  v1::GetSettingsResponse* response) {
  for (const auto& [name, value] : settings_->All()) {
    v1::Setting* const setting = response->add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::SetSetting(grpc::ServerContext*,
                                                 const v1::SetSettingRequest* request,
                                                 v1::SetSettingResponse*) {
  const v1::Setting& setting = request->setting();
  const absl::Status stored = settings_->Set(setting.name(), setting.value());
  if (!stored.ok()) return convert::ToGrpc(stored);
  {
    absl::MutexLock lock(&coordinator_->mu);
    // Read again under the lock, so that of two changes the later one stays in force.
    const CoordinatorSettings now = settings_->current();
    coordinator_->coordinator.SetTimeouts(now.node_timeout, now.forget_after);
  }
  Log(LogLevel::kInfo, absl::StrCat("setting ", setting.name(), " is now ", setting.value()));
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::ListTenants(grpc::ServerContext*,
                                                  const v1::ListTenantsRequest*,
                                                  v1::ListTenantsResponse* response) {
  const ClusterTenants tenants = settings_->tenants();
  response->set_settings_store(tenants.store);
  response->set_settings_version(tenants.version);
  for (const auto& [name, settings] : tenants.settings) {
    v1::TenantReport* const report = response->add_tenants();
    report->set_name(name);
    report->set_state("settings");
    report->set_settings_source("cluster");
    *report->mutable_settings() = convert::ToWire(settings);
  }
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::SetTenant(grpc::ServerContext*,
                                                const v1::SetTenantRequest* request,
                                                v1::SetTenantResponse* response) {
  if (!request->secret().empty()) {
    return convert::ToGrpc(absl::InvalidArgumentError(
        "secret: must be empty for a coordinator; set the tenant's secret on each node"));
  }
  const absl::StatusOr<TenantChange> change = convert::TenantChangeFrom(request->settings());
  if (!change.ok()) return convert::ToGrpc(change.status());
  const auto stored = settings_->ChangeTenant(*change);
  if (!stored.ok()) return convert::ToGrpc(stored.status());
  Publish();
  Log(LogLevel::kInfo,
      absl::StrCat("tenant ", change->name, ": settings changed, version ", stored->version));
  response->set_settings_version(stored->version);
  response->mutable_tenant()->set_name(change->name);
  response->mutable_tenant()->set_state("settings");
  const auto now = stored->settings.find(change->name);
  const bool is_set = now != stored->settings.end();
  response->mutable_tenant()->set_settings_source(is_set ? "cluster" : "default");
  if (is_set) *response->mutable_tenant()->mutable_settings() = convert::ToWire(now->second);
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::DropTenant(grpc::ServerContext*,
                                                 const v1::DropTenantRequest* request,
                                                 v1::DropTenantResponse* response) {
  const auto stored = settings_->DropTenant(request->tenant());
  if (!stored.ok()) return convert::ToGrpc(stored.status());
  Publish();
  Log(LogLevel::kInfo,
      absl::StrCat("tenant ", request->tenant(), ": settings dropped, version ", stored->version));
  response->set_had_settings(true);
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::ExportTenants(grpc::ServerContext*,
                                                    const v1::ExportTenantsRequest*,
                                                    v1::ExportTenantsResponse* response) {
  const ClusterTenants tenants = settings_->tenants();
  if (tenants.version == 0) {
    return convert::ToGrpc(absl::FailedPreconditionError(
        "settings are unknown to this coordinator; export those that a node follows"));
  }
  *response->mutable_tenants() = convert::ToWire(tenants);
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::ImportTenants(grpc::ServerContext*,
                                                    const v1::ImportTenantsRequest* request,
                                                    v1::ImportTenantsResponse* response) {
  absl::StatusOr<ClusterTenants> tenants = convert::ClusterTenantsFrom(request->tenants());
  if (!tenants.ok()) return convert::ToGrpc(tenants.status());
  const auto stored =
      settings_->Import(*std::move(tenants), request->replace() ? SettingsStore::Existing::kGiveWay
                                                                : SettingsStore::Existing::kStay);
  if (!stored.ok()) return convert::ToGrpc(stored.status());
  Publish();
  Log(LogLevel::kInfo,
      absl::StrCat("settings of ", stored->settings.size(), " tenants imported, version ",
                   stored->version, " of store ", StoreIdText(stored->store)));
  response->set_settings_store(stored->store);
  response->set_settings_version(stored->version);
  return grpc::Status::OK;
}

grpc::Status CoordinatorAdminService::InitTenants(grpc::ServerContext*,
                                                  const v1::InitTenantsRequest* request,
                                                  v1::InitTenantsResponse* response) {
  const auto stored = settings_->Init(request->replaced_store());
  if (!stored.ok()) return convert::ToGrpc(stored.status());
  Publish();
  const std::string replaced =
      request->replaced_store() == 0
          ? ""
          : absl::StrCat(", in place of store ", StoreIdText(request->replaced_store()));
  Log(LogLevel::kInfo, absl::StrCat("settings are version ", stored->version, " of store ",
                                    StoreIdText(stored->store), replaced));
  response->set_settings_store(stored->store);
  response->set_settings_version(stored->version);
  return grpc::Status::OK;
}

void CoordinatorAdminService::Publish() {
  absl::MutexLock lock(&coordinator_->mu);
  // Read again under the lock, so that of two changes the later one stays in force.
  coordinator_->coordinator.SetTenants(settings_->tenants());
}

}  // namespace kvtier

// AdminService's part about tenants: what each has, and who comes, is changed and goes.
#include <optional>
#include <string>
#include <utility>

#include "agent/services/admin_service.h"
#include "core/status_macros.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"

namespace kvtier {
namespace {

void FillShare(const TenantShares& shares, DomainId domain, v1::TenantShare* wire) {
  wire->set_used(shares.Taken(domain));
  wire->set_guaranteed(shares.Guarantee(domain));
  wire->set_limit(shares.limit());
}

const char* NameOf(SettingsSource source) {
  switch (source) {
    case SettingsSource::kNode:
      return "node";
    case SettingsSource::kCluster:
      return "cluster";
    case SettingsSource::kFile:
      return "file";
    case SettingsSource::kDefault:
      break;
  }
  return "default";
}

const char* StateOf(const NodeTenants::View& view) {
  if (!view.domain.has_value()) return "settings";
  return view.shut ? "shut" : "serving";
}

// Fills in what the tenant has of the node. REQUIRES: it has a domain.
void FillUse(Agent* agent, const NodeTenants::View& view, v1::TenantReport* report) {
  WorkerSessions& sessions = agent->sessions();
  const DomainId domain = *view.domain;
  FillShare(sessions.shares(), domain, report->mutable_sessions());
  FillShare(sessions.leases().shares(), domain, report->mutable_leases());
  FillShare(sessions.reservations().shares(), domain, report->mutable_reservations());
  const SlotPool& slots = agent->host().slots(domain);
  report->set_host_capacity_bytes(slots.capacity_bytes());
  report->set_host_used_bytes(slots.used_bytes());
  report->set_host_blocks(agent->index().blocks_in_host(domain));
  for (const Tier tier : kAllTiers) {
    if (agent->tenants().CapacityOf(tier) == 0) continue;
    const TierShare& share = view.shares[TierIndex(tier)];
    v1::TierShareReport* const told = report->add_shares();
    told->set_tier(convert::ToWire(tier));
    told->set_guaranteed_bytes(share.guaranteed);
    if (share.maximum != UINT64_MAX) told->set_maximum_bytes(share.maximum);
    told->set_weight(share.weight);
  }
}

void FillTenant(Agent* agent, const NodeTenants::View& view, v1::TenantReport* report) {
  report->set_name(view.name);
  report->set_state(StateOf(view));
  report->set_settings_source(NameOf(view.holding.source));
  *report->mutable_settings() = convert::ToWire(view.holding.settings);
  if (view.domain.has_value()) FillUse(agent, view, report);
}

}  // namespace

AdminService::Reactor* AdminService::ListTenants(Context* context,
                                                 const v1::ListTenantsRequest* request,
                                                 v1::ListTenantsResponse* response) {
  return calls_.Run(context, *request, DoListTenants(response));
}

Task<absl::Status> AdminService::DoListTenants(v1::ListTenantsResponse* response) {
  response->set_node_id(agent_->options().node.str());
  response->set_settings_version(agent_->tenants().cluster_version());
  response->set_settings_failure(agent_->tenants().settings_failure());
  for (const NodeTenants::View& view : agent_->tenants().All()) {
    FillTenant(agent_, view, response->add_tenants());
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::SetTenant(Context* context,
                                               const v1::SetTenantRequest* request,
                                               v1::SetTenantResponse* response) {
  return calls_.Run(context, *request, DoSetTenant(request, response));
}

Task<absl::Status> AdminService::DoSetTenant(const v1::SetTenantRequest* request,
                                             v1::SetTenantResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(TenantChange change, convert::TenantChangeFrom(request->settings()));
  std::optional<std::string> secret;
  if (!request->secret().empty()) secret = request->secret();
  const std::string name = change.name;
  KVT_CO_RETURN_IF_ERROR(co_await agent_->tenants().Set(std::move(change), std::move(secret)));
  response->set_node_id(agent_->options().node.str());
  response->set_settings_version(agent_->tenants().cluster_version());
  response->mutable_tenant()->set_name(name);
  for (const NodeTenants::View& view : agent_->tenants().All()) {
    if (view.name == name) FillTenant(agent_, view, response->mutable_tenant());
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::DropTenant(Context* context,
                                                const v1::DropTenantRequest* request,
                                                v1::DropTenantResponse* response) {
  return calls_.Run(context, *request, DoDropTenant(request, response));
}

Task<absl::Status> AdminService::DoDropTenant(const v1::DropTenantRequest* request,
                                              v1::DropTenantResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const NodeTenants::Dropped dropped,
                          co_await agent_->tenants().Drop(request->tenant()));
  response->set_node_id(agent_->options().node.str());
  response->set_sessions(dropped.sessions);
  response->set_disk_blocks(dropped.disk_blocks);
  response->set_memory_blocks(dropped.memory_blocks);
  response->set_held_bytes(dropped.held_bytes);
  response->set_had_settings(dropped.had_settings);
  co_return absl::OkStatus();
}

}  // namespace kvtier

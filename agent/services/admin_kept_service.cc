// AdminService's part about kept prefixes, and about prefixes that an operator drops.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/services/admin_service.h"
#include "agent/services/kept_wire.h"

namespace kvtier {

absl::StatusOr<const Tenant*> AdminService::TenantNamed(const std::string& name) const {
  const Tenant* const tenant = agent_->options().tenants.Find(name);
  if (tenant != nullptr) return tenant;
  return absl::NotFoundError(absl::StrCat("tenant: '", name, "' is not configured on this node"));
}

AdminService::Reactor* AdminService::ListTenantsKept(Context* context,
                                                     const v1::ListTenantsKeptRequest* request,
                                                     v1::ListTenantsKeptResponse* response) {
  return calls_.Run(context, *request, DoListTenantsKept(request, response));
}

Task<absl::Status> AdminService::DoListTenantsKept(const v1::ListTenantsKeptRequest* request,
                                                   v1::ListTenantsKeptResponse* response) {
  const std::string& wanted = request->tenant();
  if (!wanted.empty()) KVT_CO_RETURN_IF_ERROR(TenantNamed(wanted).status());
  response->set_node_id(agent_->options().node.str());
  for (const Tenant* const one : agent_->options().tenants.All()) {
    const Tenant& tenant = *one;
    if (!wanted.empty() && tenant.name != wanted) continue;
    v1::TenantKept* const of = response->add_tenants();
    of->set_tenant(tenant.name);
    FillKept(agent_->flows().kept_prefixes, tenant.domain, agent_->executor()->Now(), of);
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::EndTenantKept(Context* context,
                                                   const v1::EndTenantKeptRequest* request,
                                                   v1::EndTenantKeptResponse* response) {
  return calls_.Run(context, *request, DoEndTenantKept(request, response));
}

Task<absl::Status> AdminService::DoEndTenantKept(const v1::EndTenantKeptRequest* request,
                                                 v1::EndTenantKeptResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const Tenant* const tenant, TenantNamed(request->tenant()));
  response->set_ended_prefixes(static_cast<uint32_t>(
      co_await agent_->flows().prefix_keeper.End(tenant->domain, KeptId{request->kept_id()})));
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::DropPrefix(Context* context,
                                                const v1::DropPrefixRequest* request,
                                                v1::DropPrefixResponse* response) {
  return calls_.Run(context, *request, DoDropPrefix(request, response));
}

Task<absl::Status> AdminService::DoDropPrefix(const v1::DropPrefixRequest* request,
                                              v1::DropPrefixResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const Tenant* const tenant, TenantNamed(request->tenant()));
  KVT_CO_ASSIGN_OR_RETURN(const BlockKey key, NameOf(*tenant, *request));
  std::vector<BlockRun> runs(1);
  runs[0].domain = tenant->domain;
  runs[0].keys.push_back(key);
  FillDeleted(
      co_await agent_->flows().block_deleter.Delete(std::move(runs), DeleteScope::kDescendants),
      response);
  co_return absl::OkStatus();
}

}  // namespace kvtier

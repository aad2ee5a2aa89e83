// AdminService's part about sharing: who may connect, which spaces workers registered, and what
// each tenant has.
#include <algorithm>
#include <vector>

#include "agent/services/admin_service.h"
#include "agent/services/kept_wire.h"
#include "core/tenant_tag.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

void FillShare(const TenantShares& shares, DomainId domain, v1::TenantShare* wire) {
  wire->set_used(shares.Taken(domain));
  wire->set_guaranteed(shares.guarantee());
  wire->set_limit(shares.limit());
}

void FillDisk(const std::vector<TenantRoom>& rooms, TenantTag owner, v1::TenantDisk* wire) {
  const auto room = std::ranges::find(rooms, owner, &TenantRoom::owner);
  if (room == rooms.end()) return;
  wire->set_used_bytes(room->used_bytes);
  wire->set_guaranteed_bytes(room->guaranteed_bytes);
  wire->set_maximum_bytes(room->maximum_bytes);
  wire->set_fair_bytes(room->fair_bytes);
  wire->set_evictions(room->evictions);
  wire->set_evictions_suffered(room->evictions_suffered);
  wire->set_evictions_caused(room->evictions_caused);
}

}  // namespace

AdminService::Reactor* AdminService::DescribeSharing(Context* context,
                                                     const v1::DescribeSharingRequest* request,
                                                     v1::DescribeSharingResponse* response) {
  return calls_.Run(context, *request, DoDescribeSharing(response));
}

Task<absl::Status> AdminService::DoDescribeSharing(v1::DescribeSharingResponse* response) {
  const RegisteredSpaces& registered = agent_->sessions().table().spaces();
  for (const RegisteredSpaces::Registered* const space : registered.All()) {
    v1::RegisteredSpace* const report = response->add_spaces();
    *report->mutable_space() = convert::ToWire(space->spec);
    report->set_space_digest(convert::ToWire(space->digest));
    report->set_tenant(agent_->options().tenants.OfDomain(space->domain).name);
    report->set_sessions(static_cast<uint32_t>(space->sessions));
  }
  response->set_forgotten_spaces(registered.forgotten());
  for (const uint32_t uid : about_.worker_uids) response->add_worker_uids(uid);
  response->set_slab_bytes(agent_->options().slab_bytes);
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::ListTenants(Context* context,
                                                 const v1::ListTenantsRequest* request,
                                                 v1::ListTenantsResponse* response) {
  return calls_.Run(context, *request, DoListTenants(response));
}

Task<absl::Status> AdminService::DoListTenants(v1::ListTenantsResponse* response) {
  response->set_node_id(agent_->options().node.str());
  WorkerSessions& sessions = agent_->sessions();
  const DiskSet* const disks = agent_->disks().set();
  const std::vector<TenantRoom> rooms =
      disks == nullptr ? std::vector<TenantRoom>() : disks->Tenants();
  for (const Tenant& tenant : agent_->options().tenants.tenants()) {
    v1::TenantReport* const report = response->add_tenants();
    report->set_name(tenant.name);
    FillShare(sessions.shares(), tenant.domain, report->mutable_sessions());
    FillShare(sessions.leases().shares(), tenant.domain, report->mutable_leases());
    FillShare(sessions.reservations().shares(), tenant.domain, report->mutable_reservations());
    const SlotPool& slots = agent_->host().slots(tenant.domain);
    report->set_host_capacity_bytes(slots.capacity_bytes());
    report->set_host_used_bytes(slots.used_bytes());
    report->set_host_blocks(agent_->index().blocks_in_host(tenant.domain));
    FillKeptUse(agent_->flows().kept_prefixes.UseOf(tenant.domain), report->mutable_kept());
    if (disks != nullptr) FillDisk(rooms, TenantTagOf(tenant.name), report->mutable_disk());
  }
  co_return absl::OkStatus();
}

}  // namespace kvtier

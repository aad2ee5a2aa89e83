// AdminService's part about tenants: what each has, and how one is added, changed and dropped.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/services/admin_service.h"
#include "agent/services/kept_wire.h"
#include "core/status_macros.h"
#include "core/tenant_settings.h"
#include "core/tenant_tag.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"

namespace kvtier {
namespace {

void FillShare(const TenantShares& shares, DomainId domain, v1::TenantShare* wire) {
  wire->set_used(shares.Taken(domain));
  wire->set_guaranteed(shares.Guarantee(domain));
  wire->set_limit(shares.limit());
  wire->set_refused(shares.Refused(domain));
}

void FillShare(const StreamShares& shares, size_t tenants, DomainId domain, v1::TenantShare* wire) {
  wire->set_used(shares.Taken(domain));
  wire->set_guaranteed(shares.GuaranteeOf(tenants));
  wire->set_limit(shares.limit());
  wire->set_refused(shares.Refused(domain));
}

void FillShare(const CallShares::Use& use, v1::TenantShare* wire) {
  wire->set_used(use.taken);
  wire->set_guaranteed(use.guaranteed);
  wire->set_limit(use.limit);
  wire->set_refused(use.refused);
}

// Figures that are worked out for all tenants at once.
struct OfAll {
  std::vector<uint64_t> fair_slabs;  // Slabs of host memory, by domain.
  std::vector<TenantRoom> on_disks;
};

OfAll WorkOut(Agent* agent) {
  OfAll all{.fair_slabs = agent->host_shares().Fair(agent->host())};
  if (const DiskSet* const disks = agent->disks().set()) all.on_disks = disks->Tenants();
  return all;
}

// Returns the tenants of this node whose blocks were evicted for the domain's, with the number of
// blocks, the largest first. Leaves out those that were dropped.
std::vector<v1::TenantTaken> TakenBy(Agent* agent, DomainId domain) {
  std::vector<v1::TenantTaken> all;
  agent->evictor().ledger().ForEachTakenBy(domain, [&](DomainId owner, uint64_t blocks) {
    const std::string& name = agent->options().tenants.OfDomain(owner).name;
    const Tenant* const here = agent->options().tenants.Find(name);
    if (here == nullptr || here->domain != owner) return;
    v1::TenantTaken& taken = all.emplace_back();
    taken.set_tenant(name);
    taken.set_blocks(blocks);
  });
  std::ranges::stable_sort(all, std::greater(), [](const auto& one) { return one.blocks(); });
  return all;
}

void FillHost(Agent* agent, DomainId domain, const OfAll& all, v1::TenantHost* wire) {
  const HostShares& shares = agent->host_shares();
  const uint64_t slab_bytes = agent->options().slab_bytes;
  const TierShare share = shares.InForce(domain, agent->host());
  wire->set_guaranteed_bytes(share.guaranteed * slab_bytes);
  const bool is_bounded = share.maximum < shares.slabs();
  wire->set_maximum_bytes(is_bounded ? share.maximum * slab_bytes : UINT64_MAX);
  wire->set_fair_bytes(all.fair_slabs.at(static_cast<size_t>(domain)) * slab_bytes);
  const EvictionLedger& ledger = agent->evictor().ledger();
  wire->set_evictions(ledger.Of(domain));
  wire->set_evictions_suffered(ledger.SufferedBy(domain));
  wire->set_evictions_caused(ledger.CausedBy(domain));
  for (v1::TenantTaken& taken : TakenBy(agent, domain)) *wire->add_taken() = std::move(taken);
}

void FillDisk(const OfAll& all, TenantTag owner, v1::TenantDisk* wire) {
  const auto room = std::ranges::find(all.on_disks, owner, &TenantRoom::owner);
  if (room == all.on_disks.end()) return;
  wire->set_used_bytes(room->used_bytes);
  wire->set_guaranteed_bytes(room->guaranteed_bytes);
  wire->set_maximum_bytes(room->maximum_bytes);
  wire->set_fair_bytes(room->fair_bytes);
  wire->set_evictions(room->evictions);
  wire->set_evictions_suffered(room->evictions_suffered);
  wire->set_evictions_caused(room->evictions_caused);
}

void FillGpu(Agent* agent, DomainId domain, const TierShare& share, v1::TenantGpu* wire) {
  wire->set_capacity_bytes(agent->gpus().CapacityOf(domain));
  wire->set_used_bytes(agent->gpus().UsedBy(domain));
  wire->set_part_bytes(agent->gpu_divider().PartOf(domain));
  wire->set_guaranteed_bytes(share.guaranteed);
  wire->set_maximum_bytes(share.maximum);
}

void FillSwap(Agent* agent, DomainId domain, v1::TenantSwap* wire) {
  const SwappedSequences& swapped = agent->sessions().swapped();
  const SwappedSequences::Use use = swapped.UseOf(domain);
  const SwappedSequences::Counts counts = swapped.CountsOf(domain);
  wire->set_sequences(use.sequences);
  wire->set_blocks(use.blocks);
  wire->set_bytes(use.bytes);
  wire->set_quota_bytes(agent->flows().swapper.QuotaOf(domain));
  wire->set_swapped_out(counts.swapped_out);
  wire->set_swapped_in(counts.swapped_in);
  wire->set_refused(counts.refused);
  wire->set_dropped(counts.dropped);
}

void FillHits(const TenantHits::Counts& counts, v1::TenantHits* wire) {
  wire->set_gpu(counts.hits[TierIndex(Tier::kGpu)]);
  wire->set_host(counts.hits[TierIndex(Tier::kHost)]);
  wire->set_disk(counts.hits[TierIndex(Tier::kDisk)]);
  wire->set_peer(counts.peer_hits);
  wire->set_misses(counts.misses);
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
void FillUse(Agent* agent, const NodeTenants::View& view, const OfAll& all,
             v1::TenantReport* report) {
  WorkerSessions& sessions = agent->sessions();
  const DomainId domain = *view.domain;
  FillShare(sessions.shares(), domain, report->mutable_sessions());
  FillShare(sessions.leases().shares(), domain, report->mutable_leases());
  FillShare(sessions.reservations().shares(), domain, report->mutable_reservations());
  FillShare(sessions.calls().Of(domain), report->mutable_call_bytes());
  FillShare(agent->flows().fetcher.standings().running(), agent->options().tenants.size(), domain,
            report->mutable_fetches());
  if (const DiskLoader* const loader = agent->flows().disk_loader.get()) {
    FillShare(loader->shares(), domain, report->mutable_loads());
  }
  const SlotPool& slots = agent->host().slots(domain);
  report->set_host_capacity_bytes(slots.capacity_bytes());
  report->set_host_used_bytes(slots.used_bytes());
  report->set_host_blocks(agent->index().blocks_in_host(domain));
  FillHost(agent, domain, all, report->mutable_host());
  FillHits(agent->stats().tenants.Of(domain), report->mutable_hits());
  FillKeptUse(agent->flows().kept_prefixes.UseOf(domain), report->mutable_kept());
  report->set_refused_pins(agent->flows().kept_prefixes.RefusedOf(domain));
  if (agent->gpus().CapacityOf(domain) > 0) {
    FillGpu(agent, domain, view.shares[TierIndex(Tier::kGpu)], report->mutable_gpu());
    FillSwap(agent, domain, report->mutable_swap());
  }
  if (agent->disks().set() != nullptr) {
    FillDisk(all, TenantTagOf(view.name), report->mutable_disk());
  }
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

void FillTenant(Agent* agent, const NodeTenants::View& view, const OfAll& all,
                v1::TenantReport* report) {
  report->set_name(view.name);
  report->set_state(StateOf(view));
  report->set_settings_source(NameOf(view.holding.source));
  *report->mutable_settings() = convert::ToWire(view.holding.settings);
  if (view.domain.has_value()) FillUse(agent, view, all, report);
}

// Returns OK unless the change names a maximum of host memory that leaves the tenant no slab: parts
// of host memory are whole slabs, rounded down. A maximum of 0 is meant. Errors: kInvalidArgument.
absl::Status CheckHostMaximum(const TenantChange& change, uint64_t slab_bytes) {
  for (const TenantChange::Value& value : change.values) {
    if (value.tier != Tier::kHost || value.field != ShareField::kMaximum) continue;
    const uint64_t bytes = value.value.value_or(0);
    if (bytes == 0 || bytes >= slab_bytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tenant '", change.name, "', ", SettingName(value.tier, value.field), ": ",
                     bytes, "; must be 0 or at least one slab of ", slab_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

AdminService::Reactor* AdminService::ListTenants(Context* context,
                                                 const v1::ListTenantsRequest* request,
                                                 v1::ListTenantsResponse* response) {
  return calls_.Run(context, *request, DoListTenants(response));
}

Task<absl::Status> AdminService::DoListTenants(v1::ListTenantsResponse* response) {
  response->set_node_id(agent_->options().node.str());
  response->set_settings_version(agent_->tenants().cluster().version);
  response->set_settings_store(agent_->tenants().cluster().store);
  response->set_settings_failure(agent_->tenants().settings_failure());
  for (const TierUsage& usage : agent_->Usage()) *response->add_tiers() = convert::ToWire(usage);
  const OfAll all = WorkOut(agent_);
  for (const NodeTenants::View& view : agent_->tenants().All()) {
    FillTenant(agent_, view, all, response->add_tenants());
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
  KVT_CO_RETURN_IF_ERROR(CheckHostMaximum(change, agent_->options().slab_bytes));
  std::optional<std::string> secret;
  if (!request->secret().empty()) secret = request->secret();
  const std::string name = change.name;
  KVT_CO_RETURN_IF_ERROR(co_await agent_->tenants().Set(std::move(change), std::move(secret)));
  response->set_node_id(agent_->options().node.str());
  response->set_settings_version(agent_->tenants().cluster().version);
  response->mutable_tenant()->set_name(name);
  for (const NodeTenants::View& view : agent_->tenants().All()) {
    if (view.name == name) {
      FillTenant(agent_, view, WorkOut(agent_), response->mutable_tenant());
    }
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

AdminService::Reactor* AdminService::ExportTenants(Context* context,
                                                   const v1::ExportTenantsRequest* request,
                                                   v1::ExportTenantsResponse* response) {
  return calls_.Run(context, *request, DoExportTenants(response));
}

Task<absl::Status> AdminService::DoExportTenants(v1::ExportTenantsResponse* response) {
  const ClusterTenants& followed = agent_->tenants().cluster();
  if (followed.version == 0) {
    co_return absl::FailedPreconditionError(
        "this node follows no settings of a cluster, because no coordinator has sent it any");
  }
  response->set_node_id(agent_->options().node.str());
  *response->mutable_tenants() = convert::ToWire(followed);
  co_return absl::OkStatus();
}

}  // namespace kvtier

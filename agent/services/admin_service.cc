#include "agent/services/admin_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

void FillStats(const TierStats& stats, v1::TierReport* report) {
  report->set_hits(stats.hits);
  report->set_misses(stats.misses);
  report->set_inserts(stats.inserts);
  report->set_evictions(stats.evictions);
  report->set_declined(stats.declined);
  report->set_bytes_in(stats.bytes_in);
  report->set_bytes_out(stats.bytes_out);
  report->set_verified(stats.verified);
  report->set_verify_failures(stats.verify_failures);
  report->set_io_errors(stats.io_errors);
  report->set_read_p50_seconds(absl::ToDoubleSeconds(stats.read_latency.Quantile(0.5)));
  report->set_read_p99_seconds(absl::ToDoubleSeconds(stats.read_latency.Quantile(0.99)));
  report->set_write_p50_seconds(absl::ToDoubleSeconds(stats.write_latency.Quantile(0.5)));
  report->set_write_p99_seconds(absl::ToDoubleSeconds(stats.write_latency.Quantile(0.99)));
}

void FillEviction(const EvictionSummary& eviction, v1::EvictionReport* report) {
  report->set_policy(std::string(EvictionPolicyName(eviction.policy)));
  report->set_orders(eviction.orders);
  report->set_following_lru(eviction.following_lru);
  report->set_refused_blocks(eviction.refused);
  if (eviction.score.asked <= 0) return;
  report->set_learnt_hit_share(eviction.score.learnt / eviction.score.asked);
  report->set_lru_hit_share(eviction.score.lru / eviction.score.asked);
}

void FillPeers(const PeerStats& stats, const PeerStandings& standings, v1::PeerReport* report) {
  report->set_fetched_blocks(stats.fetched_blocks);
  report->set_fetched_bytes(stats.fetched_bytes);
  report->set_missed_blocks(stats.missed_blocks);
  report->set_verify_failures(stats.verify_failures);
  report->set_served_blocks(stats.served_blocks);
  report->set_served_bytes(stats.served_bytes);
  report->set_timeouts(stats.timeouts);
  report->set_passed_blocks(stats.passed_blocks);
  report->set_avoided_peers(standings.avoided());
}

void FillOffload(const OffloadStats& stats, const DiskWriteOptions& options,
                 const DiskPromises& promises, v1::OffloadReport* report) {
  report->set_policy(WritePolicyName(options.policy));
  report->set_moment(WriteMomentName(options.moment));
  report->set_written(stats.written);
  report->set_not_worth_it(stats.not_worth_it);
  report->set_over_budget(stats.over_budget);
  report->set_declined_behind(stats.declined_behind);
  report->set_evicted(stats.evicted);
  report->set_altered(stats.altered);
  report->set_disk_full(stats.disk_full);
  report->set_disk_failed(stats.disk_failed);
  report->set_waited(stats.waited);
  report->set_waiting(promises.waiting());
  report->set_promised_bytes(promises.bytes());
  report->set_behind(promises.behind());
}

void FillHostScrub(const HostScrubReport& scrub, v1::HostScrubReport* report) {
  report->set_bytes_per_second(scrub.bytes_per_second);
  report->set_passes(scrub.passes);
  report->set_last_pass_seconds(absl::ToDoubleSeconds(scrub.last_pass));
  report->set_blocks(scrub.blocks);
  report->set_bytes(scrub.bytes);
  report->set_altered(scrub.altered);
}

void FillStaging(const Staging::Report& staging, const AgentStats& stats,
                 v1::StagingReport* report) {
  report->set_session_bytes(staging.session_bytes);
  report->set_regions(static_cast<uint32_t>(staging.regions));
  report->set_reserved_bytes(staging.reserved_bytes);
  report->set_refused_regions(staging.refused_regions);
  report->set_blocks(stats.staged_blocks);
  report->set_refused_sums(stats.refused_sums);
}

void FillRecovery(const DiskTier::Recovery& recovery, v1::DiskRecovery* report) {
  report->set_recovered_blocks(recovery.recovered_blocks);
  report->set_dropped_stale(recovery.dropped_stale);
  report->set_dropped_corrupt(recovery.dropped_corrupt);
  report->set_dropped_misfit(recovery.dropped_misfit);
  report->set_dropped_keyless(recovery.dropped_keyless);
}

void FillLink(const GpuLinkStats& stats, absl::Time now, v1::GpuLinkReport* report) {
  absl::Duration busy = stats.busy;
  if (stats.in_flight > 0) busy += now - stats.busy_since;
  report->set_copies(stats.copies);
  report->set_failed(stats.failed);
  report->set_bytes(stats.bytes);
  report->set_in_flight(stats.in_flight);
  report->set_busy_seconds(absl::ToDoubleSeconds(busy));
  report->set_best_bytes_per_second(stats.best_bytes_per_second);
  report->set_p50_seconds(absl::ToDoubleSeconds(stats.latency.Quantile(0.5)));
  report->set_p99_seconds(absl::ToDoubleSeconds(stats.latency.Quantile(0.99)));
}

void FillSize(const GpuResizer& resizer, const GpuPool& pool, v1::GpuPoolSize* size) {
  const GpuResizer::Progress progress = resizer.progress();
  size->set_bytes(progress.bytes);
  size->set_target_bytes(progress.target_bytes);
  size->set_max_bytes(resizer.max_bytes());
  size->set_handle_bytes(pool.handle_bytes());
  size->set_slots_in_use(progress.slots_in_use);
  size->set_workers(static_cast<uint32_t>(progress.workers));
  size->set_failure(std::string(progress.ended.message()));
}

void FillGpu(const Agent& agent, GpuTier* gpu, absl::Time now, v1::GpuReport* report) {
  const SlotTable& table = gpu->pool().table();
  const GpuStats& stats = gpu->stats();
  report->set_device(gpu->device().name());
  report->set_uuid(gpu->device().uuid().ToString());
  report->set_tenant(agent.options().tenants.OfDomain(gpu->domain()).name);
  report->set_slots(table.slots());
  report->set_slot_bytes(gpu->pool().slot_bytes());
  report->set_free_slots(table.free_slots());
  report->set_draining_slots(table.draining_slots());
  report->set_workers(static_cast<uint32_t>(gpu->workers().size()));
  report->set_evicted_ahead(stats.evicted_ahead);
  report->set_offloaded_blocks(stats.offloaded);
  report->set_offload_declined(stats.offload_declined);
  report->set_padding_bytes(gpu->blocks().padding_bytes());
  report->set_granted_slots(gpu->grants().size());
  report->set_granted_unused_bytes(gpu->grants().UnusedBytes());
  FillLink(stats.onboard, now, report->mutable_onboard());
  FillLink(stats.offload, now, report->mutable_offload());
  FillSize(gpu->resizer(), gpu->pool(), report->mutable_size());
}

}  // namespace

AdminService::Reactor* AdminService::Status(Context* context, const v1::AgentStatusRequest* request,
                                            v1::AgentStatusResponse* response) {
  return calls_.Run(context, *request, DoStatus(response));
}

Task<absl::Status> AdminService::PublicStatus(v1::AgentStatusResponse* response) {
  KVT_CO_RETURN_IF_ERROR(co_await DoStatus(response));
  for (v1::GpuReport& gpu : *response->mutable_gpus()) gpu.clear_tenant();
  for (v1::DiskReport& disk : *response->mutable_disks()) {
    if (disk.id().empty()) disk.set_health("not open");
  }
  co_return absl::OkStatus();
}

Task<absl::Status> AdminService::DoStatus(v1::AgentStatusResponse* response) {
  const AgentStats& stats = agent_->stats();
  *response->mutable_version() = convert::OurVersion(about_.build);
  response->set_node_id(agent_->options().node.str());
  response->set_node_epoch(agent_->options().epoch.value);
  response->set_uptime_seconds(absl::ToDoubleSeconds(agent_->executor()->Now() - started_));
  response->set_sessions(agent_->sessions().table().size());
  response->set_leases(agent_->sessions().leases().size());
  response->set_reservations(agent_->sessions().reservations().size());
  response->set_tickets(static_cast<uint32_t>(agent_->flows().tickets.size()));
  response->set_ticket_blocks(agent_->flows().tickets.blocks());
  if (agent_->flows().offloader != nullptr) {
    response->set_offload_queue(agent_->flows().offloader->pending());
  }
  response->set_coordinator_address(about_.coordinator);
  response->set_told_address(agent_->options().address);
  if (const CoordinatorReporter* reporter = agent_->reporter()) {
    response->set_coordinator_connected(reporter->connected());
    response->set_coordinator_refusal(reporter->refusal());
    response->set_coordinator_settings_differ(reporter->tenants_differ());
    if (const std::optional<absl::Duration> silence = reporter->silence()) {
      response->set_coordinator_silence_seconds(absl::ToDoubleSeconds(*silence));
    }
  }
  for (const TierUsage& usage : agent_->Usage()) {
    v1::TierReport* report = response->add_tiers();
    report->set_tier(convert::ToWire(usage.tier));
    report->set_capacity_bytes(usage.capacity_bytes);
    report->set_used_bytes(usage.used_bytes);
    report->set_blocks(usage.blocks);
    if (usage.tier == Tier::kDisk) {
      FillStats(agent_->disks().set()->stats(), report);
      FillEviction(agent_->disks().Eviction(), report->mutable_eviction());
      report->set_misses(report->misses() + stats.disk_misses);
      // Adds these to what the disks themselves declined.
      report->set_declined(report->declined() + stats.offload.declined_behind +
                           stats.offload.evicted);
    } else {
      FillStats(usage.tier == Tier::kGpu ? stats.gpu : stats.host, report);
      FillEviction(agent_->index().SummaryOf(usage.tier), report->mutable_eviction());
      report->set_pinned_bytes(usage.tier == Tier::kGpu ? agent_->gpus().pinned_bytes()
                                                        : agent_->index().pinned_bytes());
      report->set_late_bytes(agent_->sessions().reservations().late_bytes(usage.tier));
      report->set_unwritten_blocks(agent_->sessions().reservations().unwritten_blocks(usage.tier));
    }
  }
  for (size_t i = 0; i < agent_->gpus().size(); ++i) {
    FillGpu(*agent_, &agent_->gpus().at(i), agent_->executor()->Now(), response->add_gpus());
  }
  FillPeers(stats.peers, agent_->flows().fetcher.standings(), response->mutable_peers());
  FillDisks(response);
  if (agent_->disks().set() != nullptr) {
    FillRecovery(agent_->disks().recovery().total, response->mutable_disk_recovery());
    FillOffload(stats.offload, agent_->options().disk_writes, *agent_->disks().promises(),
                response->mutable_offload());
  }
  FillHostScrub(agent_->flows().host_scrub.report(), response->mutable_host_scrub());
  if (agent_->sessions().staging().enabled()) {
    FillStaging(agent_->sessions().staging().report(), stats, response->mutable_staging());
  }
  FillHostMemory(response->mutable_host_memory());
  response->set_altered_blocks(stats.host.verify_failures);
  response->set_disk_io(about_.disk_io);
  response->set_device(about_.device);
  response->set_deadline_misses(stats.deadline_misses);
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::Lookup(Context* context, const v1::LookupRequest* request,
                                            v1::LookupResponse* response) {
  return calls_.Run(context, *request, DoLookup(request, response));
}

absl::StatusOr<BlockKey> AdminService::KeyOf(const v1::LookupRequest& request) const {
  if (!request.block_key().empty()) return BlockKey::FromBytes(request.block_key());
  const Tenant* tenant = agent_->options().tenants.Find(request.tenant());
  if (tenant == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant: '", request.tenant(),
                     "' is not known to this node; kvtier tenants list shows those that are"));
  }
  return NameOf(*tenant, request);
}

const Tenant* AdminService::TenantOf(const v1::LookupRequest& request, const BlockKey& key) const {
  const TenantTable& tenants = agent_->options().tenants;
  if (request.block_key().empty()) return tenants.Find(request.tenant());
  if (const HostBlock* const block = agent_->index().Find(key)) {
    return &tenants.OfDomain(block->slot.domain());
  }
  if (const GpuTier* const gpu = agent_->gpus().With(key)) return &tenants.OfDomain(gpu->domain());
  if (agent_->index().In(Tier::kDisk, key)) {
    const auto domain = tenants.DomainOf(*agent_->disks().set()->OwnerOf(key));
    return domain.has_value() ? &tenants.OfDomain(*domain) : nullptr;
  }
  return tenants.size() == 1 ? tenants.All().front() : nullptr;
}

uint64_t AdminService::LengthIn(Tier tier, const BlockKey& key) const {
  switch (tier) {
    case Tier::kGpu:
      return agent_->gpus().With(key)->blocks().Find(key)->meta.length;
    case Tier::kHost:
      return agent_->index().Find(key)->meta.length;
    case Tier::kDisk:
      break;
  }
  return agent_->disks().set()->Find(key)->length;
}

Task<absl::Status> AdminService::DoLookup(const v1::LookupRequest* request,
                                          v1::LookupResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const BlockKey key, KeyOf(*request));
  response->set_block_key(convert::ToWire(key));
  if (const Tenant* const tenant = TenantOf(*request, key)) {
    response->set_peer_name(convert::ToWire(tenant->peer_namer->NameOf(key)));
  }
  for (const Tier tier : kAllTiers) {
    if (!agent_->index().In(tier, key)) continue;
    v1::LookupResponse::Copy* copy = response->add_copies();
    copy->set_node_id(agent_->options().node.str());
    copy->set_tier(convert::ToWire(tier));
    copy->set_length(LengthIn(tier, key));
  }
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::EvictTier(Context* context,
                                               const v1::EvictTierRequest* request,
                                               v1::EvictTierResponse* response) {
  return calls_.Run(context, *request, DoEvictTier(request, response));
}

Task<absl::Status> AdminService::DoEvictTier(const v1::EvictTierRequest* request,
                                             v1::EvictTierResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(const Tier tier, convert::TierFrom(request->tier(), "tier"));
  if (tier == Tier::kDisk) {
    co_return absl::InvalidArgumentError(
        "tier: must be TIER_GPU or TIER_HOST; blocks leave a disk when its segments are reclaimed");
  }
  uint64_t evicted = 0;
  if (tier == Tier::kGpu) {
    evicted = co_await agent_->gpus().EvictAll();
  } else {
    evicted = co_await agent_->evictor().EvictAll(agent_->executor());
  }
  response->set_evicted_blocks(evicted);
  response->set_held_blocks(agent_->index().blocks_in(tier));
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::ResizeGpuPool(Context* context,
                                                   const v1::ResizeGpuPoolRequest* request,
                                                   v1::ResizeGpuPoolResponse* response) {
  return calls_.Run(context, *request, DoResizeGpuPool(request, response));
}

Task<absl::Status> AdminService::DoResizeGpuPool(const v1::ResizeGpuPoolRequest* request,
                                                 v1::ResizeGpuPoolResponse* response) {
  KVT_CO_ASSIGN_OR_RETURN(GpuTier* const gpu, agent_->gpus().Named(request->device()));
  KVT_CO_RETURN_IF_ERROR(gpu->resizer().Begin(request->bytes()));
  co_await gpu->resizer().AwaitEnd(agent_->executor()->Now() + kGpuResizeWait);
  FillSize(gpu->resizer(), gpu->pool(), response->mutable_size());
  co_return absl::OkStatus();
}

AdminService::Reactor* AdminService::EraseTenant(Context* context,
                                                 const v1::EraseTenantRequest* request,
                                                 v1::EraseTenantResponse* response) {
  return calls_.Run(context, *request, DoEraseTenant(request, response));
}

Task<absl::Status> AdminService::DoEraseTenant(const v1::EraseTenantRequest* request,
                                               v1::EraseTenantResponse* response) {
  const absl::StatusOr<TenantEraser::Erased> erased =
      co_await agent_->flows().tenant_eraser.EraseBy(
          request->tenant(), agent_->executor()->Now() + kMaxRequestTimeout);
  if (!erased.ok() && !absl::IsNotFound(erased.status())) co_return erased.status();
  for (const AboutDisk& disk : about_.disks) {
    if (disk.error.ok()) continue;
    co_return absl::UnavailableError(
        absl::StrCat("disk ", disk.directory, " is not open and may still have the key of tenant '",
                     request->tenant(), "'; call again when it is back"));
  }
  KVT_CO_RETURN_IF_ERROR(erased.status());
  response->set_disk_blocks(erased->disk_blocks);
  response->set_memory_blocks(erased->memory_blocks);
  response->set_held_blocks(erased->held_blocks);
  co_return absl::OkStatus();
}

}  // namespace kvtier

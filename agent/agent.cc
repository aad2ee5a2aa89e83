#include "agent/agent.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/event.h"
#include "core/log.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(Options options, const Seams& seams) {
  HostTier::Options host_options{.slab_bytes = options.slab_bytes};
  if (options.staging_bytes > 0) host_options.writers = SealedMemory::Writers::kMakerOnly;
  const std::vector<Tenant>& tenants = options.tenants.tenants();
  for (const Tenant& tenant : tenants) {
    host_options.domains.push_back(
        {.name = "kvtier-" + tenant.name, .bytes = options.host_bytes / tenants.size()});
  }
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<HostTier> host, HostTier::Create(host_options));
  KVT_ASSIGN_OR_RETURN(Gpu gpu, CreateGpu(options, seams, *host));
  return absl::WrapUnique(new Agent(std::move(options), seams, std::move(host), std::move(gpu)));
}

absl::StatusOr<Agent::Gpu> Agent::CreateGpu(const Options& options, const Seams& seams,
                                            const HostTier& host) {
  Gpu gpu;
  if (!options.gpu_tenant.empty()) {
    const Tenant* const tenant = options.tenants.Find(options.gpu_tenant);
    if (tenant == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--gpu_tenant=", options.gpu_tenant, ": no such tenant"));
    }
    gpu.domain = tenant->domain;
  }
  if (seams.device == nullptr || options.gpu_bytes == 0) return gpu;
  // What leaves the pool, or comes into it, is of its own domain.
  const std::span<std::byte> arena = host.arena(gpu.domain).bytes();
  KVT_RETURN_IF_ERROR(seams.device->Pin(arena));
  gpu.runner = std::make_unique<LaneRunner>(seams.device, seams.executor,
                                            seams.lanes == nullptr ? seams.executor : seams.lanes);
  const uint64_t slot_bytes = SlotBytes(options.gpu_block_bytes);
  KVT_ASSIGN_OR_RETURN(gpu.pool, GpuPool::Create(seams.device, gpu.runner.get(), options.gpu_bytes,
                                                 slot_bytes, options.gpu_max_bytes));
  gpu.pool->HostIn({.base = arena.data(), .chunk_bytes = kPinChunkBytes});
  return gpu;
}

Agent::Agent(Options options, const Seams& seams, std::unique_ptr<HostTier> host, Gpu gpu)
    : options_(std::move(options)),
      seams_(seams),
      gpu_domain_(gpu.domain),
      host_(std::move(host)),
      lane_runner_(std::move(gpu.runner)),
      gpu_(std::move(gpu.pool)),
      residency_({.executor = seams.executor, .scope = &scope_, .tenants = &options_.tenants}),
      index_(host_->domain_count(),
             [this](const Delta& delta) {
               if (reporter_ != nullptr) reporter_->OnDelta(delta);
               if (offloader_ != nullptr) offloader_->OnDelta(delta);
             }),
      staging_({.session_bytes = options_.staging_bytes,
                .max_domain_bytes = options_.host_bytes / options_.tenants.tenants().size()}),
      reservations_(options_.host_bytes / options_.tenants.tenants().size() / kLatePart),
      evictor_(&index_, host_.get(), &stats_.host, &stats_.gpu),
      host_loads_(seams.executor, &index_, Tier::kHost),
      gpu_loads_(seams.executor, &index_, Tier::kGpu),
      fetcher_({.executor = seams.executor,
                .workers = seams.workers,
                .coordinator = seams.coordinator,
                .coordinator_heard = [this] { return reporter_->heard(); },
                .transport = seams.transport,
                .locate_grace = options_.locate_grace},
               options_.node, &scope_, &index_, &evictor_, &host_loads_, &stats_),
      matcher_(seams.executor, &index_, &fetcher_),
      host_prover_({.workers = seams.workers,
                    .scope = &scope_,
                    .index = &index_,
                    .evictor = &evictor_,
                    .stats = &stats_.host}),
      host_scrub_(
          {.executor = seams.executor, .waits = &waits_, .index = &index_, .prover = &host_prover_},
          options_.host_scrub_bytes_per_second),
      waits_(seams.executor),
      scope_(seams.executor) {
  index_.AttachResidency(&residency_, gpu_domain_);
  if (seams.coordinator != nullptr) {
    reporter_ = std::make_unique<CoordinatorReporter>(
        seams.executor, seams.coordinator,
        DirectorySync(options_.node, options_.epoch, options_.address,
                      [this] { return index_.Snapshot(); }),
        [this] { return Usage(); });
  }
  if (!seams.disks.empty()) {
    MakeDisks();
    disk_loader_ = std::make_unique<DiskLoader>(&scope_, &index_, &evictor_, disks_.get(),
                                                &host_loads_, &stats_);
    disk_admission_ = std::make_unique<DiskAdmission>(options_.disk_writes, disks_.get());
    promises_ = std::make_unique<DiskPromises>(seams_.executor, &waits_, *host_, &stats_.offload);
    offloader_ = std::make_unique<Offloader>(Offloader::Parts{.executor = seams.executor,
                                                              .workers = seams.workers,
                                                              .scope = &scope_,
                                                              .waits = &waits_,
                                                              .tenants = &options_.tenants,
                                                              .index = &index_,
                                                              .host = host_.get(),
                                                              .disks = disks_.get(),
                                                              .admission = disk_admission_.get(),
                                                              .promises = promises_.get(),
                                                              .prover = &host_prover_,
                                                              .stats = &stats_.offload});
  }
  if (gpu_ != nullptr) {
    gpu_workers_ = std::make_unique<GpuWorkers>(seams.device, gpu_.get(), seams.executor, &scope_);
    reservations_.AttachGpu(gpu_workers_.get());
    evictor_.AttachGpu(gpu_.get(), gpu_workers_.get());
    slot_grants_ =
        std::make_unique<SlotGrants>(&evictor_, gpu_.get(), gpu_workers_.get(), gpu_domain_);
    gpu_resizer_ = std::make_unique<GpuResizer>(GpuResizer::Parts{.executor = seams.executor,
                                                                  .scope = &scope_,
                                                                  .waits = &waits_,
                                                                  .evictor = &evictor_,
                                                                  .pool = gpu_.get(),
                                                                  .workers = gpu_workers_.get()});
    gpu_copies_ = std::make_unique<GpuCopies>(seams.executor, seams.workers, gpu_.get(), &stats_);
    gpu_offloader_ = std::make_unique<GpuOffloader>(GpuOffloader::Parts{.scope = &scope_,
                                                                        .index = &index_,
                                                                        .evictor = &evictor_,
                                                                        .pool = gpu_.get(),
                                                                        .domain = gpu_domain_,
                                                                        .device = seams.device,
                                                                        .copies = gpu_copies_.get(),
                                                                        .stats = &stats_});
    gpu_loader_ = std::make_unique<GpuLoader>(seams.executor,
                                              GpuLoader::Parts{.scope = &scope_,
                                                               .index = &index_,
                                                               .evictor = &evictor_,
                                                               .pool = gpu_.get(),
                                                               .domain = gpu_domain_,
                                                               .copies = gpu_copies_.get(),
                                                               .offloader = gpu_offloader_.get(),
                                                               .loads = &gpu_loads_,
                                                               .stats = &stats_});
  }
  onboarder_ = std::make_unique<Onboarder>(seams.executor, &waits_,
                                           Onboarder::Flows{.disk = disk_loader_.get(),
                                                            .offloader = offloader_.get(),
                                                            .gpu = gpu_loader_.get(),
                                                            .gpu_workers = gpu_workers_.get(),
                                                            .gpu_pool = gpu_.get(),
                                                            .fetcher = &fetcher_,
                                                            .host_loads = &host_loads_,
                                                            .evictor = &evictor_,
                                                            .scope = &scope_},
                                           &index_, &sessions_, &leases_, &stats_);
  tickets_ = std::make_unique<Tickets>(Tickets::Parts{
      .executor = seams.executor, .onboarder = onboarder_.get(), .host = host_.get()});
  putter_ = std::make_unique<Putter>(Putter::Parts{.executor = seams.executor,
                                                   .workers = seams.workers,
                                                   .scope = &scope_,
                                                   .waits = &waits_,
                                                   .index = &index_,
                                                   .evictor = &evictor_,
                                                   .gpu = gpu_.get(),
                                                   .gpu_domain = gpu_domain_,
                                                   .gpu_copies = gpu_copies_.get(),
                                                   .gpu_offloader = gpu_offloader_.get(),
                                                   .gpu_workers = gpu_workers_.get(),
                                                   .offloader = offloader_.get(),
                                                   .promises = promises_.get(),
                                                   .sessions = &sessions_,
                                                   .staging = &staging_,
                                                   .reservations = &reservations_,
                                                   .stats = &stats_});
  peer_server_ = std::make_unique<PeerServer>(PeerServer::Parts{.executor = seams.executor,
                                                                .scope = &scope_,
                                                                .waits = &waits_,
                                                                .index = &index_,
                                                                .disks = disks_.get(),
                                                                .prover = &host_prover_,
                                                                .stats = &stats_},
                                              kMaxPeerReadBytes);
  block_deleter_ = std::make_unique<BlockDeleter>(
      BlockDeleter::Parts{.index = &index_, .evictor = &evictor_, .disks = disks_.get()});
  const std::optional<DomainId> owner_of_pool =
      gpu_ == nullptr ? std::nullopt : std::optional(gpu_domain_);
  tenant_eraser_ = std::make_unique<TenantEraser>(TenantEraser::Parts{.executor = seams.executor,
                                                                      .scope = &scope_,
                                                                      .waits = &waits_,
                                                                      .tenants = &options_.tenants,
                                                                      .index = &index_,
                                                                      .evictor = &evictor_,
                                                                      .gpu_domain = owner_of_pool,
                                                                      .offloader = offloader_.get(),
                                                                      .disks = disks_.get()});
}

Agent::~Agent() = default;

void Agent::MakeDisks() {
  std::vector<DiskSet::Member> members;
  for (const DiskSeam& seam : seams_.disks) {
    NodeDisk& made = node_disks_.emplace_back();
    made.watched = std::make_unique<WatchedDisk>(seams_.executor, &scope_, seam.disk);
    made.tier = std::make_unique<DiskTier>(
        seams_.executor, seams_.workers, made.watched.get(), seam.manifest,
        [this, member = members.size()](DiskTier::Change change, const BlockKey& key,
                                        TenantTag owner) {
          disks_->TierChanged(member, change, key, owner);
        },
        seam.keys);
    members.push_back({.id = seam.id, .tier = made.tier.get(), .disk = made.watched.get()});
  }
  disks_ = std::make_unique<DiskSet>(
      seams_.executor, &scope_, members,
      [this](DiskSet::Change change, const BlockKey& key, TenantTag owner) {
        index_.DiskChanged(
            change == DiskSet::Change::kAdded ? Delta::Kind::kAdd : Delta::Kind::kRemove, key,
            owner);
      });
  index_.AttachDisk(disks_.get());
}

Task<absl::StatusOr<DiskSet::Recovery>> Agent::Start() {
  if (disks_ != nullptr) {
    const absl::Time deadline = seams_.disks.size() == 1
                                    ? absl::InfiniteFuture()
                                    : seams_.executor->Now() + kDiskOpenTimeout;
    KVT_CO_ASSIGN_OR_RETURN(recovery_, co_await disks_->Open(deadline));
    RegisterArenas();
    PublishRecovered();
    disks_->StartScrub(options_.scrub_bytes_per_second);
  }
  scope_.Spawn(SweepDeadlines());
  scope_.Spawn(host_scrub_.Run());
  if (reporter_ != nullptr) scope_.Spawn(reporter_->Run());
  co_return recovery_;
}

void Agent::PublishRecovered() {
  const std::vector<BlockKey> keys = disks_->Keys();
  std::vector<TenantTag> owners;
  owners.reserve(keys.size());
  std::vector<uint64_t> blocks(host_->domain_count());
  for (const BlockKey& key : keys) {
    owners.push_back(*disks_->OwnerOf(key));
    const std::optional<DomainId> domain = residency_.DomainOf(owners.back());
    if (domain.has_value()) ++blocks[static_cast<size_t>(*domain)];
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    residency_.Expect(static_cast<DomainId>(i), blocks[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    index_.DiskChanged(Delta::Kind::kAdd, keys[i], owners[i]);
  }
}

void Agent::RegisterArenas() {
  std::vector<std::span<std::byte>> arenas;
  arenas.reserve(host_->domain_count());
  for (size_t domain = 0; domain < host_->domain_count(); ++domain) {
    arenas.push_back(host_->arena(static_cast<DomainId>(domain)).bytes());
  }
  absl::Status registered;
  for (size_t i = 0; i < seams_.disks.size(); ++i) {
    // One that does not answer might not answer to this either.
    if (recovery_.disks[i].ok()) registered.Update(seams_.disks[i].disk->RegisterBuffers(arenas));
  }
  if (registered.ok()) return;
  Log(LogLevel::kWarning,
      absl::StrCat("disk I/O costs more CPU than it could: ", registered.message(),
                   " (RLIMIT_MEMLOCK must cover the host tier once for each disk, or ",
                   "CAP_IPC_LOCK be given)"));
}

void Agent::EndWaits() {
  // Ahead of the commits that wait for them: their answers say what has become of the slots.
  if (gpu_workers_ != nullptr) gpu_workers_->words()->EndWaits();
  waits_.End();
  if (gpu_resizer_ != nullptr) gpu_resizer_->Stop();
}

Task<bool> Agent::Stop(absl::Time deadline) {
  EndWaits();
  if (reporter_ != nullptr) reporter_->Stop();
  if (disks_ != nullptr) disks_->StopScrub();
  residency_.Stop();
  if (gpu_offloader_ != nullptr) gpu_offloader_->Stop();
  const bool idle = co_await scope_.Idle(deadline);
  if (!idle || disks_ == nullptr) co_return idle;
  co_return co_await disks_->Idle(deadline);
}

Task<void> Agent::SweepDeadlines() {
  while (!stopping()) {
    const absl::Time now = seams_.executor->Now();
    if (gpu_workers_ != nullptr) gpu_workers_->Sweep();
    reservations_.Sweep();
    host_prover_.Sweep();
    tickets_->Sweep();
    stats_.expired_leases += leases_.Expire(now);
    stats_.expired_reservations += reservations_.Expire(now);
    // A disk may have gone out of service since, with calls that no longer count.
    if (disk_loader_ != nullptr) disk_loader_->Pump();
    if (offloader_ != nullptr) offloader_->Pump();
    // Leases have ended, or slots were granted.
    if (gpu_offloader_ != nullptr) gpu_offloader_->Pump();
    block_count_.store(index_.copies(), std::memory_order_relaxed);
    co_await SleepUntil(seams_.executor, now + kSweepInterval);
  }
}

absl::StatusOr<SessionId> Agent::OpenSession(const Tenant& tenant, const SessionToken& token) {
  if (sessions_.size() + leaving_.size() >= kMaxSessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sessions: all ", kMaxSessions, " are in use, ", leaving_.size(),
                     " by workers that hung up and may still write"));
  }
  return sessions_.Open(tenant, token);
}

absl::StatusOr<const SignalPage*> Agent::AttachToGpu(SessionId id) {
  if (!sessions_.IsOpen(id)) return absl::NotFoundError("the session is closed");
  if (gpu_of(sessions_.DomainOf(id)) == nullptr) {
    return absl::NotFoundError("this node has no GPU pool for this tenant");
  }
  return gpu_workers_->Attach(id);
}

bool Agent::CloseSession(SessionId id) {
  // First, so that its holds last as long as its work.
  if (gpu_workers_ != nullptr) gpu_workers_->Close(id);
  leases_.ReleaseAll(id);
  const size_t granted = slot_grants_ == nullptr ? 0 : slot_grants_->EndSession(id);
  const bool may_write = reservations_.EndSession(id) + granted > 0;
  if (may_write) leaving_.insert(id);
  staging_.Close(id);
  sessions_.Close(id);
  onboarder_->SessionEnded(id);
  if (promises_ != nullptr) promises_->EndSession(id);
  if (gpu_workers_ != nullptr) gpu_workers_->Sweep();
  return may_write;
}

void Agent::WritesOver(SessionId id) {
  if (leaving_.erase(id) == 0) return;
  reservations_.ReleaseAll(id);
  if (slot_grants_ != nullptr) slot_grants_->ReleaseAll(id);
}

void Agent::ProcessGone(SessionId id) {
  // First, so that none of its steps counts any more.
  if (gpu_workers_ != nullptr) gpu_workers_->ProcessGone(id);
  WritesOver(id);
  reservations_.Sweep();
}

std::vector<TierUsage> Agent::Usage() const {
  std::vector<TierUsage> usage;
  if (gpu_ != nullptr) {
    usage.push_back({.tier = Tier::kGpu,
                     .capacity_bytes = gpu_->capacity_bytes(),
                     .used_bytes = gpu_->used_bytes(),
                     .blocks = index_.blocks_in(Tier::kGpu)});
  }
  usage.push_back({.tier = Tier::kHost,
                   .capacity_bytes = host_->capacity_bytes(),
                   .used_bytes = host_->used_bytes(),
                   .blocks = index_.blocks_in(Tier::kHost)});
  if (disks_ != nullptr) {
    usage.push_back({.tier = Tier::kDisk,
                     .capacity_bytes = disks_->capacity_bytes(),
                     .used_bytes = disks_->used_bytes(),
                     .blocks = index_.blocks_in(Tier::kDisk)});
  }
  return usage;
}

void Agent::Audit() const {
  index_.Audit();
  leases_.Audit();
  staging_.Audit();
  reservations_.Audit();
  tickets_->Audit();
  host_->Audit();
  if (gpu_ != nullptr) gpu_->Audit();
  if (disks_ != nullptr) disks_->Audit();
  if (disks_ != nullptr) residency_.AuditDisks(*disks_);
  if (promises_ != nullptr) promises_->Audit();
  if (offloader_ != nullptr) offloader_->Audit();
}

}  // namespace kvtier

#include "agent/agent.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/event.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Returns an equal part of host memory.
uint64_t DomainBytes(const Agent::Options& options) {
  return options.host_bytes / options.tenants.size();
}

// Returns how much host memory there may ever be, where it moves.
uint64_t MaxHostBytes(const Agent::Options& options) {
  return std::max(options.host_bytes, options.host_max_bytes);
}

// Returns whether slabs come to the domain and leave it.
bool Moves(const Agent::Options& options, const Tenant& tenant) {
  if (options.host_memory == HostMemory::kFixed || options.staging_bytes > 0) return false;
  if (options.gpu_bytes == 0) return true;
  const bool is_first = options.gpu_tenants.empty() && tenant.domain == DomainId{};
  return !is_first &&
         std::ranges::find(options.gpu_tenants, tenant.name) == options.gpu_tenants.end();
}

// Returns the domains of the tenants that have GPU pools.
absl::StatusOr<std::vector<DomainId>> GpuDomains(const Agent::Options& options) {
  if (options.gpu_tenants.empty()) return std::vector<DomainId>{DomainId{}};
  std::vector<DomainId> domains;
  for (const std::string& name : options.gpu_tenants) {
    const Tenant* const tenant = options.tenants.Find(name);
    if (tenant == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--gpu_tenants=", name, ": no tenant has this name; name some of --tenants_dir"));
    }
    if (std::ranges::find(domains, tenant->domain) != domains.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--gpu_tenants=", name, ": the tenant is named twice; name it once"));
    }
    domains.push_back(tenant->domain);
  }
  return domains;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(Options options, const Seams& seams) {
  KVT_ASSIGN_OR_RETURN(Memory memory, TakeMemory(options, seams));
  return std::unique_ptr<Agent>(new Agent(std::move(options), seams, std::move(memory)));
}

absl::StatusOr<Agent::Memory> Agent::TakeMemory(const Options& options, const Seams& seams) {
  Memory memory;
  KVT_RETURN_IF_ERROR(TakeHostMemory(options, seams.progress, &memory));
  if (seams.progress != nullptr) seams.progress->Begin("makes the pools of the GPUs");
  KVT_ASSIGN_OR_RETURN(std::vector<DomainId> gpu_domains, GpuDomains(options));
  KVT_ASSIGN_OR_RETURN(
      memory.gpus,
      NodeGpus::TakeMemory({.devices = seams.devices,
                            .tenants = std::move(gpu_domains),
                            .executor = seams.executor,
                            .lanes = seams.lanes == nullptr ? seams.executor : seams.lanes,
                            .host = memory.host.get(),
                            .binder = seams.binder},
                           {.bytes = options.gpu_bytes,
                            .max_bytes = options.gpu_max_bytes,
                            .block_bytes = options.gpu_block_bytes,
                            .eviction = options.eviction.gpu}));
  return memory;
}

absl::Status Agent::TakeHostMemory(const Options& options, StartProgress* progress,
                                   Memory* memory) {
  HostTier::Options host{
      .slab_bytes = options.slab_bytes, .threads = options.host_fill_threads, .progress = progress};
  if (options.staging_bytes > 0) host.writers = SealedMemory::Writers::kMakerOnly;
  const std::vector<const Tenant*> tenants = options.tenants.All();
  memory->shares = HostShares(options.host_bytes / options.slab_bytes, tenants.size());
  const std::vector<uint64_t> slabs = memory->shares.AtFirst();
  for (size_t i = 0; i < tenants.size(); ++i) {
    const bool moves = Moves(options, *tenants[i]);
    if (!moves) memory->shares.Fix(tenants[i]->domain);
    if (slabs[i] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("host memory: ", options.host_bytes, " bytes are fewer than a slab of ",
                       options.slab_bytes, " bytes for each of ", tenants.size(),
                       " tenants; raise --host_bytes"));
    }
    host.domains.push_back({.name = "kvtier-" + tenants[i]->name,
                            .bytes = slabs[i] * options.slab_bytes,
                            .max_bytes = moves ? MaxHostBytes(options) : 0});
  }
  KVT_ASSIGN_OR_RETURN(memory->host, HostTier::Create(host));
  return absl::OkStatus();
}

Agent::Agent(Options options, const Seams& seams, Memory memory)
    : options_(std::move(options)),
      executor_(seams.executor),
      host_shares_(std::move(memory.shares)),
      host_(std::move(memory.host)),
      residency_({.executor = executor_,
                  .scope = &scope_,
                  .tenants = &options_.tenants,
                  .changes = &changes_}),
      disks_(seams.disks, options_.disk_writes, options_.eviction.disk,
             {.executor = executor_,
              .byte_threads = seams.byte_threads,
              .scope = &scope_,
              .waits = &waits_,
              .tenants = &options_.tenants,
              .host = host_.get(),
              .changes = &changes_,
              .residency = &residency_,
              .stats = &stats_.offload}),
      index_({.domains = host_->domain_count(),
              .host_eviction = options_.eviction.host,
              .attention_bytes = options_.attention_bytes,
              .clock = executor_,
              .changes = &changes_,
              .disks = disks_.set()}),
      evictor_(&index_, host_.get(), &stats_.host),
      gpus_(std::move(memory.gpus), {.executor = executor_,
                                     .byte_threads = seams.byte_threads,
                                     .scope = &scope_,
                                     .waits = &waits_,
                                     .index = &index_,
                                     .changes = &changes_,
                                     .evictor = &evictor_,
                                     .stats = &stats_}),
      gpu_divider_({.executor = executor_, .scope = &scope_, .waits = &waits_, .gpus = &gpus_},
                   options_.gpu_bytes),
      lessons_(executor_, &waits_, seams.lessons),
      reporter_(MakeReporter(seams.coordinator)),
      sessions_(&gpus_, options_.tenants.size(), DomainBytes(options_), options_.staging_bytes),
      turns_(executor_, options_.tenants.size()),
      flows_({.self = options_.node,
              .locate_grace = options_.locate_grace,
              .host_scrub_bytes_per_second = options_.host_scrub_bytes_per_second},
             Rooms(seams)),
      mover_({.executor = executor_,
              .memory = seams.memory == nullptr ? seams.byte_threads : seams.memory,
              .byte_threads = seams.byte_threads,
              .scope = &scope_,
              .waits = &waits_,
              .host = host_.get(),
              .shares = &host_shares_,
              .index = &index_,
              .evictor = &evictor_,
              .disks = &disks_,
              .free_memory = seams.free_memory}),
      tenants_(
          {.host_bytes = options_.host_bytes,
           .host_max_bytes = MaxHostBytes(options_),
           .slab_bytes = options_.slab_bytes,
           .host_memory = options_.staging_bytes > 0 ? HostMemory::kFixed : options_.host_memory,
           .settings_file = options_.tenant_settings},
          {.rooms = Rooms(seams),
           .tenants = &options_.tenants,
           .residency = &residency_,
           .lessons = &lessons_,
           .flows = &flows_,
           .shares = &host_shares_,
           .gpu_divider = &gpu_divider_,
           .mover = &mover_,
           .store = seams.tenants,
           .end_session = [this](SessionId id) { EndSession(id); }}),
      host_resizer_({.executor = executor_,
                     .scope = &scope_,
                     .waits = &waits_,
                     .tenants = &options_.tenants,
                     .host = host_.get(),
                     .shares = &host_shares_,
                     .mover = &mover_,
                     .node_tenants = &tenants_,
                     .max_bytes = MaxHostBytes(options_)}),
      waits_(executor_),
      scope_(executor_) {
  NameOrders();
}

Agent::~Agent() = default;

NodeRooms Agent::Rooms(const Seams& seams) {
  return {.executor = executor_,
          .byte_threads = seams.byte_threads,
          .scope = &scope_,
          .waits = &waits_,
          .stats = &stats_,
          .tenants = &options_.tenants,
          .host = host_.get(),
          .shares = &host_shares_,
          .changes = &changes_,
          .index = &index_,
          .evictor = &evictor_,
          .disks = &disks_,
          .gpus = &gpus_,
          .sessions = &sessions_,
          .turns = &turns_,
          .reporter = reporter_.get(),
          .transport = seams.transport};
}

void Agent::NameOrders() {
  for (const Tenant* const tenant : options_.tenants.All()) {
    lessons_.Add(absl::StrCat("host/", tenant->name), index_.HazardsOf(tenant->domain));
  }
  for (size_t i = 0; i < gpus_.size(); ++i) {
    const GpuTier& gpu = gpus_.at(i);
    lessons_.Add(absl::StrCat("gpu/", gpu.device().uuid().ToString(), "/",
                              options_.tenants.OfDomain(gpu.domain()).name),
                 gpus_.at(i).blocks().hazards());
  }
  disks_.ForEachOrder([this](const DiskId& id, ReuseHazards* hazards) {
    lessons_.Add(absl::StrCat("disk/", id.ToHex()), hazards);
  });
}

std::unique_ptr<CoordinatorReporter> Agent::MakeReporter(CoordinatorLink* coordinator) {
  if (coordinator == nullptr) return nullptr;
  CoordinatorReporter::Tenants tenants{
      .stamp = [this] { return tenants_.cluster_stamp(); },
      .take = [this](ClusterTenants told) { tenants_.TakeCluster(std::move(told)); }};
  return std::make_unique<CoordinatorReporter>(
      CoordinatorReporter::Parts{.executor = executor_,
                                 .link = coordinator,
                                 .changes = &changes_,
                                 .tenants = &options_.tenants,
                                 .index = &index_,
                                 .disks = disks_.set()},
      CoordinatorReporter::Self{
          .node = options_.node, .epoch = options_.epoch, .address = options_.address},
      [this] { return Usage(); }, std::move(tenants));
}

Task<absl::StatusOr<DiskSet::Recovery>> Agent::Start() {
  co_await lessons_.Load();
  KVT_CO_ASSIGN_OR_RETURN(DiskSet::Recovery recovery,
                          co_await disks_.Open(options_.scrub_bytes_per_second));
  co_await tenants_.Load();
  scope_.Spawn(SweepDeadlines());
  scope_.Spawn(flows_.host_scrub.Run());
  scope_.Spawn(lessons_.Run());
  if (options_.host_memory == HostMemory::kMoving) scope_.Spawn(mover_.Run());
  scope_.Spawn(tenants_.Run());
  if (reporter_ != nullptr) scope_.Spawn(reporter_->Run());
  co_return recovery;
}

void Agent::EndWaits() {
  // Ahead of the commits that wait for them: their answers say what has become of the slots.
  gpus_.EndWaits();
  waits_.End();
}

Task<bool> Agent::Stop(absl::Time deadline) {
  EndWaits();
  if (reporter_ != nullptr) reporter_->Stop();
  disks_.StopScrub();
  residency_.Stop();
  gpus_.Stop();
  const bool idle = co_await scope_.Idle(deadline);
  co_return idle&& co_await disks_.Idle(deadline);
}

Task<void> Agent::SweepDeadlines() {
  while (!stopping()) {
    const absl::Time now = executor_->Now();
    gpus_.ObserveSteps();
    bool more = sessions_.Sweep(now, &stats_);
    more = flows_.Sweep(now) || more;
    more = tenants_.Sweep() || more;
    gpus_.Pump();
    block_count_.store(index_.copies(), std::memory_order_relaxed);
    co_await SleepUntil(executor_, more ? executor_->Now() : now + kSweepInterval);
  }
}

bool Agent::CloseSession(SessionId id) {
  const bool may_write = sessions_.Close(id);
  flows_.onboarder.SessionEnded(id);
  if (disks_.promises() != nullptr) disks_.promises()->EndSession(id);
  return may_write;
}

void Agent::EndSession(SessionId id) {
  // The hangup comes first: a worker that copied a leased block before it had the right bytes, and
  // one that copies after it does not trust them.
  if (hang_up_) hang_up_(id);
  CloseSession(id);
}

bool Agent::HostMemoryMoves(DomainId domain) const {
  return Moves(options_, options_.tenants.OfDomain(domain));
}

std::vector<TierUsage> Agent::Usage() const {
  std::vector<TierUsage> usage;
  if (!gpus_.empty()) {
    usage.push_back({.tier = Tier::kGpu,
                     .capacity_bytes = gpus_.capacity_bytes(),
                     .used_bytes = gpus_.used_bytes(),
                     .blocks = index_.blocks_in(Tier::kGpu)});
  }
  usage.push_back({.tier = Tier::kHost,
                   .capacity_bytes = host_->capacity_bytes(),
                   .used_bytes = host_->used_bytes(),
                   .blocks = index_.blocks_in(Tier::kHost)});
  if (const DiskSet* const disks = disks_.set()) {
    usage.push_back({.tier = Tier::kDisk,
                     .capacity_bytes = disks->capacity_bytes(),
                     .used_bytes = disks->used_bytes(),
                     .blocks = index_.blocks_in(Tier::kDisk)});
  }
  return usage;
}

void Agent::Audit() const {
  host_->Audit();
  index_.Audit();
  residency_.Audit();
  residency_.AuditMemory(index_);
  disks_.Audit();
  gpus_.Audit();
  sessions_.Audit();
  flows_.Audit();
}

}  // namespace kvtier

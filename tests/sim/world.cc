#include "tests/sim/world.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/event.h"
#include "tests/sim/burst_proof.h"
#include "tests/sim/guests.h"
#include "tests/sim/recovery_proof.h"
#include "tests/sim/workload.h"

namespace kvtier::sim {
namespace {

// Part of the whole worlds in which a block may have two holders besides the node that asks.
constexpr double kThreeNodes = 0.25;
// Share of the nodes without a disk, where host memory may refuse newcomers.
constexpr double kNoDisk = 0.15;
// Chance that one tenant's share changes, each time that room is asked for.
constexpr double kNewShare = 0.05;
// Chance that the shares of the disks change, each time that room is asked for.
constexpr double kNewShares = 0.02;
// Workers of a whole world, and of one of GPU pools, on all nodes together.
constexpr size_t kWorkers = 16, kPoolWorkers = 6;
constexpr absl::Duration kFaultyTime = absl::Seconds(40), kFaultyPoolTime = absl::Seconds(3);
// Longest time for which a pass of the scrub of host memory keeps its blocks pinned.
constexpr absl::Duration kLongestPass = absl::Seconds(1);
constexpr absl::Duration kDeviceLife = absl::Seconds(40), kPoolDeviceLife = absl::Seconds(8);
// Time that is longer than any request, lease, reservation or prefetch lasts.
constexpr absl::Duration kQuietTime = absl::Seconds(15);
// Longest time until a quarantined disk that is well again serves: the longest pause between two
// probes, the probes, and the announcement of its blocks.
const absl::Duration kReadmitBound = kMaxProbeInterval + absl::Seconds(10);
constexpr absl::Duration kProofTime = absl::Seconds(90);
constexpr absl::Duration kAuditInterval = absl::Milliseconds(500);
constexpr absl::Duration kRoomInterval = absl::Milliseconds(200);
constexpr absl::Duration kGuestInterval = absl::Milliseconds(500);
// At each interval one node gets another size of host memory, between these percents of the first.
constexpr absl::Duration kSizeInterval = absl::Seconds(2);
constexpr uint64_t kSmallestPercent = 50, kLargestPercent = 200;

Task<void> Visit(GuestVisit::Parts parts, GuestVisit::Behaviour behaviour,
                 std::shared_ptr<bool> is_here) {
  GuestVisit visit(parts, behaviour);
  co_await visit.Run();
  *is_here = false;
}

// Returns the name by which the coordinator knows a block that the agent holds; nullopt: none.
std::optional<PeerName> NameOf(Agent& agent, const Delta& held) {
  const TenantTable& tenants = agent.options().tenants;
  const std::optional<DomainId> domain =
      held.tier == Tier::kHost ? agent.index().Find(held.key)->slot.domain()
                               : tenants.DomainOf(*agent.disks().set()->OwnerOf(held.key));
  if (!domain.has_value()) return std::nullopt;
  return tenants.OfDomain(*domain).peer_namer->NameOf(held.key);
}

}  // namespace

World::World(const WorldOptions& options)
    : kind_(options.kind),
      random_(options.seed),
      guests_random_(options.seed + 1),
      sizes_random_(options.seed + 2),
      executor_(&time_),
      trace_(&executor_, options.aloud),
      oracle_(&executor_),
      network_(&time_, random_.Next()),
      coordinator_(&time_, &network_, &trace_, random_.Next()),
      scope_(&executor_) {}

// Workers call nodes, so workers are destroyed first.
World::~World() {
  faults_.reset();
  workers_.clear();
}

SimNode::Options World::DrawNode(size_t number) {
  const bool pool = kind_ == WorldKind::kGpuPools;
  std::vector<uint32_t> disk_segments(!pool && random_.Draw(0.5) ? 2 : 1);
  if (random_.Draw(kNoDisk)) disk_segments.clear();
  for (uint32_t& segments : disk_segments) segments = static_cast<uint32_t>(3 + random_.Below(8));
  SimNode::Options node{.number = number,
                        .host_bytes = (pool ? 1 : kTenants) * (3 + random_.Below(8)) * (64 << 10),
                        .gpu_bytes = pool || random_.Draw(0.6) ? (8 + random_.Below(24)) * 8192 : 0,
                        // In worlds of pools the nodes fetch from each other, so one tenant has all
                        // pools.
                        .gpu_tenant = pool ? 0 : random_.Below(kTenants),
                        .disk_segments = std::move(disk_segments),
                        .eviction = DrawPolicies(&random_),
                        .seed = random_.Next()};
  // Workers of every second node without a device are not trusted with the arena.
  if (node.gpu_bytes == 0 && node.seed / 8 % 2 == 0) node.staging_bytes = 128 << 10;
  if (node.seed / 16 % 4 != 0) node.host_memory = HostMemory::kMoving;
  return node;
}

void World::BootNodes() {
  const SimNode::World world{
      .time = &time_, .network = &network_, .trace = &trace_, .oracle = &oracle_};
  const size_t nodes = kind_ == WorldKind::kWhole && random_.Draw(kThreeNodes) ? 3 : 2;
  for (size_t i = 0; i < nodes; ++i) {
    nodes_.push_back(std::make_unique<SimNode>(world, DrawNode(i)));
    nodes_.back()->Boot();
  }
}

Identity World::DrawIdentity(const SimNode& node) {
  if (kind_ == WorldKind::kGpuPools) {
    // Workers whose target is host memory put the blocks that others bring into the pool, and get
    // blocks that left the pool.
    return {.tenant = node.gpu_tenant(),
            .space = kGpuSpace,
            .target = random_.Draw(0.8) ? Tier::kGpu : Tier::kHost};
  }
  Identity identity{.tenant = random_.Below(kTenants), .space = random_.Below(kSpaces)};
  if (identity.space == kGpuSpace && node.HasGpu() && random_.Draw(0.7)) {
    identity.tenant = node.gpu_tenant();
    identity.target = Tier::kGpu;
  }
  return identity;
}

void World::HireWorkers() {
  const size_t workers = kind_ == WorldKind::kWhole ? kWorkers : kPoolWorkers;
  for (size_t i = 0; i < workers; ++i) {
    SimNode* const node = nodes_[i % nodes_.size()].get();
    const Identity identity = DrawIdentity(*node);
    const SimWorker::World world{.executor = &executor_, .trace = &trace_, .oracle = &oracle_};
    workers_.push_back(std::make_unique<SimWorker>(world, node, identity, random_.Next()));
    workers_.back()->Live();
  }
}

void World::KillWorker(size_t which) {
  SimWorker& worker = *workers_[which % workers_.size()];
  trace_.Add("worker dies", {which % workers_.size()});
  worker.Die(random_.Between(absl::Microseconds(1), absl::Seconds(1)));
  worker.Live();  // Started again by its supervisor.
}

Task<void> World::AskForRoom(absl::Time until) {
  while (time_.Now() < until) {
    co_await SleepUntil(&executor_, time_.Now() + kRoomInterval);
    SimNode& node = *nodes_[random_.Below(nodes_.size())];
    const size_t tenant = random_.Below(kTenants);
    const size_t space = random_.Below(kSpaces);
    if (node.serves()) node.AskForRoom(tenant, space);
    if (node.serves() && random_.Draw(kNewShare)) node.DrawShare(tenant);
    if (node.serves() && random_.Draw(kNewShares)) node.ChangeDiskShares();
  }
}

Task<void> World::ChangeSizes(absl::Time until) {
  while (time_.Now() < until) {
    co_await SleepUntil(&executor_, time_.Now() + kSizeInterval);
    SimNode& node = *nodes_[sizes_random_.Below(nodes_.size())];
    const uint64_t range = kLargestPercent - kSmallestPercent + 1;
    const uint64_t percent = kSmallestPercent + sizes_random_.Below(range);
    if (node.serves()) node.ResizeHost(percent);
  }
}

Task<void> World::LetGuestsCome(absl::Time until) {
  while (time_.Now() < until) {
    co_await SleepUntil(&executor_, time_.Now() + kGuestInterval);
    const size_t number = guests_random_.Below(nodes_.size());
    SimNode* const node = nodes_[number].get();
    const GuestVisit::Behaviour behaviour{.blocks = 1 + guests_random_.Below(6),
                                          .keeps_leases = guests_random_.Draw(0.3)};
    if (!node->serves()) continue;
    // A visit ends with the agent that it visits.
    Guest& guest = guests_[number];
    if (guest.incarnation == node->incarnation() && *guest.is_here) continue;
    guest = {.incarnation = node->incarnation(), .is_here = std::make_shared<bool>(true)};
    node->agent().scope()->Spawn(
        Visit({.node = node, .oracle = &oracle_, .trace = &trace_}, behaviour, guest.is_here));
  }
}

void World::RunUntil(absl::Time until) {
  while (!failed() && time_.Now() < until) {
    const absl::Time stop = std::min(until, time_.Now() + kAuditInterval);
    bool reached = false;
    time_.At(stop, [&reached] { reached = true; });
    while (!reached && !failed()) {
      time_.Step();
      for (const auto& node : nodes_) node->ExpectOrdered();
    }
    // A failed step leaves the mark behind; nothing is stepped after it.
    if (!failed()) Audit();
  }
}

void World::Audit() {
  for (const auto& node : nodes_) node->Audit();
  if (coordinator_.running()) coordinator_.coordinator().Audit();
}

Outcome World::Run() {
  coordinator_.Boot();
  BootNodes();
  RunUntil(time_.Now() + absl::Milliseconds(100));
  HireWorkers();
  Faults::World world{.executor = &executor_,
                      .trace = &trace_,
                      .network = &network_,
                      .coordinator = &coordinator_,
                      .device_life = kind_ == WorldKind::kWhole ? kDeviceLife : kPoolDeviceLife,
                      .kill_worker = [this](size_t which) { KillWorker(which); }};
  world.nodes.reserve(nodes_.size());
  for (const auto& node : nodes_) world.nodes.push_back(node.get());
  faults_ = std::make_unique<Faults>(world, random_.Next());
  faults_->Begin();
  const absl::Time healed =
      time_.Now() + (kind_ == WorldKind::kWhole ? kFaultyTime : kFaultyPoolTime);
  scope_.Spawn(AskForRoom(healed));
  scope_.Spawn(ChangeSizes(healed));
  if (kind_ == WorldKind::kWhole) scope_.Spawn(LetGuestsCome(healed));
  RunUntil(healed);

  if (!failed()) {
    faults_->Heal();
    for (const auto& node : nodes_) node->ResetShares();
    for (const auto& worker : workers_) worker->Die(absl::Milliseconds(100));
    RunUntil(time_.Now() + kQuietTime);
    AwaitDisks();
    ExpectQuiet();
  }
  if (!failed() && kind_ == WorldKind::kWhole) ProveRecovery();
  Coverage coverage;
  for (const auto& node : nodes_) node->AddTo(&coverage);
  coverage.short_blocks = oracle_.short_blocks_checked();
  for (const auto& worker : workers_) {
    coverage.advised_blocks += worker->advised_blocks();
    coverage.kept_blocks += worker->kept_blocks();
    coverage.dropped_blocks += worker->dropped_blocks();
  }
  return {.failure = oracle_.failure().value_or(""),
          .hash = trace_.hash(),
          .events = time_.events_run(),
          .blocks_checked = oracle_.blocks_checked(),
          .simulated = time_.Now() - absl::UnixEpoch() - absl::Seconds(1000),
          .coverage = coverage};
}

void World::ProveRecovery() {
  std::vector<SimNode*> nodes;
  for (const auto& node : nodes_) {
    nodes.push_back(node.get());
    // A lost device comes back with its agent only.
    if (!node->device_lost()) continue;
    node->Crash();
    node->Boot();
  }
  RunUntil(time_.Now() + absl::Milliseconds(100));
  RecoveryProof proof({.executor = &executor_, .trace = &trace_, .oracle = &oracle_}, nodes,
                      &network_);
  BurstProof burst({.executor = &executor_, .trace = &trace_, .oracle = &oracle_}, random_.Next());
  TaskScope proving(&executor_);
  proving.Spawn(Prove(&proof, &burst));
  const absl::Time until = time_.Now() + kProofTime;
  while (!failed() && proving.running() > 0 && time_.Now() < until) {
    RunUntil(time_.Now() + absl::Milliseconds(100));
  }
  oracle_.Expect(proving.running() == 0, "after the faults, the proof does not end");
  if (!failed()) RunUntil(time_.Now() + kQuietTime);
  ExpectQuiet();
}

Task<void> World::Prove(RecoveryProof* recovery, BurstProof* burst) {
  co_await recovery->Run();
  for (const auto& node : nodes_) co_await burst->Run(node.get());
}

void World::AwaitDisks() {
  const absl::Time until = time_.Now() + kReadmitBound;
  const auto all_serve = [this] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->DisksServe(); });
  };
  while (!failed() && !all_serve() && time_.Now() < until) {
    time_.RunUntil(time_.Now() +
                   absl::Seconds(1));  // Minutes, in which nothing is asked: no audits.
  }
  oracle_.Expect(failed() || all_serve(), "after the faults, a disk stays quarantined");
}

void World::ExpectQuiet() {
  // A scrub of host memory pins what it sums, for the moment that this takes.
  const absl::Time until = time_.Now() + kLongestPass;
  const auto is_unpinned = [](const auto& node) { return !node->serves() || node->IsUnpinned(); };
  while (!failed() && !std::ranges::all_of(nodes_, is_unpinned) && time_.Now() < until) {
    time_.Step();
  }
  if (failed()) return;
  Audit();
  for (const auto& node : nodes_) {
    oracle_.Expect(node->serves(), absl::StrCat("node ", node->number(), " does not serve"));
    if (!failed()) node->ExpectQuiet();
  }
  ExpectTrueDirectory();
  ExpectUndamaged();
}

void World::ExpectTrueDirectory() {
  for (const auto& node : nodes_) {
    if (failed()) return;
    std::set<BlockKey> held;
    const std::string name = node->agent().options().node.str();
    for (const Delta& copy : node->agent().index().Snapshot()) {
      const std::optional<PeerName> outside = NameOf(node->agent(), copy);
      if (!outside.has_value()) continue;  // No tenant of the node has it.
      held.insert(copy.key);
      const std::vector<Holder> holders = coordinator_.coordinator().Lookup(*outside);
      const bool known = std::any_of(holders.begin(), holders.end(), [&](const Holder& holder) {
        return holder.node.str() == name && holder.tier == copy.tier;
      });
      oracle_.Expect(known, absl::StrCat("the coordinator does not know that ", name, " has ",
                                         copy.key.ToHex(), " in ", TierName(copy.tier)));
    }
    for (const NodeView& view : coordinator_.coordinator().snapshot().nodes) {
      if (view.id.str() != name) continue;
      oracle_.Expect(view.directory_blocks == held.size(),
                     absl::StrCat("the coordinator knows ", view.directory_blocks, " blocks of ",
                                  name, ", which has ", held.size()));
    }
  }
}

// Expects that no verification failed where nothing was damaged, because that would be a mistake of
// the code.
void World::ExpectUndamaged() {
  for (const auto& node : nodes_) {
    if (failed()) return;
    Agent& agent = node->agent();
    oracle_.Expect(agent.stats().offload.altered == 0,
                   absl::StrCat("node ", node->number(), " found altered host blocks"));
    const DiskSet* const disks = agent.disks().set();
    oracle_.Expect(
        faults_->damages_disks() || disks == nullptr || disks->stats().verify_failures == 0,
        absl::StrCat("node ", node->number(),
                     "'s disk records fail to verify, and "
                     "nobody damaged them"));
    oracle_.Expect(network_.counts.flipped + network_.counts.misnumbered > 0 ||
                       agent.stats().peers.verify_failures == 0,
                   absl::StrCat("node ", node->number(),
                                "'s fetched blocks fail to verify, and "
                                "nobody damaged them"));
  }
}

}  // namespace kvtier::sim

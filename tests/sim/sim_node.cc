#include "tests/sim/sim_node.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tests/sim/workload.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier::sim {
namespace {

constexpr uint64_t kSlabBytes = 64 << 10;
// Granule of the access checker; slots of every size are whole granules.
constexpr uint64_t kGranule = 4096;
constexpr uint64_t kSegmentBytes = 256 << 10;
// Time that a supervisor takes to start an agent that ended by itself.
constexpr absl::Duration kRestartDelay = absl::Milliseconds(200);
// Time for which copies may still run on a device that was lost.
constexpr absl::Duration kAbandonedRun = absl::Milliseconds(100);
// Rate of the verify that each start begins: in a world's minute, no scrub begins by itself.
constexpr uint64_t kVerifyRate = 1 << 20;
// Returns how a node writes to its disks: half of the nodes as the agent does by default, the
// others in some other way. The disks are small, so their budgets last for some seconds of what the
// workers put.
DiskWriteOptions WritesOf(uint64_t seed) {
  switch (seed % 8) {
    case 4:
      return {.policy = WritePolicy::kSecondTouch};
    case 5:
      return {.drive_writes_per_day = 12};
    case 6:
      return {.policy = WritePolicy::kAll, .moment = WriteMoment::kAtEviction};
    case 7:
      return {.moment = WriteMoment::kAtEviction, .drive_writes_per_day = 12};
    default:
      return {};
  }
}

// Flows that run while nothing is asked, beside a scrub for each disk: the sweep, the scrub of host
// memory and the reporter.
constexpr size_t kIdleFlows = 3;
constexpr uint64_t kHostScrubRate = uint64_t{1} << 20;

// Bytes that copies of a lost device may still use: slots without a block, and blocks that are
// pinned for such copies.
struct Abandoned {
  uint64_t host = 0, gpu = 0;
  uint64_t pinned_in_host = 0, pinned_in_gpu = 0;
};

Abandoned WhatIsAbandoned(const Agent& agent) {
  Abandoned abandoned;
  if (agent.gpus().empty()) return abandoned;
  std::set<std::pair<Tier, BlockKey>> pinned;
  for (const CopiedBlock& block : agent.gpus().at(0).copies().abandoned()) {
    if (block.host) abandoned.host += block.bytes.size();
    if (block.gpu) abandoned.gpu += agent.gpus().at(0).pool().slot_bytes();
    if (!block.pin || !pinned.insert({block.pin.tier(), block.pin.key()}).second) continue;
    (block.pin.tier() == Tier::kHost ? abandoned.pinned_in_host : abandoned.pinned_in_gpu) +=
        block.meta.length;
  }
  return abandoned;
}

}  // namespace

SimNode::SimNode(const World& world, const Options& options)
    : world_(world),
      options_(options),
      id_(*NodeId::FromString(absl::StrCat("node-", options.number))),
      address_(absl::StrCat(id_.str(), ":7400")),
      random_(options.seed) {
  for (const uint32_t segments : options.disk_segments) {
    disks_.push_back(std::make_unique<NodeDisk>(segments, options.seed + 1 + 2 * disks_.size()));
  }
}

SimNode::NodeDisk::NodeDisk(uint32_t segments, uint64_t seed)
    : media(segments, kSegmentBytes, seed), manifest_media(seed + 1) {}

SimNode::~SimNode() {
  if (running()) Crash();
}

void SimNode::Boot() {
  KVT_CHECK(!running());
  ++incarnation_;
  executor_ = std::make_unique<testing::SimExecutor>(world_.time);
  byte_threads_ = std::make_unique<testing::SimByteThreads>(executor_.get(), random_.Next());
  if (options_.gpu_bytes > 0) {
    checker_ = std::make_shared<AccessChecker>(kGranule);
    device_ = std::make_unique<testing::FaultyDevice>(
        executor_.get(),
        EmulatedDevice::Options{
            .seed = random_.Next(), .checker = checker_.get(), .process = "the agent"},
        [this] { DeviceLost(); });
  }
  transport_ =
      std::make_unique<testing::SimPeerTransport>(executor_.get(), world_.network, address_);
  link_ = std::make_unique<testing::SimCoordinatorLink>(executor_.get(), world_.network, address_);
  Agent::Options options{
      .node = id_,
      .epoch = {random_.Next()},
      .address = address_,
      .tenants = Tenants(),
      .host_bytes = options_.host_bytes,
      .host_max_bytes = 2 * options_.host_bytes,
      .slab_bytes = kSlabBytes,
      .host_memory = options_.host_memory,
      .staging_bytes = options_.staging_bytes,
      .eviction = options_.eviction,
      .disk_writes = WritesOf(options_.seed),
      .host_scrub_bytes_per_second = kHostScrubRate,
      .gpu_bytes = options_.gpu_bytes,
      .gpu_block_bytes = Space(kGpuSpace).block_bytes,
      .gpu_tenants = {Tenants().OfDomain(static_cast<DomainId>(options_.gpu_tenant)).name}};
  std::vector<DiskSeam> disks;
  for (const auto& disk : disks_) {
    disk->disk = std::make_unique<testing::SimDisk>(executor_.get(), &disk->media);
    disk->manifest = std::make_unique<testing::SimManifest>(executor_.get(), &disk->manifest_media);
    const auto number = static_cast<uint8_t>(disks.size() + 1);
    disks.push_back({.id = {{number}}, .disk = disk->disk.get(), .manifest = disk->manifest.get()});
  }
  std::vector<Device*> devices;
  if (device_ != nullptr) devices.push_back(device_.get());
  absl::StatusOr<std::unique_ptr<Agent>> agent =
      Agent::Create(std::move(options), {.executor = executor_.get(),
                                         .byte_threads = byte_threads_.get(),
                                         .disks = disks,
                                         .devices = devices,
                                         .transport = transport_.get(),
                                         .coordinator = link_.get()});
  KVT_CHECK(agent.ok());
  agent_ = *std::move(agent);
  guarantee_checker_ = std::make_unique<GuaranteeChecker>(agent_.get(), world_.oracle,
                                                          absl::StrCat("node ", number()));
  agent_->scope()->Spawn(Start());
}

Task<void> SimNode::Start() {
  const absl::StatusOr<DiskSet::Recovery> recovery = co_await agent_->Start();
  world_.trace->Add("node started",
                    {number(), recovery.ok() ? recovery->total.recovered_blocks : ~0ULL,
                     recovery.ok() ? recovery->total.dropped_stale : 0,
                     recovery.ok() ? recovery->total.dropped_corrupt : 0});
  if (recovery.ok()) {
    world_.network->Listen(address_, agent_.get());
    serves_ = true;
    if (disks_.empty()) co_return;
    for (const absl::Status& began : agent_->disks().set()->VerifyAll(kVerifyRate)) {
      KVT_CHECK(began.ok() || MissesADisk());
    }
    co_return;
  }
  // The restart cannot run in this task, which is the agent's own.
  world_.time->At(world_.time->Now() + kRestartDelay, [this, started = incarnation_] {
    if (incarnation_ != started || !running()) return;
    Crash();
    Boot();
  });
}

bool SimNode::writes_everything() const {
  const DiskWriteOptions writes = WritesOf(options_.seed);
  return !disks_.empty() && writes.moment == WriteMoment::kAtCommit &&
         writes.policy != WritePolicy::kSecondTouch && writes.drive_writes_per_day == 0;
}

// Loses the device. Copies that it had begun go on, unseen, while the agent serves from the other
// tiers.
void SimNode::DeviceLost() {
  world_.trace->Add("device is lost", {number()});
  const absl::Duration later = random_.Between(absl::ZeroDuration(), kAbandonedRun);
  executor_->PostAt(executor_->Now() + later, [this] { device_->RunAbandoned(); });
}

void SimNode::Crash() {
  KVT_CHECK(running());
  Count(&past_);
  ++past_.crashes;
  world_.trace->Add("node dies", {number()});
  serves_ = false;
  world_.network->Listen(address_, nullptr);
  const auto calls = std::exchange(calls_, {});
  for (const auto& [order, call] : calls) call->Break();
  guarantee_checker_.reset();
  agent_.reset();
  link_.reset();
  transport_.reset();
  device_.reset();
  checker_.reset();
  for (const auto& disk : disks_) {
    disk->manifest.reset();
    disk->disk.reset();
  }
  byte_threads_.reset();
  executor_.reset();
}

void SimNode::Unregister(CallInFlight* call) {
  std::erase_if(calls_, [call](const auto& entry) { return entry.second == call; });
}

void SimNode::NotePut(size_t tenant, Tier target, const Reserved& reserved) {
  if (target != Tier::kHost) return;
  const auto refused =
      std::ranges::count(reserved.blocks, ReservedBlock::State::kNoRoom, &ReservedBlock::state);
  guarantee_checker_->NoteRefused(static_cast<DomainId>(tenant), static_cast<uint64_t>(refused));
}

std::span<std::byte> SimNode::Memory(Tier tier, DomainId domain, uint64_t offset, uint64_t bytes) {
  // One process plays both sides: a worker would map the pool at addresses of its own.
  if (tier == Tier::kGpu) return {agent_->gpus().at(0).pool().region()->address() + offset, bytes};
  return agent_->host().arena(domain).bytes().subspan(offset, bytes);
}

std::span<std::byte> SimNode::WriteMemory(SessionId session, Tier tier, DomainId domain,
                                          uint64_t offset, uint64_t bytes) {
  if (!agent_->sessions().staging().enabled()) return Memory(tier, domain, offset, bytes);
  if (!agent_->sessions().table().IsOpen(session)) return {};
  return (*agent_->sessions().staging().RegionOf(session, domain))->bytes().subspan(offset, bytes);
}

std::shared_ptr<WorkerOrder> SimNode::NewWorkerOrder(const std::string& name) const {
  const auto agent = checker_ == nullptr ? AccessChecker::Timeline{} : device_->host_timeline();
  return std::make_shared<WorkerOrder>(checker_, agent, name);
}

void SimNode::ExpectOrdered() const {
  if (checker_ == nullptr || checker_->races().empty()) return;
  world_.oracle->Expect(false,
                        absl::StrCat("RACE on node ", number(), ": ", checker_->races().front()));
}

TenantRoom SimNode::DiskRoomOf(size_t tenant) const {
  const DiskSet* const disks = agent_->disks().set();
  const TenantTag owner = TenantTagOf(Tenants().OfDomain(static_cast<DomainId>(tenant)).name);
  for (const TenantRoom& room : disks == nullptr ? std::vector<TenantRoom>() : disks->Tenants()) {
    if (room.owner == owner) return room;
  }
  return {};
}

void SimNode::ChangeDiskShares() {
  DiskSet* const disks = agent_->disks().set();
  if (disks == nullptr) return;
  uint64_t left = disks->divided_bytes();
  std::vector<OwnerShare> shares;
  for (const Tenant* const tenant : agent_->options().tenants.All()) {
    OwnerShare& share = shares.emplace_back(OwnerShare{.owner = TenantTagOf(tenant->name)});
    if (random_.Draw(0.5)) continue;
    share.share = TierShare{.guaranteed = random_.Below(left + 1),
                            .weight = static_cast<uint32_t>(1 + random_.Below(kMaxShareWeight))};
    left -= share.share->guaranteed;
  }
  world_.trace->Add("disk shares", {number(), left});
  const absl::Status set = disks->SetShares(shares);
  world_.oracle->Expect(set.ok(), absl::StrCat("node ", number(), ": ", set.ToString()));
}

void SimNode::AskForRoom(size_t tenant, size_t space) {
  const BlockIndex& index = agent_->index();
  const auto domain = static_cast<DomainId>(tenant);
  std::map<BlockKey, uint32_t> slabs;
  for (const Delta& held : index.Snapshot()) {
    if (held.tier != Tier::kHost) continue;
    const HostSlot& slot = index.Find(held.key)->slot;
    if (slot.domain() == domain) slabs[held.key] = slot.slab();
  }
  // Unheld blocks of a slab that is about to leave are dropped meanwhile, and make no room.
  const bool is_moving = agent_->host().slots(domain).closed_slabs() > 0;
  const bool room = agent_->evictor().ReserveHost(domain, Space(space).block_bytes).ok();
  const size_t before = slabs.size();
  std::set<uint32_t> dropped_from;
  size_t dropped = 0;
  for (const auto& [key, slab] : slabs) {
    if (index.In(Tier::kHost, key)) continue;
    ++dropped;
    dropped_from.insert(slab);
  }
  world_.trace->Add("room", {number(), tenant, space, room ? 1ULL : 0ULL, dropped});
  world_.oracle->Expect(
      is_moving || (dropped_from.size() <= 1 && (room || dropped == 0)),
      absl::StrCat("node ", number(), ", tenant ", tenant, ": for one slot of ",
                   SlotBytes(Space(space).block_bytes), " bytes ", dropped, " of ", before,
                   " blocks were evicted, from ", dropped_from.size(),
                   room ? " slabs" : " slabs, and there is no room"));
}

Task<void> SimNode::SetShare(Agent* agent, TenantChange change) {
  (co_await agent->tenants().Set(std::move(change), std::nullopt)).IgnoreError();
}

void SimNode::DrawShare(size_t tenant) {
  TenantChange change{.name = Tenants().OfDomain(static_cast<DomainId>(tenant)).name};
  const bool is_default = random_.Draw(0.3);
  const uint64_t guaranteed = random_.Below(options_.host_bytes / kTenants);
  const auto set = [&](ShareField field, std::optional<uint64_t> value) {
    if (is_default) value.reset();
    change.values.push_back({.tier = Tier::kHost, .field = field, .value = value});
  };
  set(ShareField::kGuaranteed, guaranteed);
  set(ShareField::kMaximum,
      random_.Draw(0.5) ? std::nullopt : std::optional(guaranteed + (128 << 10)));
  set(ShareField::kWeight, 1 + random_.Below(5));
  world_.trace->Add("share", {number(), tenant, guaranteed, is_default ? 1ULL : 0ULL});
  agent_->scope()->Spawn(SetShare(agent_.get(), std::move(change)));
}

void SimNode::ResizeHost(uint64_t percent) {
  const uint64_t bytes = options_.host_bytes * percent / 100;
  const absl::Status begun = agent_->host_resizer().Begin(bytes);
  world_.trace->Add("host memory", {number(), bytes, begun.ok() ? 1ULL : 0ULL});
  if (begun.ok()) ++past_.host_sizes;
}

bool SimNode::memory_rests() const {
  return agent_->mover().running() == 0 && !agent_->host_resizer().is_under_way() &&
         (!memory_moves() || !agent_->host_shares().Next(agent_->host()).has_value());
}

void SimNode::ResetShares() {
  if (serves()) ResizeHost(100);
  for (size_t tenant = 0; running() && tenant < kTenants; ++tenant) {
    TenantChange change{.name = Tenants().OfDomain(static_cast<DomainId>(tenant)).name};
    for (const ShareField field : kAllShareFields) {
      change.values.push_back({.tier = Tier::kHost, .field = field, .value = std::nullopt});
    }
    agent_->scope()->Spawn(SetShare(agent_.get(), std::move(change)));
  }
}

void SimNode::Audit() {
  if (!running()) return;
  ExpectOrdered();
  agent_->Audit();
  guarantee_checker_->Check(executor_->Now());
  const BlockIndex& index = agent_->index();
  world_.oracle->Expect(index.SummaryOf(Tier::kGpu).refused == 0 &&
                            (may_refuse() || index.SummaryOf(Tier::kHost).refused == 0),
                        absl::StrCat("node ", number(), " refuses blocks that it has to take"));
  // A block that the index has on disk is durable: the manifest names it.
  for (const Delta& held : index.Snapshot()) {
    if (held.tier != Tier::kDisk) continue;
    const bool named = std::any_of(disks_.begin(), disks_.end(), [&](const auto& disk) {
      return disk->manifest_media.rows.contains(BlockRowKey(held.key));
    });
    world_.oracle->Expect(named, absl::StrCat("node ", number(), " calls block ", held.key.ToHex(),
                                              " durable, and its manifest does not know it"));
    world_.oracle->Expect(agent_->disks().set()->Find(held.key).has_value(),
                          absl::StrCat("node ", number(), " has block ", held.key.ToHex(),
                                       " in its index, and its disk tier does not"));
  }
}

void SimNode::AddTo(Coverage* coverage) const {
  coverage->Add(past_);
  if (running()) Count(coverage);
}

void SimNode::Count(Coverage* coverage) const {
  const uint64_t gpu_offloads = agent_->gpus().empty() ? 0 : agent_->gpus().at(0).stats().offloaded;
  const DiskSet* const disks = agent_->disks().set();
  coverage->Add(agent_->stats(), gpu_offloads, disks == nullptr ? TierStats() : disks->stats());
  for (const Tier tier : {Tier::kHost, Tier::kGpu}) {
    const EvictionSummary orders = agent_->index().SummaryOf(tier);
    coverage->refused_newcomers += orders.refused;
    if (orders.policy == EvictionPolicy::kLearnt) {
      coverage->learnt_orders += orders.orders - orders.following_lru;
    }
  }
  coverage->moved_slabs += agent_->mover().figures().moved;
  for (size_t tenant = 0; tenant < kTenants; ++tenant) {
    coverage->blocks_for_others +=
        agent_->evictor().ledger().SufferedBy(static_cast<DomainId>(tenant));
  }
  ++coverage->host_policies.at(static_cast<size_t>(options_.eviction.host));
  if (HasGpu()) {
    ++coverage->gpu_policies.at(static_cast<size_t>(options_.eviction.gpu));
    coverage->gpu_abandoned += agent_->gpus().at(0).copies().abandoned().size();
  }
  if (disks == nullptr) {
    ++coverage->agents_without_disks;
    return;
  }
  ++coverage->disk_policies.at(static_cast<size_t>(options_.eviction.disk));
  for (const DiskSet::DiskStatus& disk : disks->Statuses()) {
    coverage->quarantines += disk.quarantines;
  }
}

bool SimNode::DisksServe() const {
  if (disks_.empty()) return true;
  const std::vector<DiskSet::DiskStatus> disks = agent_->disks().set()->Statuses();
  return std::all_of(disks.begin(), disks.end(), [](const auto& disk) { return disk.serving; });
}

size_t SimNode::pending_offloads() const {
  const auto& offloader = agent_->flows().offloader;
  return offloader == nullptr ? 0 : offloader->pending();
}

bool SimNode::MissesADisk() const {
  const auto& opened = agent_->disks().recovery().disks;
  return std::any_of(opened.begin(), opened.end(), [](const auto& disk) { return !disk.ok(); });
}

bool SimNode::IsUnpinned() const {
  return agent_->index().pinned_bytes() == WhatIsAbandoned(*agent_).pinned_in_host;
}

void SimNode::ExpectQuiet() {
  Oracle& oracle = *world_.oracle;
  const auto expect = [&](const char* what, uint64_t is, uint64_t should_be) {
    oracle.Expect(is == should_be, absl::StrCat("LEAK on node ", number(), ": ", what, ": ", is,
                                                ", not ", should_be));
  };
  const BlockIndex& index = agent_->index();
  expect("sessions", agent_->sessions().table().size(), 0);
  expect("leases", agent_->sessions().leases().size(), 0);
  expect("reservations", agent_->sessions().reservations().size(), 0);
  const size_t movers = (memory_moves() ? 1 : 0) + (agent_->host_resizer().is_under_way() ? 1 : 0);
  expect("flows", agent_->scope()->running(),
         kIdleFlows + disks_.size() + movers + agent_->mover().running());
  expect("fetches", transport_->running(), 0);
  const Abandoned abandoned = WhatIsAbandoned(*agent_);
  expect("pinned host bytes", index.pinned_bytes(), abandoned.pinned_in_host);
  expect("pinned GPU bytes", agent_->gpus().pinned_bytes(), abandoned.pinned_in_gpu);
  expect("offloads", pending_offloads(), 0);
  uint64_t host_bytes = abandoned.host;
  for (const Delta& held : index.Snapshot()) {
    if (held.tier == Tier::kHost) host_bytes += index.Find(held.key)->slot.slot_bytes();
  }
  expect("host bytes", agent_->host().used_bytes(), host_bytes);
  if (!agent_->gpus().empty()) {
    expect("GPU bytes", agent_->gpus().at(0).pool().used_bytes(),
           index.blocks_in(Tier::kGpu) * agent_->gpus().at(0).pool().slot_bytes() + abandoned.gpu);
  }
}

}  // namespace kvtier::sim

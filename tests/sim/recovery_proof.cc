#include "tests/sim/recovery_proof.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/event.h"
#include "tests/sim/workload.h"

namespace kvtier::sim {
namespace {

constexpr size_t kBlocks = 6;
// Blocks of a conversation; two such conversations stay in the smallest host tier.
constexpr size_t kSharedBlocks = 2;
constexpr absl::Duration kGetTimeout = absl::Milliseconds(250);
// Longest time from a put to a hit on the other node: a heartbeat and a resync, and the time until
// a peer that was slow is given another chance.
const absl::Duration kPeerHitBound = kPeerEstimateLifetime + absl::Seconds(3);
constexpr absl::Duration kOffloadBound = absl::Seconds(2);
// Longest time until an agent knows that the coordinator is silent, or that it answers again.
const absl::Duration kLostBound = kHeartbeatInterval + kReportTimeout + absl::Milliseconds(100);
constexpr absl::Duration kRestartBound = absl::Seconds(1);
constexpr absl::Duration kProofPoll = absl::Milliseconds(10);
// Time until a tenant has the memory back that it lent, or has given back what was lent to it.
constexpr absl::Duration kMemoryBound = absl::Seconds(2);

}  // namespace

Task<void> RecoveryProof::Run() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    SimNode* const other = nodes_[(i + 1) % nodes_.size()];
    for (size_t tenant = 0; tenant < kTenants; ++tenant) {
      // This pairs every space with some tenant, and every tenant with some space.
      const size_t space = (tenant + i) % kSpaces;
      Identity identity{.tenant = tenant, .space = space};
      co_await ProveSpace(nodes_[i], other, identity);
    }
    if (nodes_[i]->device() == nullptr) continue;
    Identity on_gpu{.tenant = nodes_[i]->gpu_tenant(), .space = kGpuSpace, .target = Tier::kGpu};
    co_await ProveSpace(nodes_[i], other, on_gpu);
  }
  for (size_t i = 0; nodes_.size() > 2 && i < nodes_.size(); ++i) co_await ProveNextHolder(i);
  co_await ProveWithoutCoordinator();
}

Task<void> RecoveryProof::ProveNextHolder(size_t first) {
  using testing::PeerService;
  // A hash decides which of the two the coordinator ranks first, so each is stopped once.
  co_await ProveWithout(PeerService::kFrozen, first, first);
  co_await ProveWithout(PeerService::kRefuses, first + 1, first);
}

Task<void> RecoveryProof::ProveWithout(testing::PeerService service, size_t stopped, size_t first) {
  const std::vector<EngineKey> keys = FreshConversation(fresh_++, kSharedBlocks);
  const std::vector<EngineKey> more = FreshConversation(fresh_++, kSharedBlocks);
  const Identity identity{.tenant = first % kTenants, .space = fresh_ % kSpaces};
  SimWorker putter(world_, nodes_[first], identity, fresh_);
  SimWorker second(world_, nodes_[(first + 1) % nodes_.size()], identity, fresh_);
  SimWorker asker(world_, nodes_[(first + 2) % nodes_.size()], identity, fresh_);
  for (SimWorker* const worker : {&putter, &second, &asker}) {
    const bool connected = co_await worker->Connect();
    world_.oracle->Expect(connected, "after the faults, no session opens");
    MakeRoomOn(worker->node());
  }
  for (const auto& conversation : {keys, more}) {
    co_await putter.Put(conversation, 0);
    co_await ExpectHits("by the second holder", &second, conversation, kPeerHitBound);
  }
  // The coordinator knows the holders by now. Waits until peers that failed before are asked again.
  co_await SleepUntil(world_.executor, world_.executor->Now() + kPeerAvoidance);

  const std::string& address = nodes_[stopped % nodes_.size()]->address();
  world_.trace->Add("peer service stops",
                    {stopped % nodes_.size(), static_cast<uint64_t>(service)});
  network_->SetPeerService(address, service);
  co_await ExpectHits("while one holder does not serve", &asker, keys, absl::ZeroDuration());
  const absl::Time start = world_.executor->Now();
  co_await ExpectHits("from the holder that serves", &asker, more, absl::ZeroDuration());
  world_.oracle->Expect(world_.executor->Now() - start < kMinPeerSilence,
                        absl::StrCat("after the faults, a get waits for ", address,
                                     ", which did not serve a moment ago"));
  network_->SetPeerService(address, testing::PeerService::kServes);
  for (SimWorker* const worker : {&putter, &second, &asker}) co_await worker->Disconnect();
}

Task<void> RecoveryProof::ProveWithoutCoordinator() {
  network_->FreezeCoordinator(true);
  world_.trace->Add("coordinator freezes", {});
  for (SimNode* const node : nodes_) {
    SimWorker worker(world_, node, {}, fresh_);
    const bool connected = co_await worker.Connect();
    world_.oracle->Expect(connected, "after the faults, no session opens");
    const absl::Duration first = co_await TimeOfAMiss(&worker);
    const absl::Duration second = co_await TimeOfAMiss(&worker);
    co_await SleepUntil(world_.executor, world_.executor->Now() + kLostBound);
    world_.oracle->Expect(!node->agent().reporter()->connected(),
                          "after the faults, a frozen coordinator counts as connected");
    const absl::Duration later = co_await TimeOfAMiss(&worker);
    world_.oracle->Expect(
        first <= kLocateTimeout && second + later == absl::ZeroDuration(),
        absl::StrCat("after the faults, misses wait for a frozen coordinator: ",
                     absl::FormatDuration(first), ", then ", absl::FormatDuration(second),
                     ", and when it is lost ", absl::FormatDuration(later)));
    co_await worker.Disconnect();
  }
  network_->FreezeCoordinator(false);
  co_await SleepUntil(world_.executor, world_.executor->Now() + kLostBound);
  for (SimNode* const node : nodes_) {
    world_.oracle->Expect(node->agent().reporter()->connected(),
                          "after the faults, a coordinator that answers again is not found");
  }
}

Task<absl::Duration> RecoveryProof::TimeOfAMiss(SimWorker* worker) {
  const absl::Time start = world_.executor->Now();
  const size_t hits =
      co_await worker->Get(FreshConversation(fresh_++, kBlocks), kGetTimeout, absl::ZeroDuration());
  world_.oracle->Expect(hits == 0, "a block is hit that nobody put");
  co_return world_.executor->Now() - start - 2 * kCallTravel;
}

void RecoveryProof::MakeRoomOn(SimNode* node) {
  if (!node->keeps_newest()) node->EvictHost();
}

Task<void> RecoveryProof::ProveSpace(SimNode* node, SimNode* other, Identity identity) {
  const std::vector<EngineKey> keys = FreshConversation(fresh_++, kBlocks);
  SimWorker worker(world_, node, identity, fresh_);
  const bool connected = co_await worker.Connect();
  world_.oracle->Expect(connected, "after the faults, no session opens");
  if (node->may_refuse()) MakeRoomOn(node);
  co_await AwaitMemory(node);
  co_await AwaitMemory(other);
  const TenantRoom before = node->DiskRoomOf(identity.tenant);
  size_t put = co_await worker.Put(keys, 0);
  if (put < kBlocks && node->memory_moves()) {
    co_await SleepUntil(world_.executor, world_.executor->Now() + kMemoryBound);
    put += co_await worker.Put(keys, put);
  }
  world_.oracle->Expect(put == kBlocks, absl::StrCat("after the faults, of ", kBlocks,
                                                     " fresh blocks ", put, " were committed"));
  co_await ExpectHits("from the tier they were put in", &worker, keys, absl::ZeroDuration());
  co_await AwaitOffload(node);
  // A tenant beyond its fair share of the disks may lose there what it has just put.
  const TenantRoom room = node->DiskRoomOf(identity.tenant);
  const bool may_lose = room.used_bytes > room.fair_bytes && room.evictions > before.evictions;
  if (node->writes_everything() && !may_lose) {
    co_await node->agent().gpus().EvictAll();
    node->EvictHost();
    co_await ExpectHits("from disk", &worker, keys, absl::ZeroDuration());
  }

  Identity elsewhere = identity;
  if (!other->HasGpuFor(identity.tenant)) elsewhere.target = Tier::kHost;
  SimWorker neighbour(world_, other, elsewhere, fresh_);
  const bool met = co_await neighbour.Connect();
  world_.oracle->Expect(met, "after the faults, no session opens on the other node");
  co_await ExpectHits("from the other node", &neighbour, keys, kPeerHitBound);
  co_await neighbour.Disconnect();

  node->Crash();
  node->Boot();
  co_await AwaitService(node);
  const bool again = co_await worker.Connect();
  world_.oracle->Expect(again, "after kill -9, no session opens");
  if (node->writes_everything() && !may_lose) {
    co_await ExpectHits("from disk after kill -9", &worker, keys, absl::ZeroDuration());
  }
  co_await worker.Disconnect();
}

Task<void> RecoveryProof::ExpectHits(const char* where, SimWorker* worker,
                                     std::vector<EngineKey> keys, absl::Duration allowed) {
  const absl::Duration for_memory =
      worker->node()->memory_moves() ? kMemoryBound : absl::ZeroDuration();
  const absl::Time until = world_.executor->Now() + std::max(allowed, for_memory);
  size_t hits = 0;
  while (true) {
    hits = co_await worker->Get(keys, kGetTimeout, absl::Milliseconds(1));
    if (hits == keys.size() || world_.executor->Now() >= until) break;
    co_await SleepUntil(world_.executor, world_.executor->Now() + kProofPoll);
  }
  world_.trace->Add("proof", {worker->node()->number(), worker->identity().tenant,
                              worker->identity().space, hits});
  world_.oracle->Expect(
      hits == keys.size(),
      absl::StrCat("after the faults, of ", keys.size(), " blocks ", hits, " are hit ", where,
                   ", node ", worker->node()->number(), ", tenant ", worker->identity().tenant,
                   ", space ", worker->identity().space));
}

Task<void> RecoveryProof::AwaitMemory(SimNode* node) {
  const absl::Time until = world_.executor->Now() + kMemoryBound;
  while (node->serves() && !node->memory_rests() && world_.executor->Now() < until) {
    co_await SleepUntil(world_.executor, world_.executor->Now() + kProofPoll);
  }
}

Task<void> RecoveryProof::AwaitOffload(SimNode* node) {
  const absl::Time until = world_.executor->Now() + kOffloadBound;
  while (node->pending_offloads() > 0 && world_.executor->Now() < until) {
    co_await SleepUntil(world_.executor, world_.executor->Now() + kProofPoll);
  }
  world_.oracle->Expect(node->pending_offloads() == 0, "after the faults, offload does not end");
}

Task<void> RecoveryProof::AwaitService(SimNode* node) {
  const absl::Time until = world_.executor->Now() + kRestartBound;
  while (!node->serves() && world_.executor->Now() < until) {
    co_await SleepUntil(world_.executor, world_.executor->Now() + kProofPoll);
  }
  world_.oracle->Expect(node->serves(), "after the faults, a restarted agent does not serve");
}

}  // namespace kvtier::sim

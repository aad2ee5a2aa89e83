// Tests a hostile tenant that opens all sessions that it gets and keeps the largest batches of
// every kind waiting. Another tenant's call still begins within a few turns, however many calls
// wait; that tenant gets its sessions, and keeps all its guaranteed bytes. Turns are counted, in
// virtual time; `scripts/bench tenants --only starvation` measures the same on real programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/worker_calls.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {
namespace {

constexpr size_t kHostileTenant = 0;
constexpr size_t kQuietTenant = 1;
constexpr uint64_t kShare = 384;  // Blocks that each tenant is guaranteed.
constexpr uint64_t kQuiets = 1;   // First key of the quiet tenant's blocks.
constexpr uint64_t kHostiles = 1'000'000;
constexpr size_t kKeys = 8192;
constexpr size_t kKinds = 6;
// Maximum number of the agent's turns until a call of one key is answered: its arrival, a turn of
// the other tenant, its own turn, and work of disks and of moving memory. Seen: 4, seldom 5.
constexpr uint64_t kMostTurns = 8;

// Hostile keeps calls in progress, equally many of each kind, and makes a call when one is
// answered.
class Hostile {
 public:
  Hostile(AgentRig* rig, WorkerCalls* calls, std::vector<WorkerCalls::Worker> workers)
      : rig_(rig), calls_(calls), workers_(std::move(workers)) {}
  ~Hostile() { Finish(0); }

  // Makes calls until `count` are in progress; returns how many it made.
  size_t KeepUnderWay(size_t count) {
    TakeAnswers();
    const size_t before = under_way_.size();
    while (under_way_.size() < count) BeginNext();
    return under_way_.size() - before;
  }
  // Steps until at most `count` calls are in progress.
  void Finish(size_t count) {
    TakeAnswers();
    while (under_way_.size() > count) {
      KVT_CHECK(rig_->time.Step());
      TakeAnswers();
    }
  }
  void TakeAnswers() {
    std::erase_if(under_way_, [](const UnderWay& call) { return call(); });
  }
  size_t under_way() const { return under_way_.size(); }

 private:
  using UnderWay = std::function<bool()>;  // Returns whether the call is over.

  template <typename Request, typename Response>
  void Begin(grpc::ServerUnaryReactor* (WorkerService::*method)(grpc::CallbackServerContext*,
                                                                const Request*, Response*),
             Request request) {
    const std::shared_ptr<UnaryCall<Request, Response>> call =
        calls_->Begin(method, std::move(request));
    under_way_.push_back([call] { return call->is_answered(); });
  }
  void BeginNext() {
    const WorkerCalls::Worker& worker = workers_[begun_ % workers_.size()];
    // Calls ask again for blocks that were put lately.
    const uint64_t first = kHostiles + (begun_ / kKinds) * kKeys / 2;
    switch (begun_++ % kKinds) {
      case 0:
        return Put(worker, first);
      case 1:
        return Begin(&WorkerService::Match,
                     WorkerCalls::About<v1::MatchRequest>(worker, first, kKeys));
      case 2: {
        auto request = WorkerCalls::About<v1::OnboardRequest>(worker, first, kKeys);
        request.set_target(v1::TIER_HOST);
        request.set_timeout_ms(60'000);
        return Begin(&WorkerService::Onboard, std::move(request));
      }
      case 3:
        return Begin(&WorkerService::Prefetch,
                     WorkerCalls::About<v1::PrefetchRequest>(worker, first, kKeys));
      case 4: {
        auto request = WorkerCalls::About<v1::KeepRequest>(worker, first, kKeys);
        request.set_ttl_ms(3'600'000);
        return Begin(&WorkerService::Keep, std::move(request));
      }
      default:
        return Begin(&WorkerService::Advise,
                     WorkerCalls::About<v1::AdviseRequest>(worker, first, kKeys));
    }
  }
  // Reserves slots, and commits those that it got as soon as the call is answered.
  void Put(const WorkerCalls::Worker& worker, uint64_t first) {
    auto request = WorkerCalls::About<v1::ReserveRequest>(worker, first, kKeys);
    request.set_target(v1::TIER_HOST);
    const std::shared_ptr<UnaryCall<v1::ReserveRequest, v1::ReserveResponse>> reserve =
        calls_->Begin(&WorkerService::Reserve, std::move(request));
    under_way_.push_back([this, reserve, token = worker.token] {
      if (!reserve->is_answered()) return false;
      v1::CommitRequest commit;
      commit.set_session_token(token);
      for (const v1::ReservedBlock& block : reserve->response().blocks()) {
        if (block.reservation_id() != 0) commit.add_reservation_ids(block.reservation_id());
      }
      to_commit_.push_back(std::move(commit));
      return true;
    });
    while (!to_commit_.empty()) {
      Begin(&WorkerService::Commit, std::move(to_commit_.back()));
      to_commit_.pop_back();
    }
  }

  AgentRig* const rig_;
  WorkerCalls* const calls_;
  const std::vector<WorkerCalls::Worker> workers_;
  std::list<UnderWay> under_way_;
  std::vector<v1::CommitRequest> to_commit_;
  size_t begun_ = 0;
};

class StarvationTest : public ::testing::Test {
 protected:
  StarvationTest() {
    KVT_CHECK(rig_.PutOnDisk(quiet_.id, kQuiets, kShare) == kShare);
    rig_.Pass(absl::Seconds(1));
  }
  // Opens sessions of the tenant until it gets no more.
  std::vector<WorkerCalls::Worker> OpenAll(size_t tenant) {
    std::vector<WorkerCalls::Worker> opened;
    for (auto worker = calls_.Open(tenant); worker.ok(); worker = calls_.Open(tenant)) {
      opened.push_back(*std::move(worker));
    }
    return opened;
  }
  // Makes the quiet tenant onboard one of its blocks; returns how many turns of the agent pass
  // until the answer.
  uint64_t TurnsOfOneCall(uint64_t key) {
    auto request = WorkerCalls::About<v1::OnboardRequest>(quiet_, key, 1);
    request.set_target(v1::TIER_HOST);
    const uint64_t before = rig_.time.events_run();
    const absl::Time now = rig_.time.Now();
    const auto call = calls_.Begin(&WorkerService::Onboard, std::move(request));
    calls_.Await(*call);
    EXPECT_EQ(rig_.time.Now(), now) << "it waits for no block";
    const v1::LeasedBlocks& leased = call->response().sequences(0).blocks();
    EXPECT_EQ(leased.lease_ids_size(), 1) << "block " << key << " is gone";
    const uint64_t turns = rig_.time.events_run() - before;
    for (const uint64_t lease : leased.lease_ids()) {
      const LeaseId id{lease};
      rig_.agent->sessions().leases().Release(quiet_.id, std::span(&id, 1));
    }
    return turns;
  }
  size_t QuietBlocksIn(Tier tier) {
    const std::vector<BlockKey> keys = rig_.NameRun(quiet_.id, kQuiets, kShare).keys;
    return static_cast<size_t>(std::ranges::count_if(
        keys, [&](const BlockKey& key) { return rig_.agent->index().In(tier, key); }));
  }

  AgentRig rig_{{.slots = kShare, .segments = 512, .host_memory = HostMemory::kMoving}};
  WorkerCalls calls_{&rig_};
  const WorkerCalls::Worker quiet_ = *calls_.Open(kQuietTenant);
};

TEST_F(StarvationTest, AQuietTenantsCallWaitsForAFewTurnsAndItsBytesStay) {
  std::mt19937_64 random(TestSeed());
  Hostile hostile(&rig_, &calls_, OpenAll(kHostileTenant));
  for (const size_t under_way : {kKinds, 2 * kKinds, 8 * kKinds}) {
    uint64_t worst = 0;
    for (int call = 0; call < (kSanitized ? 10 : 100); ++call) {
      const size_t begun = hostile.KeepUnderWay(under_way);
      // Calls that were begun arrive, and some have their turn.
      for (size_t i = begun + random() % 4; i > 0; --i) rig_.time.Step();
      worst = std::max(worst, TurnsOfOneCall(kQuiets + random() % kShare));
      hostile.TakeAnswers();
      EXPECT_GE(hostile.under_way(), under_way / 3) << "or it has waited for nothing";
      // Disks work, and memory moves.
      if (call % 10 == 9) rig_.Pass(absl::Milliseconds(10));
    }
    EXPECT_LE(worst, kMostTurns) << "beside " << under_way << " calls";
  }
  hostile.Finish(0);
  rig_.Pass(absl::Minutes(1));
  EXPECT_EQ(QuietBlocksIn(Tier::kHost), kShare);
  EXPECT_EQ(QuietBlocksIn(Tier::kDisk), kShare);
  rig_.agent->Audit();
}

TEST_F(StarvationTest, EachOfItsCallsIsManyTurnsWhileAnotherTenantCalls) {
  Hostile hostile(&rig_, &calls_, {*calls_.Open(kHostileTenant)});
  for (size_t kind = 0; kind < kKinds; ++kind) {
    hostile.KeepUnderWay(1);
    size_t answered = 0;
    for (; hostile.under_way() > 0; hostile.TakeAnswers()) {
      TurnsOfOneCall(kQuiets);
      ++answered;
    }
    EXPECT_GE(answered, kKeys / kKeysPerTurn - 1) << "its keys alone are so many turns: " << kind;
  }
}

TEST_F(StarvationTest, SessionsOfOneTenantLeaveTheOtherItsGuarantee) {
  const size_t guarantee = rig_.agent->sessions().shares().guarantee();
  EXPECT_EQ(guarantee, kMaxSessions / 4) << "half of the node's, for two tenants";
  const std::vector<WorkerCalls::Worker> hostile = OpenAll(kHostileTenant);
  EXPECT_LE(hostile.size(), kMaxSessions - guarantee);
  EXPECT_EQ(OpenAll(kQuietTenant).size(), guarantee - 1) << "this test has one of them";
}

}  // namespace
}  // namespace kvtier::testing

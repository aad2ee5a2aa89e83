// Tests that work on all blocks of a node gives way: whatever it has to do, no turn of the executor
// takes more than a bounded part of it, and a match in between is answered at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "agent/sessions/fair_turns.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

constexpr size_t kBlocks = 3000;
static_assert(kBlocks > 10 * kEvictedPerTurn && kBlocks > kEndedPerSweep);

class LongTurnsTest : public ::testing::Test {
 protected:
  LongTurnsTest() { KVT_CHECK(rig_.Put(rig_.session, 1, kBlocks) == kBlocks); }
  ~LongTurnsTest() override { rig_.agent->Audit(); }

  size_t InHost() { return rig_.agent->index().blocks_in(Tier::kHost); }
  size_t Leases() { return rig_.agent->sessions().leases().size(); }
  // Steps until `left` is 0, and checks that it falls by `most` at most in each turn and that the
  // same tenant's match is answered before the end.
  void ExpectSteps(const std::function<size_t()>& left, size_t most) {
    size_t turns = 0;
    bool matched = false;
    for (size_t before = left(); before > 0; ++turns) {
      if (turns == 1) {
        rig_.Run(rig_.agent->flows().matcher.Match({rig_.NameRun(rig_.session, 1, 8)},
                                                   absl::ZeroDuration()));
        matched = left() > 0;
        before = left();
        continue;
      }
      ASSERT_TRUE(rig_.time.Step());
      ASSERT_LE(before - std::min(before, left()), most) << "turn " << turns;
      before = left();
    }
    EXPECT_TRUE(matched);
    EXPECT_GE(turns, 2u);
  }
  void LeaseAll() {
    const Onboarded leased =
        *rig_.Run(rig_.Onboard(rig_.session, 1, kBlocks, absl::Milliseconds(100)));
    ASSERT_EQ(leased.blocks.size(), kBlocks);
  }

  AgentRig rig_{{.slots = 4096, .eviction = {.host = EvictionPolicy::kLru}, .disk = false}};
};

// An operator's eviction of 304,000 blocks was one turn, in which a match waited for seconds.
TEST_F(LongTurnsTest, AnEvictionOfAllBlocksGivesWay) {
  const auto evicted = rig_.Spawn(rig_.agent->evictor().EvictAll(&rig_.executor));
  EXPECT_EQ(InHost(), kBlocks - kEvictedPerTurn);
  ExpectSteps([this] { return InHost(); }, kEvictedPerTurn);
  while (!evicted->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(*evicted, kBlocks);
}

TEST_F(LongTurnsTest, AnEvictionEndsAlthoughAWriterGoesOnPutting) {
  const auto evicted = rig_.Spawn(rig_.agent->evictor().EvictAll(&rig_.executor));
  for (uint64_t first = 10'000; !evicted->has_value(); first += 300) {
    ASSERT_LT(first, 20'000u);
    ASSERT_EQ(rig_.Put(rig_.session, first, 300), 300);
    ASSERT_TRUE(rig_.time.Step());
  }
  EXPECT_EQ(*evicted, kBlocks);
}

TEST_F(LongTurnsTest, AnEvictionOfAPoolGivesWay) {
  AgentRig rig({.slots = 1024, .gpu_slots = 1000, .disk = false});
  const Reserved reserved =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 1000), Tier::kGpu);
  std::vector<ReservationId> ids;
  for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
  rig.Commit(rig.session, std::move(ids));
  const size_t there = rig.agent->index().blocks_in(Tier::kGpu);
  ASSERT_GT(there, 2 * kEvictedPerTurn);
  const auto evicted = rig.Spawn(rig.agent->gpus().EvictAll());
  EXPECT_FALSE(evicted->has_value());
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kGpu), there - kEvictedPerTurn);
  while (!evicted->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ(*evicted, there);
}

TEST_F(LongTurnsTest, AnErasureOfATenantGivesWay) {
  const Tenant& tenant = rig_.agent->options().tenants.OfDomain(DomainId{});
  const auto erased = rig_.Spawn(rig_.agent->flows().tenant_eraser.EraseAll(&tenant));
  ExpectSteps([this] { return InHost(); }, kEvictedPerTurn);
  while (!erased->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ((*erased)->value().memory_blocks, kBlocks);
}

TEST_F(LongTurnsTest, AnErasureOfKeptBlocksGivesWay) {
  for (uint64_t prefix = 0; prefix < 5; ++prefix) {
    KeepRequest request{.sequences = {}, .deadline = rig_.executor.Now(), .ttl = absl::Minutes(1)};
    request.sequences.push_back(rig_.NameRun(rig_.session, 1, 900 + prefix));
    ASSERT_NE(rig_.Run(rig_.agent->flows().prefix_keeper.Keep(std::move(request)))->id, KeptId{});
  }
  const KeptPrefixes& kept = rig_.agent->flows().kept_prefixes;
  ASSERT_GT(kept.UseOf(DomainId{}).blocks, 2 * kEndedPerSweep);
  const Tenant& tenant = rig_.agent->options().tenants.OfDomain(DomainId{});
  const auto erased = rig_.Spawn(rig_.agent->flows().tenant_eraser.EraseAll(&tenant));
  ExpectSteps([&] { return kept.UseOf(DomainId{}).blocks; }, kEndedPerSweep);
  while (!erased->has_value()) ASSERT_TRUE(rig_.time.Step());
}

TEST_F(LongTurnsTest, ADropOfAPrefixWithAllThatDescendsFromItGivesWay) {
  const auto deleted = rig_.Spawn(rig_.agent->flows().block_deleter.Delete(
      {rig_.NameRun(rig_.session, 1, 1)}, DeleteScope::kDescendants));
  ExpectSteps([this] { return InHost(); }, kKeysPerTurn);
  while (!deleted->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ((*deleted)->blocks, kBlocks);
}

TEST_F(LongTurnsTest, LeasesOfWhichAllEndTogetherEndInSeveralTurns) {
  LeaseAll();
  rig_.Pass(kLeaseDuration + kLeaseGrace - absl::Milliseconds(1));
  ASSERT_EQ(Leases(), kBlocks);
  while (Leases() == kBlocks) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ(Leases(), kBlocks - kEndedPerSweep);
  rig_.Pass(absl::ZeroDuration());
  EXPECT_EQ(Leases(), 0) << "the next turn goes on at once";
  EXPECT_EQ(rig_.agent->stats().expired_leases, kBlocks);
}

TEST_F(LongTurnsTest, TheLeasesOfASessionThatHangsUpEndInSeveralTurns) {
  LeaseAll();
  rig_.agent->CloseSession(rig_.session);
  EXPECT_EQ(Leases(), kBlocks - kEndedPerSweep);
  rig_.agent->Audit();
  rig_.Pass(kSweepInterval);
  EXPECT_EQ(Leases(), 0);
  EXPECT_EQ(rig_.agent->index().pinned_bytes(), 0);
}

TEST_F(LongTurnsTest, TicketsThatEndTogetherEndInSeveralTurns) {
  AgentRig rig({.slots = 8192, .disk = false});
  constexpr size_t kOfOne = kEndedPerSweep / 2 + 1;
  ASSERT_EQ(rig.Put(rig.session, 1, kOfOne), kOfOne);
  for (int i = 0; i < 3; ++i) {
    TicketRequest request{.redemptions = 1, .lifetime = absl::Seconds(5)};
    request.sequences.push_back({.run = rig.NameRun(rig.session, 1, kOfOne),
                                 .deadline = rig.executor.Now() + absl::Milliseconds(100)});
    ASSERT_NE(rig.Run(rig.agent->flows().tickets.Take(std::move(request)))->id, TicketId{});
  }
  const Tickets& tickets = rig.agent->flows().tickets;
  while (tickets.size() == 3) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ(tickets.size(), 1);
  rig.Pass(absl::ZeroDuration());
  EXPECT_EQ(tickets.size(), 0);
}

TEST_F(LongTurnsTest, ASnapshotForTheCoordinatorIsTakenInParts) {
  const BlockIndex& index = rig_.agent->index();
  BlockIndex::SnapshotPlace at;
  std::vector<Delta> deltas;
  size_t parts = 1;
  for (; index.SnapshotFrom(&at, 256, &deltas); ++parts) {
    ASSERT_LE(deltas.size(), 256 * parts);
    // Room that is free again is not looked at twice.
    rig_.agent->evictor().EvictSome(DomainId{}, 10);
  }
  EXPECT_GE(parts, kBlocks / 256);
  std::sort(deltas.begin(), deltas.end(),
            [](const Delta& a, const Delta& b) { return a.key < b.key; });
  for (const Delta& here : index.Snapshot()) {
    EXPECT_TRUE(std::ranges::binary_search(deltas, here.key, {}, &Delta::key));
  }
  EXPECT_TRUE(std::ranges::adjacent_find(deltas, {}, &Delta::key) == deltas.end());
}

}  // namespace
}  // namespace kvtier::testing

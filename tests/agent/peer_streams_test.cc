// Tests streams of blocks between nodes, divided between tenants: those that this node asks for,
// and those that it serves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "agent/limits.h"
#include "agent/peers/stream_shares.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::KnowingCoordinator;
using testing::ScriptedPeers;

constexpr DomainId kOne{0};
constexpr DomainId kOther{1};

// Takes streams until the domain may take no more; returns how many were taken.
size_t TakeAll(StreamShares* shares, DomainId domain, size_t tenants) {
  size_t taken = 0;
  for (; shares->FreeFor(domain, tenants) > 0; ++taken) shares->Take(domain);
  return taken;
}

TEST(StreamSharesTest, ALoneTenantMayTakeAll) {
  StreamShares shares(16);
  EXPECT_EQ(shares.FreeFor(kOne, 1), 16u);
  EXPECT_EQ(TakeAll(&shares, kOne, 1), 16u);
  EXPECT_EQ(shares.taken(), 16u);
}

TEST(StreamSharesTest, WhoeverComesFirstLeavesTheOthersTheirGuarantees) {
  StreamShares shares(16);
  EXPECT_EQ(shares.GuaranteeOf(4), 2u);
  EXPECT_EQ(TakeAll(&shares, kOne, 4), 10u);
  for (uint32_t other = 1; other < 4; ++other) EXPECT_EQ(TakeAll(&shares, DomainId{other}, 4), 2u);
  shares.GiveBack(kOne);
  EXPECT_EQ(shares.FreeFor(kOther, 4), 1u) << "what is lent is whoever's comes first";
}

TEST(StreamSharesTest, OfManyTenantsAsManyAsTheHalfHaveOneAtOnce) {
  constexpr size_t kTenants = 100;
  StreamShares shares(16);
  EXPECT_EQ(shares.GuaranteeOf(kTenants), 1u);
  EXPECT_EQ(TakeAll(&shares, kOne, kTenants), 8u) << "the other half is for who has none";
  for (uint32_t other = 1; other <= 8; ++other) {
    EXPECT_EQ(TakeAll(&shares, DomainId{other}, kTenants), 1u) << other;
  }
  EXPECT_EQ(shares.FreeFor(DomainId{9}, kTenants), 0u);
  shares.GiveBack(kOne);
  EXPECT_EQ(shares.FreeFor(kOne, kTenants), 0u);
  EXPECT_EQ(shares.FreeFor(DomainId{9}, kTenants), 1u);
}

TEST(StreamSharesTest, StreamsOfATenantThatWasDroppedCountUntilTheyEnd) {
  StreamShares shares(16);
  EXPECT_EQ(TakeAll(&shares, kOther, 2), 12u);
  EXPECT_EQ(shares.FreeFor(kOne, 1), 4u);
  for (int i = 0; i < 12; ++i) shares.GiveBack(kOther);
  EXPECT_EQ(shares.FreeFor(kOne, 1), 16u);
}

TEST(StreamSharesDeathTest, NobodyTakesOrGivesBackWhatIsNotThere) {
  StreamShares shares(1);
  EXPECT_DEATH(shares.GiveBack(kOne), "CHECK failed");
  shares.Take(kOne);
  EXPECT_DEATH(shares.Take(kOther), "CHECK failed");
}

// PlainStreams gives the same answers by taking streams one after another.
struct PlainStreams {
  size_t limit = 0;
  std::vector<size_t> taken;  // Streams taken by each tenant.

  size_t Guarantee() const { return std::max(size_t{1}, limit / 2 / taken.size()); }
  bool MayTake(size_t tenant) const {
    size_t used = 0;
    size_t kept = 0;
    for (size_t each = 0; each < taken.size(); ++each) {
      used += taken[each];
      if (each != tenant) kept += Guarantee() - std::min(Guarantee(), taken[each]);
    }
    if (used == limit) return false;
    return taken[tenant] < Guarantee() || used + std::min(kept, limit / 2) < limit;
  }
  size_t FreeFor(size_t tenant) const {
    PlainStreams later = *this;
    for (; later.MayTake(tenant);) ++later.taken[tenant];
    return later.taken[tenant] - taken[tenant];
  }
};

TEST(StreamSharesModel, AgreesWithOneAfterAnother) {
  const uint64_t seed = testing::TestSeed();
  std::printf("seed %d\n", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t limit = 1 + random() % 40;
    PlainStreams plain{.limit = limit, .taken = std::vector<size_t>(1 + random() % 60)};
    const size_t tenants = plain.taken.size();
    StreamShares shares(limit);
    for (int step = 0; step < 500; ++step) {
      const size_t tenant = random() % tenants;
      const auto domain = static_cast<DomainId>(tenant);
      ASSERT_EQ(shares.FreeFor(domain, tenants), plain.FreeFor(tenant)) << round << " " << step;
      if (random() % 5 < 3 && plain.MayTake(tenant)) {
        shares.Take(domain);
        ++plain.taken[tenant];
      } else if (plain.taken[tenant] > 0) {
        shares.GiveBack(domain);
        --plain.taken[tenant];
      }
      ASSERT_EQ(shares.Taken(domain), plain.taken[tenant]);
    }
  }
}

class PeerStreamsTest : public ::testing::Test {
 protected:
  PeerStreamsTest() : rig_({.transport = &peers_, .coordinator = &coordinator_}) {
    peers_.rig = &rig_;
  }
  // Asks for a block that a peer holds.
  void Ask(SessionId session, uint64_t number, const std::string& peer) {
    coordinator_.holders = {peer};
    rig_.Spawn(rig_.Onboard(session, number, 1, absl::Seconds(1)));
  }
  // Returns the tenant of the stream; nullopt: there is none.
  absl::StatusOr<std::optional<DomainId>> Begin(DomainId of, const std::vector<BlockKey>& keys) {
    const PeerNamer& namer = *rig_.agent->options().tenants.OfDomain(of).peer_namer;
    const auto begun =
        rig_.agent->flows().peer_server.BeginStream(namer.tag(), namer.NamesOf(keys));
    if (!begun.ok()) return begun.status();
    return begun->has_value() ? std::optional((*begun)->domain) : std::nullopt;
  }

  KnowingCoordinator coordinator_;
  ScriptedPeers peers_;
  AgentRig rig_;
  const SessionId other_ = rig_.Open(1);
};

// Regression: a tenant's cold prompts took every stream, and all others' prompts were misses at
// once.
TEST_F(PeerStreamsTest, ATenantsColdPromptsLeaveTheOthersFetches) {
  for (const char* peer : {"a:1", "b:1", "c:1"}) peers_[peer].hangs = true;
  for (uint64_t number = 100; number < 100 + 10 * kMaxFetchesRunning; ++number) {
    Ask(rig_.session, number, number % 2 == 0 ? "a:1" : "b:1");
  }
  const auto& running = rig_.agent->flows().fetcher.standings().running();
  EXPECT_EQ(running.Taken(kOne), kMaxFetchesRunning * 3 / 4);
  const int before = peers_["a:1"].fetches;
  EXPECT_EQ(static_cast<size_t>(before), kMaxFetchesPerPeer * 3 / 4);
  Ask(other_, 1, "a:1");
  EXPECT_EQ(peers_["a:1"].fetches, before + 1);
  Ask(other_, 2, "c:1");
  EXPECT_EQ(peers_["c:1"].fetches, 1);
  EXPECT_EQ(running.Taken(kOther), 2u);
  rig_.Pass(absl::Seconds(2));
  EXPECT_EQ(running.taken(), 0u);
}

TEST_F(PeerStreamsTest, ATenantWhoseBlocksAreAskedForLeavesTheOthersStreamsThatAreServed) {
  ASSERT_EQ(rig_.Put(rig_.session, 100, 2), 2u);
  ASSERT_EQ(rig_.PutOnDisk(other_, 100, 2), 2u);
  const std::vector<BlockKey> of_one = rig_.NameRun(rig_.session, 100, 2).keys;
  const std::vector<BlockKey> of_other = rig_.NameRun(other_, 100, 2).keys;
  size_t served = 0;
  while (Begin(kOne, of_one).ok()) ++served;
  EXPECT_EQ(served, kMaxPeerStreamsServed * 3 / 4);
  EXPECT_TRUE(absl::IsAborted(Begin(kOne, of_one).status())) << "its nodes are to ask others";
  rig_.EvictHost();
  for (; served < kMaxPeerStreamsServed; ++served) ASSERT_EQ(*Begin(kOther, of_other), kOther);
  EXPECT_TRUE(absl::IsAborted(Begin(kOther, of_other).status()));
  rig_.agent->flows().peer_server.EndStream(kOther);
  EXPECT_EQ(*Begin(kOther, of_other), kOther);
}

TEST_F(PeerStreamsTest, AStreamOfBlocksThatAreNotHereCountsForNobody) {
  ASSERT_EQ(rig_.Put(rig_.session, 100, 1), 1u);
  for (size_t i = 0; i <= kMaxPeerStreamsServed; ++i) {
    EXPECT_EQ(*Begin(kOne, rig_.NameRun(rig_.session, 200, 8).keys), std::nullopt);
  }
  std::vector<BlockKey> keys = rig_.NameRun(rig_.session, 200, 8).keys;
  keys.push_back(rig_.NameRun(rig_.session, 100, 1).keys[0]);
  EXPECT_EQ(*Begin(kOne, keys), kOne) << "the last of them is here";
}

}  // namespace
}  // namespace kvtier

// Tests what callers of the peers' port and what peers that answer get who know a tenant's
// BlockKeys and not its secret: members and former members of a share group know the key that names
// its blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/peer_namer.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"
#include "tests/testing/fake_tenant_store.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::FakeTenantStore;
using testing::KnowingCoordinator;
using testing::kPeer;
using testing::kSecond;
using testing::ScriptedPeers;

constexpr char kSecret[] = "sixteen bytes or more";  // Secret of the rig's tenant "acme".
constexpr DomainId kAcme{1};

PeerNamer MembersNamer(const std::string& secret) {
  return PeerNamer(PeerKey{.bytes = TenantKey::FromSecret(secret).bytes});
}

// "acme" has blocks on disk and in memory, "default" is the open tenant, whose key is public.
class PeerSecretsTest : public ::testing::Test {
 protected:
  PeerSecretsTest() {
    store_.secrets = {{"default", ""}, {"acme", kSecret}};
    rig_.emplace(AgentRig::Shape{.tenants = &store_});
    const SessionId acme = rig_->Open(1);
    EXPECT_EQ(rig_->PutOnDisk(acme, 1, 2), 2u);
    rig_->EvictHost();
    EXPECT_EQ(rig_->Put(acme, 3, 2), 2u);
    EXPECT_EQ(rig_->Put(rig_->session, 9, 1), 1u);
    keys_ = rig_->NameRun(acme, 1, 4).keys;
    own_ = rig_->NameRun(rig_->session, 9, 1).keys[0];
  }
  void LookAtSecrets() { rig_->Pass(kTenantsInterval + absl::Seconds(3)); }
  PeerServer& server() { return rig_->agent->flows().peer_server; }
  // Returns how many of the blocks a peer gets that names them so.
  size_t Got(PeerTag tag, const std::vector<PeerName>& names) {
    const auto begun = server().BeginStream(tag, names);
    EXPECT_TRUE(begun.ok()) << begun.status();
    if (!begun->has_value()) return 0;
    size_t got = 0;
    for (const BlockKey& key : (*begun)->keys) {
      const absl::Time deadline = rig_->executor.Now() + absl::Seconds(1);
      got += rig_->Run(server().Serve((*begun)->domain, key, deadline)).has_value() ? 1 : 0;
    }
    server().EndStream((*begun)->domain);
    return got;
  }
  size_t Got(const PeerNamer& namer) { return Got(namer.tag(), namer.NamesOf(keys_)); }

  FakeTenantStore store_;
  std::optional<AgentRig> rig_;
  std::vector<BlockKey> keys_;  // Keys of acme's blocks.
  BlockKey own_;                // Key of a block of the open tenant.
  const PeerNamer acme_{PeerKey::FromSecret(kSecret)};
  const PeerNamer open_{PeerKey::FromSecret("")};
};

TEST_F(PeerSecretsTest, AgentsOfTheTenantGetItsBlocks) { EXPECT_EQ(Got(acme_), keys_.size()); }

TEST_F(PeerSecretsTest, WhoKnowsTheKeyOfNamesAloneGetsNothing) {
  const PeerNamer members = MembersNamer(kSecret);
  EXPECT_EQ(Got(members), 0u);
  EXPECT_EQ(Got(acme_.tag(), members.NamesOf(keys_)), 0u) << "under the tag that it has seen";
  std::vector<PeerName> keys;
  for (const BlockKey& key : keys_) keys.push_back({.hi = key.hi, .lo = key.lo});
  EXPECT_EQ(Got(acme_.tag(), keys), 0u) << "BlockKeys are no names";
}

// Every agent has the key of the open tenant, and each tenant's own workers have its secret: from
// the BlockKeys of another tenant they can make names that lead to them.
TEST_F(PeerSecretsTest, ASecretServesNoBlocksOfAnotherTenant) {
  EXPECT_EQ(Got(open_), 0u);
  std::vector<BlockKey> mixed = keys_;
  mixed.push_back(own_);
  EXPECT_EQ(Got(open_.tag(), open_.NamesOf(mixed)), 1u) << "its own block";
}

TEST_F(PeerSecretsTest, ASecretThatWasReplacedServesNothing) {
  store_.secrets["acme"] = "another secret, as long";
  LookAtSecrets();
  EXPECT_EQ(Got(acme_), 0u);
  store_.secrets["acme"] = kSecret;
  LookAtSecrets();
  EXPECT_EQ(Got(acme_), keys_.size());
}

TEST_F(PeerSecretsTest, ATenantThatWasDroppedAndMadeAgainServesTheNewSecretAlone) {
  const std::string after = "another secret, as long";
  ASSERT_TRUE(rig_->Run(rig_->agent->tenants().Drop("acme")).ok());
  rig_->Pass(absl::Seconds(2));
  store_.secrets["acme"] = after;
  LookAtSecrets();
  const SessionId session =
      *rig_->OpenFor(SessionTenants::Own(*rig_->agent->options().tenants.FindAdmitted("acme")));
  ASSERT_EQ(rig_->Put(session, 1, 4), 4u);
  const PeerNamer now(PeerKey::FromSecret(after));
  EXPECT_EQ(Got(acme_), 0u);
  EXPECT_EQ(Got(now), 0u) << "the keys are those of the old secret";
  keys_ = rig_->NameRun(session, 1, 4).keys;
  EXPECT_EQ(Got(acme_), 0u);
  EXPECT_EQ(Got(now), 4u);
}

TEST_F(PeerSecretsTest, WhatIsSentIsProvenForThisBlockByItsTenant) {
  for (const BlockKey& key : keys_) {
    const absl::Time deadline = rig_->executor.Now() + absl::Seconds(1);
    const auto served = rig_->Run(server().Serve(kAcme, key, deadline));
    ASSERT_TRUE(served.has_value());
    EXPECT_TRUE(acme_.Check(key, served->proof).has_value());
    EXPECT_FALSE(acme_.Check(own_, served->proof).has_value());
  }
}

// ListeningCoordinator keeps what it is told and asked.
class ListeningCoordinator final : public CoordinatorLink {
 public:
  std::vector<NamedDelta> told;
  std::vector<PeerName> asked;
  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time) override {
    told.insert(told.end(), report.deltas.begin(), report.deltas.end());
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size()};
  }
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time) override {
    asked.insert(asked.end(), query.names.begin(), query.names.end());
    co_return LocateReply();
  }
};

TEST(CoordinatorSecretsTest, TheCoordinatorIsToldAndAskedByNamesThatOnlyAgentsMake) {
  ListeningCoordinator coordinator;
  AgentRig rig({.coordinator = &coordinator});
  const SessionId acme = rig.Open(1);
  ASSERT_EQ(rig.PutOnDisk(acme, 1, 2), 2u);
  rig.Pass(absl::Seconds(2));
  EXPECT_EQ(rig.Hits(acme, 1, 4), 2u);
  const std::vector<BlockKey> keys = rig.NameRun(acme, 1, 4).keys;
  const std::vector<PeerName> names = PeerNamer(PeerKey::FromSecret(kSecret)).NamesOf(keys);
  std::set<std::pair<PeerName, Tier>> told;  // A snapshot may name a block twice.
  for (const NamedDelta& each : coordinator.told) told.emplace(each.name, each.tier);
  const std::set<std::pair<PeerName, Tier>> held = {{names[0], Tier::kHost},
                                                    {names[0], Tier::kDisk},
                                                    {names[1], Tier::kHost},
                                                    {names[1], Tier::kDisk}};
  EXPECT_EQ(told, held);
  EXPECT_EQ(coordinator.asked, std::vector<PeerName>(names.begin() + 2, names.end()));
}

// The blocks of a tenant whose secret was missing when the agent started are on its disk all the
// time, and no other node could name them.
TEST(CoordinatorSecretsTest, BlocksOnDiskOfATenantThatComesAreTold) {
  ListeningCoordinator coordinator;
  FakeTenantStore store;
  store.secrets = {{"default", ""}, {"acme", kSecret}};
  AgentRig rig({.coordinator = &coordinator, .tenants = &store});
  const AlignedBuffer slot(testing::kRigBlockBytes, std::make_shared<std::atomic<size_t>>(0));
  const BlockMeta meta{.key = testing::NumberedKey(5),
                       .length = testing::kRigBlockBytes,
                       .sum = SumPayload(slot.bytes())};
  ASSERT_EQ(rig.Run(rig.agent->disks().set()->Put(meta, slot.bytes(), "newcomer")),
            absl::OkStatus());
  rig.Pass(absl::Seconds(2));
  EXPECT_TRUE(coordinator.told.empty()) << "nobody could ask for it";
  store.secrets["newcomer"] = "a secret of the newcomer";
  rig.Pass(kTenantsInterval + absl::Seconds(3));
  ASSERT_EQ(coordinator.told.size(), 1u);
  const PeerNamer namer(PeerKey::FromSecret("a secret of the newcomer"));
  EXPECT_EQ(coordinator.told[0].name, namer.NameOf(meta.key));
  EXPECT_EQ(coordinator.told[0].tier, Tier::kDisk);
}

// The peer makes proofs of its own: as a member, as another tenant, for another block, or without a
// key.
TEST(ForgedProofTest, IsRefusedCountedAndNeverStoredOrServedOn) {
  KnowingCoordinator coordinator;
  ScriptedPeers peers;
  AgentRig rig({.transport = &peers, .coordinator = &coordinator});
  peers.rig = &rig;
  const BlockKey key = peers.NameRun(1, 1).keys[0];
  const auto forged = [&](const PeerNamer& by, const BlockKey& of) {
    return [&by, of](BlockProof* proof, std::vector<std::byte>* bytes) {
      bytes->at(0) ^= std::byte{1};
      *proof = by.Prove(
          {.key = of, .space = proof->space, .length = bytes->size(), .sum = SumPayload(*bytes)});
    };
  };
  const PeerNamer members = MembersNamer("");
  const PeerNamer another(PeerKey::FromSecret(kSecret));
  const PeerNamer agents(PeerKey::FromSecret(""));
  const std::vector<std::function<void(BlockProof*, std::vector<std::byte>*)>> forgeries = {
      forged(members, key), forged(another, key), forged(agents, BlockKey{.hi = 1}),
      [&](BlockProof* proof, std::vector<std::byte>* bytes) {
        forged(members, key)(proof, bytes);
        proof->mac = {};
      }};
  uint64_t refused = 0;
  for (const auto& forgery : forgeries) {
    peers[kPeer].tamper = forgery;
    EXPECT_EQ(rig.Hits(rig.session, 1, 1), 0u);
    EXPECT_EQ(rig.agent->stats().peers.verify_failures, ++refused);
    EXPECT_EQ(rig.agent->stats().peers.fetched_blocks, 0u);
    EXPECT_EQ(rig.agent->host().used_bytes(), 0u) << "no slot is taken for it";
    EXPECT_EQ(rig.agent->flows().fetcher.standings().avoided(), 1u);
    const absl::Time deadline = rig.executor.Now() + absl::Seconds(1);
    EXPECT_FALSE(
        rig.Run(rig.agent->flows().peer_server.Serve(DomainId{}, key, deadline)).has_value());
    rig.Pass(absl::Seconds(3));
  }
  coordinator.holders = {kPeer, kSecond};
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 1u) << "an honest peer brings it";
}

}  // namespace
}  // namespace kvtier

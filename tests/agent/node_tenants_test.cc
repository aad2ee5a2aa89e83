// Tests tenants that come, are changed and go while the agent runs, over one agent in virtual time.
#include "agent/flows/node_tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/fake_tenant_store.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::ElementsAre;
using testing::FakeTenantStore;
using ::testing::HasSubstr;
using testing::kRigBlockBytes;

constexpr char kSecret[] = "a secret of the newcomer";
constexpr char kAcmeSecret[] = "sixteen bytes or more";

class NodeTenantsTest : public ::testing::Test {
 protected:
  explicit NodeTenantsTest(bool sealed = false) {
    store_.secrets = {{"acme", kAcmeSecret}, {"default", ""}};
    rig_.emplace(AgentRig::Shape{
        .sealed = sealed, .tenants = &store_, .tenant_settings = {{"acme", Settings("acme", 3)}}});
  }
  ~NodeTenantsTest() override { rig_->agent->Audit(); }

  static TenantSettings Settings(const std::string& name, uint64_t host_weight) {
    TenantSettings settings{.name = name};
    settings.Of(Tier::kHost, ShareField::kWeight) = host_weight;
    return settings;
  }
  static TenantChange Change(const std::string& name, ShareField field,
                             std::optional<uint64_t> value) {
    return {.name = name, .values = {{.tier = Tier::kHost, .field = field, .value = value}}};
  }
  NodeTenants& tenants() { return rig_->agent->tenants(); }
  absl::Status Set(TenantChange change, std::optional<std::string> secret = std::nullopt) {
    return rig_->Run(tenants().Set(std::move(change), std::move(secret)));
  }
  absl::Status Make(const std::string& name, const std::string& secret = kSecret) {
    return Set({.name = name}, secret);
  }
  absl::StatusOr<NodeTenants::Dropped> Drop(const std::string& name) {
    return rig_->Run(tenants().Drop(name));
  }
  const Tenant* Find(const std::string& name) { return rig_->agent->options().tenants.Find(name); }
  SessionId OpenFor(const std::string& name) {
    return rig_->Open(static_cast<size_t>(Find(name)->domain));
  }
  NodeTenants::View ViewOf(const std::string& name) {
    for (const NodeTenants::View& view : tenants().All()) {
      if (view.name == name) return view;
    }
    return {};
  }

  FakeTenantStore store_;
  std::optional<AgentRig> rig_;
};

TEST_F(NodeTenantsTest, ANewTenantPutsAndGetsAndTheOthersKeepTheirs) {
  ASSERT_EQ(rig_->Put(rig_->session, 0, 8), 8);
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  EXPECT_EQ(store_.secrets.at("newcomer"), kSecret);
  const SessionId session = OpenFor("newcomer");
  EXPECT_EQ(rig_->PutOnDisk(session, 0, 4), 4) << "one slab";
  EXPECT_EQ(rig_->Hits(session, 0, 4), 4);
  EXPECT_EQ(rig_->Hits(rig_->session, 0, 8), 8);
  EXPECT_EQ(rig_->agent->residency().table(DomainId{2})->blocks_in(Tier::kHost), 4);
}

TEST_F(NodeTenantsTest, WhatCannotBeATenantIsRefusedAndNothingHasChanged) {
  EXPECT_TRUE(absl::IsInvalidArgument(Make("-")));
  EXPECT_TRUE(absl::IsInvalidArgument(Make("newcomer", "short")));
  EXPECT_THAT(std::string(Make("newcomer.md").message()), HasSubstr("its name ends in '.md'"));
  EXPECT_THAT(std::string(Make("newcomer", kAcmeSecret).message()),
              HasSubstr("its secret is that of tenant 'acme'"));
  EXPECT_THAT(std::string(Make("acme").message()), HasSubstr("has another secret already"));
  EXPECT_TRUE(absl::IsNotFound(Set({.name = "newcomer"})));
  store_.read_only = absl::FailedPreconditionError("mounted read-only");
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("newcomer")));
  EXPECT_EQ(Find("newcomer"), nullptr);
  EXPECT_EQ(store_.secrets.size(), 2);
}

TEST_F(NodeTenantsTest, ASecretThatAppearsMakesATenantAndOneThatGoesShutsIt) {
  store_.secrets["mounted"] = kSecret;
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  ASSERT_NE(Find("mounted"), nullptr);
  const SessionId session = OpenFor("mounted");
  ASSERT_EQ(rig_->PutOnDisk(session, 0, 4), 4);
  store_.secrets.erase("mounted");
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  EXPECT_TRUE(ViewOf("mounted").shut);
  EXPECT_EQ(rig_->Hits(session, 0, 4), 4) << "its blocks stay, and so does who is in";
  store_.secrets["mounted"] = "another secret, sixteen bytes";
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  EXPECT_TRUE(ViewOf("mounted").shut) << "its blocks are named with the first";
  EXPECT_FALSE(rig_->agent->sessions().table().IsOpen(session))
      << "the first may be known to others";
  store_.secrets["mounted"] = kSecret;
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  EXPECT_FALSE(ViewOf("mounted").shut);
}

// The sessions of a tenant whose file was being written, and was read by halves, ended.
TEST_F(NodeTenantsTest, ATenantWhoseFileIsBeingWrittenStays) {
  store_.secrets.erase("acme");
  store_.unread_secrets["acme"] = absl::UnavailableError("may not be whole");
  store_.unread_secrets["newcomer"] = absl::UnavailableError("may not be whole");
  store_.unread_secrets["README.md"] = absl::FailedPreconditionError("is skipped");
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  EXPECT_FALSE(ViewOf("acme").shut);
  EXPECT_EQ(Find("newcomer"), nullptr);
  EXPECT_EQ(Find("README.md"), nullptr);
}

TEST_F(NodeTenantsTest, TenantsTakeTurnsByTheWeightsOfTheirShares) {
  ASSERT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 3);
  std::string begun;
  for (const char* name : {"default", "acme"}) {
    for (int i = 0; i < 8; ++i) {
      rig_->agent->turns().Run(
          FairTurns::kTurnCost, [domain = Find(name)->domain] { return domain; },
          [&begun, name] { begun += name[0]; });
    }
  }
  rig_->Pass(absl::Milliseconds(1));
  EXPECT_EQ(std::ranges::count(begun.substr(0, 8), 'a'), 6) << begun;
  EXPECT_EQ(begun.size(), 16u);
}

TEST_F(NodeTenantsTest, SecretsThatCannotBeListedShutNobody) {
  store_.unlisted = absl::InvalidArgumentError("no such directory");
  rig_->Pass(kTenantsInterval + absl::Seconds(1));
  EXPECT_FALSE(ViewOf("acme").shut);
}

TEST_F(NodeTenantsTest, TheNodesOwnSettingsHoldBeforeTheClustersAndTheFiles) {
  EXPECT_EQ(ViewOf("acme").holding.source, SettingsSource::kFile);
  tenants().TakeCluster({.store = 5, .version = 7, .settings = {{"acme", Settings("acme", 5)}}});
  EXPECT_EQ(ViewOf("acme").holding.source, SettingsSource::kCluster);
  EXPECT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 5);
  ASSERT_EQ(Set(Change("acme", ShareField::kMaximum, 1 << 20)), absl::OkStatus());
  const NodeTenants::View own = ViewOf("acme");
  EXPECT_EQ(own.holding.source, SettingsSource::kNode);
  EXPECT_EQ(own.shares[TierIndex(Tier::kHost)].weight, 5) << "it went on from what held";
  tenants().TakeCluster({.store = 5, .version = 6});
  EXPECT_EQ(tenants().cluster().version, 7) << "what is older is ignored";
  tenants().TakeCluster({.store = 5, .version = 8, .settings = {{"acme", Settings("acme", 9)}}});
  EXPECT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 5);
  EXPECT_EQ(tenants().cluster().version, 8);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(store_.kept.cluster.version, 8);
  ASSERT_EQ(Set(Change("acme", ShareField::kMaximum, std::nullopt)), absl::OkStatus());
  ASSERT_EQ(Set(Change("acme", ShareField::kWeight, std::nullopt)), absl::OkStatus());
  EXPECT_EQ(ViewOf("acme").holding.source, SettingsSource::kCluster) << "all default is none";
}

// A coordinator that lost its data, and whose settings were begun again, has another store.
TEST_F(NodeTenantsTest, SettingsOfAnotherStoreAreFollowedOnlyInPlaceOfTheNodesOwn) {
  tenants().TakeCluster({.store = 5, .version = 7, .settings = {{"acme", Settings("acme", 5)}}});
  tenants().TakeCluster({.store = 6, .version = 40});
  EXPECT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 5);
  EXPECT_EQ(tenants().cluster_stamp().store, 5);
  tenants().TakeCluster(
      {.store = 6, .version = 1, .replaced = {5}, .settings = {{"acme", Settings("acme", 8)}}});
  EXPECT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 8);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(store_.kept.cluster, tenants().cluster()) << "also after a restart";
  EXPECT_EQ(tenants().cluster().store, 6);
}

TEST_F(NodeTenantsTest, ATenantThatIsOnlyMadeIsToldNothingByTheNode) {
  tenants().TakeCluster(
      {.store = 5, .version = 7, .settings = {{"newcomer", Settings("newcomer", 5)}}});
  EXPECT_EQ(ViewOf("newcomer").domain, std::nullopt);
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  EXPECT_EQ(ViewOf("newcomer").holding.source, SettingsSource::kCluster);
  EXPECT_EQ(ViewOf("newcomer").shares[TierIndex(Tier::kHost)].weight, 5);
  EXPECT_TRUE(store_.kept.node.empty());
}

TEST_F(NodeTenantsTest, GuaranteesFitIntoTheTierAndDefaultsShareTheRest) {
  const uint64_t capacity = tenants().CapacityOf(Tier::kHost);
  ASSERT_EQ(Set(Change("acme", ShareField::kGuaranteed, capacity / 4)), absl::OkStatus());
  EXPECT_EQ(ViewOf("default").shares[TierIndex(Tier::kHost)].guaranteed, capacity - capacity / 4);
  const absl::Status refused = Set(Change("default", ShareField::kGuaranteed, capacity));
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tenant 'default', host_guaranteed: "));
  EXPECT_EQ(ViewOf("default").holding.source, SettingsSource::kDefault);
}

TEST_F(NodeTenantsTest, SettingsThatCannotBeKeptDoNotHold) {
  store_.unsaved = absl::UnavailableError("the drive hangs");
  EXPECT_TRUE(absl::IsUnavailable(Set(Change("acme", ShareField::kWeight, 7))));
  EXPECT_EQ(ViewOf("acme").shares[TierIndex(Tier::kHost)].weight, 3);
}

TEST_F(NodeTenantsTest, ADroppedTenantIsGoneFromAllTiersAndTheOthersStay) {
  ASSERT_EQ(rig_->PutOnDisk(rig_->session, 0, 8), 8);
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  ASSERT_EQ(Set(Change("newcomer", ShareField::kWeight, 2)), absl::OkStatus());
  const SessionId session = OpenFor("newcomer");
  ASSERT_EQ(rig_->PutOnDisk(session, 100, 4), 4);
  const auto dropped = Drop("newcomer");
  ASSERT_EQ(dropped.status(), absl::OkStatus());
  EXPECT_EQ(dropped->sessions, 1);
  EXPECT_EQ(dropped->disk_blocks, 4);
  EXPECT_EQ(dropped->memory_blocks, 4);
  EXPECT_EQ(dropped->held_bytes, 0);
  EXPECT_TRUE(dropped->had_settings);
  EXPECT_FALSE(rig_->agent->sessions().table().IsOpen(session));
  EXPECT_FALSE(store_.secrets.contains("newcomer"));
  EXPECT_TRUE(store_.kept.node.empty());
  EXPECT_EQ(rig_->agent->disks().set()->block_count(), 8);
  EXPECT_EQ(rig_->Hits(rig_->session, 0, 8), 8);
  EXPECT_TRUE(absl::IsNotFound(Drop("newcomer").status()));
  rig_->Pass(absl::Seconds(1));
  EXPECT_FALSE(rig_->agent->host().HasArena(DomainId{2})) << "its memory is given back";
  rig_->agent->Audit();
}

TEST_F(NodeTenantsTest, WhatIsHeldKeepsNameAndSecretAwayUntilItIsReleased) {
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  const SessionId session = OpenFor("newcomer");
  ASSERT_EQ(rig_->PutOnDisk(session, 0, 2), 2);
  // The pin keeps the block here, as a copy that reads the block would.
  std::optional<Pin> pin = rig_->agent->index().PinOf(rig_->NameRun(session, 0, 1).keys.front());
  ASSERT_TRUE(pin.has_value());
  EXPECT_EQ(Drop("newcomer")->held_bytes, kRigBlockBytes);
  rig_->Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("newcomer")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("alias")));
  pin.reset();
  rig_->Pass(absl::Seconds(1));
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  const SessionId again = OpenFor("newcomer");
  EXPECT_EQ(rig_->Hits(again, 0, 2), 0) << "its blocks are gone";
  ASSERT_EQ(rig_->Put(again, 0, 2), 2);
  EXPECT_EQ(rig_->Hits(again, 0, 2), 2);
}

TEST_F(NodeTenantsTest, WhatAWorkerOfADroppedTenantMayStillWriteStaysItsOwn) {
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  const SessionId session = OpenFor("newcomer");
  ASSERT_EQ(rig_->Reserve(session, 0, 2).size(), 2);
  EXPECT_EQ(Drop("newcomer")->held_bytes, 2 * kRigBlockBytes);
  // The socket sees the hangup after the session has ended, and must watch the process.
  EXPECT_TRUE(rig_->agent->CloseSession(session));
  rig_->agent->sessions().ProcessGone(session);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(Make("newcomer"), absl::OkStatus());
}

TEST_F(NodeTenantsTest, ADropHangsUpOnWorkersBeforeItFreesWhatTheyRead) {
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  const SessionId session = OpenFor("newcomer");
  ASSERT_EQ(rig_->Put(session, 0, 2), 2);
  ASSERT_EQ(rig_->Run(rig_->Onboard(session, 0, 2, absl::Seconds(1)))->blocks.size(), 2);
  const DomainId domain = Find("newcomer")->domain;
  std::vector<SessionId> hung_up;
  rig_->agent->SetHangUp([&](SessionId id) {
    hung_up.push_back(id);
    EXPECT_EQ(rig_->agent->sessions().leases().shares().Taken(domain), 2) << "it may still read";
  });
  ASSERT_TRUE(Drop("newcomer").ok());
  EXPECT_THAT(hung_up, ElementsAre(session));
  EXPECT_EQ(rig_->agent->sessions().leases().shares().Taken(domain), 0);
}

TEST_F(NodeTenantsTest, TheLastTenantIsNotDropped) {
  EXPECT_EQ(Drop("acme").status(), absl::OkStatus());
  const absl::Status last = Drop("default").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(last));
  EXPECT_THAT(std::string(last.message()), HasSubstr("make another one first, which needs "
                                                     "--tenants_dir"));
  EXPECT_TRUE(absl::IsNotFound(Drop("nobody").status()));
}

TEST_F(NodeTenantsTest, ASecretThatCannotBeRemovedKeepsItsTenant) {
  store_.read_only = absl::FailedPreconditionError("mounted read-only");
  EXPECT_TRUE(absl::IsFailedPrecondition(Drop("acme").status()));
  EXPECT_FALSE(ViewOf("acme").shut);
  store_.secrets.erase("acme");
  EXPECT_EQ(Drop("acme").status(), absl::OkStatus()) << "where it was taken away already";
}

// For example, the tenant's secret was missing when the agent started.
TEST_F(NodeTenantsTest, TheResidencyIsToldOfBlocksOnDiskOfATenantThatComes) {
  const AlignedBuffer slot(kRigBlockBytes, std::make_shared<std::atomic<size_t>>(0));
  testing::FillBlock(1, testing::TestEngineKey(5), slot.bytes());
  const BlockMeta meta{
      .key = testing::NumberedKey(5), .length = kRigBlockBytes, .sum = SumPayload(slot.bytes())};
  ASSERT_EQ(rig_->Run(rig_->agent->disks().set()->Put(meta, slot.bytes(), "newcomer")),
            absl::OkStatus());
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  rig_->Pass(absl::Seconds(1));
  EXPECT_TRUE(rig_->agent->residency().table(DomainId{2})->Has(meta.key, Tier::kDisk));
}

class SealedNodeTenantsTest : public NodeTenantsTest {
 protected:
  SealedNodeTenantsTest() : NodeTenantsTest(true) {}
};

TEST_F(SealedNodeTenantsTest, ADroppedTenantsKeyIsDestroyed) {
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  const SessionId session = OpenFor("newcomer");
  ASSERT_EQ(rig_->PutOnDisk(session, 100, 4), 4);
  EXPECT_EQ(Drop("newcomer")->disk_blocks, 4);
  EXPECT_FALSE(*rig_->agent->disks().set()->KnowsTenant("newcomer"));
}

TEST_F(SealedNodeTenantsTest, ADropThatADiskRefusesIsDoneAgain) {
  ASSERT_EQ(Make("newcomer"), absl::OkStatus());
  ASSERT_EQ(rig_->PutOnDisk(OpenFor("newcomer"), 100, 4), 4);
  rig_->manifest_media.faults.commit_error = 1;
  EXPECT_FALSE(Drop("newcomer").ok());
  EXPECT_TRUE(ViewOf("newcomer").shut);
  rig_->manifest_media.faults.commit_error = 0;
}

TEST(KeptTenantsTest, WhatWasSetHoldsAfterARestart) {
  FakeTenantStore store;
  store.secrets = {{"acme", kAcmeSecret}, {"default", ""}};
  TenantSettings settings{.name = "acme"};
  settings.Of(Tier::kDisk, ShareField::kWeight) = 4;
  store.kept.node.emplace("acme", settings);
  AgentRig rig({.tenants = &store});
  EXPECT_EQ(rig.agent->tenants().All().at(1).shares[TierIndex(Tier::kDisk)].weight, 4);
}

TEST(KeptTenantsTest, ANodeFollowsItsStoreAlsoAfterARestart) {
  FakeTenantStore store;
  store.secrets = {{"acme", kAcmeSecret}, {"default", ""}};
  store.kept.cluster = {.store = 5, .version = 7, .settings = {{"acme", {.name = "acme"}}}};
  AgentRig rig({.tenants = &store});
  EXPECT_EQ(rig.agent->tenants().cluster_stamp(), store.kept.cluster.Stamp());
  rig.agent->tenants().TakeCluster({.store = 6, .version = 40});
  rig.agent->tenants().TakeCluster({.store = 5, .version = 6});
  EXPECT_EQ(rig.agent->tenants().cluster(), store.kept.cluster);
}

TEST(KeptTenantsTest, SettingsThatCannotBeReadAreNotReplacedAndDeleteNothing) {
  FakeTenantStore store;
  store.secrets = {{"acme", kAcmeSecret}, {"default", ""}};
  store.unread = absl::UnavailableError("input/output error");
  AgentRig rig({.tenants = &store});
  EXPECT_EQ(rig.agent->tenants().settings_failure(), "input/output error");
  TenantChange change{.name = "acme",
                      .values = {{.tier = Tier::kHost, .field = ShareField::kWeight, .value = 2}}};
  EXPECT_TRUE(absl::IsUnavailable(rig.Run(rig.agent->tenants().Set(change, std::nullopt))));
  EXPECT_EQ(store.saves, 0);
  EXPECT_EQ(rig.Put(rig.session, 0, 4), 4);
}

TEST(KeptTenantsTest, SettingsThatWereSetAsideMakeRoomForNewOnes) {
  FakeTenantStore store;
  store.secrets = {{"acme", kAcmeSecret}, {"default", ""}};
  store.unread = absl::DataLossError("damaged; the file was renamed to tenant_settings.set_aside");
  AgentRig rig({.tenants = &store});
  EXPECT_THAT(rig.agent->tenants().settings_failure(), HasSubstr("set_aside"));
  TenantChange change{.name = "acme",
                      .values = {{.tier = Tier::kHost, .field = ShareField::kWeight, .value = 2}}};
  EXPECT_EQ(rig.Run(rig.agent->tenants().Set(change, std::nullopt)), absl::OkStatus());
  EXPECT_EQ(store.saves, 1);
}

}  // namespace
}  // namespace kvtier

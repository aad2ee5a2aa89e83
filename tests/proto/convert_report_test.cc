// Tests reports and Locate on the wire: round trips, refusals, limits.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtier/v1/tenants.pb.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"
#include "proto/rpc_door.h"

namespace kvtier::convert {
namespace {

using ::testing::HasSubstr;

constexpr char kBuild[] = "kvtier-test 1";

void ExpectRefused(const absl::Status& status, const std::vector<std::string>& texts,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& text : texts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

Report FullReport() {
  return {.node = *NodeId::FromString("node-1"),
          .node_epoch = {std::numeric_limits<uint64_t>::max()},
          .coordinator_epoch = {7},
          .address = "10.0.0.1:7301",
          .first_sequence = 100,
          .deltas = {{.kind = Delta::Kind::kAdd, .tier = Tier::kHost, .name = {1, 2}},
                     {.kind = Delta::Kind::kRemove, .tier = Tier::kDisk, .name = {3, 4}}},
          .snapshot_begin = true,
          .snapshot_end = true,
          .tiers = {{.tier = Tier::kDisk, .capacity_bytes = 3, .used_bytes = 2, .blocks = 1},
                    {.tier = Tier::kGpu, .capacity_bytes = 9, .used_bytes = 8, .blocks = 7}}};
}

TEST(ReportOnTheWire, GoesThereAndBack) {
  const Report report = FullReport();
  const auto parsed = ReportFrom(ToWire(report, kBuild));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->node, report.node);
  EXPECT_EQ(parsed->node_epoch, report.node_epoch);
  EXPECT_EQ(parsed->coordinator_epoch, report.coordinator_epoch);
  EXPECT_EQ(parsed->address, report.address);
  EXPECT_EQ(parsed->first_sequence, report.first_sequence);
  EXPECT_EQ(parsed->deltas, report.deltas);
  EXPECT_TRUE(parsed->snapshot_begin && parsed->snapshot_end);
  ASSERT_EQ(parsed->tiers.size(), 2);
  EXPECT_EQ(parsed->tiers[1].tier, Tier::kGpu);
  EXPECT_EQ(parsed->tiers[0].capacity_bytes, 3);
  EXPECT_EQ(parsed->tiers[0].used_bytes, 2);
  EXPECT_EQ(parsed->tiers[0].blocks, 1);
}

TEST(ReportOnTheWire, RefusesAnotherProtocolFirst) {
  v1::ReportRequest wire;  // The rest of the message is invalid, too.
  wire.mutable_version()->set_min_version(2);
  wire.mutable_version()->set_version(2);
  ExpectRefused(ReportFrom(wire).status(), {"2 to 2", "1 to 1"},
                absl::StatusCode::kFailedPrecondition);
}

TEST(ReportOnTheWire, RefusesAndNamesEachField) {
  const v1::ReportRequest good = ToWire(FullReport(), kBuild);
  v1::ReportRequest wire = good;
  wire.set_node_id("not a name");
  ExpectRefused(ReportFrom(wire).status(), {"node_id", "not a name"});
  wire = good;
  wire.set_node_epoch(0);
  ExpectRefused(ReportFrom(wire).status(), {"node_epoch is 0"});
  wire = good;
  wire.set_address("nowhere");
  ExpectRefused(ReportFrom(wire).status(), {"address", "nowhere"});
  wire = good;
  wire.mutable_deltas(1)->set_kind(v1::BlockDelta::KIND_UNSPECIFIED);
  ExpectRefused(ReportFrom(wire).status(), {"deltas[1].kind is 0"});
  wire = good;
  wire.mutable_deltas(0)->set_tier(v1::TIER_GPU);
  ExpectRefused(ReportFrom(wire).status(), {"deltas[0].tier is 1"});
  wire = good;
  wire.mutable_deltas(1)->set_peer_name("short");
  ExpectRefused(ReportFrom(wire).status(), {"deltas[1].peer_name", "5 bytes"});
  wire = good;
  wire.mutable_tiers(1)->set_tier(v1::TIER_DISK);
  ExpectRefused(ReportFrom(wire).status(), {"tiers[1].tier is 3 a second time"});
  wire = good;
  wire.mutable_tiers(0)->set_tier(v1::TIER_UNSPECIFIED);
  ExpectRefused(ReportFrom(wire).status(), {"tiers[0].tier is 0"});
}

TEST(ReportOnTheWire, NumbersMustFitInSixtyFourBits) {
  v1::ReportRequest wire = ToWire(FullReport(), kBuild);
  wire.set_first_sequence(std::numeric_limits<uint64_t>::max() - 2);
  EXPECT_TRUE(ReportFrom(wire).ok());
  wire.set_first_sequence(std::numeric_limits<uint64_t>::max() - 1);
  ExpectRefused(ReportFrom(wire).status(), {"first_sequence is 18446744073709551614"});
}

TEST(ReportOnTheWire, RefusesMoreDeltasThanTheLimit) {
  Report report = FullReport();
  report.deltas.assign(kMaxDeltasPerReport, report.deltas[0]);
  v1::ReportRequest wire = ToWire(report, kBuild);
  EXPECT_TRUE(ReportFrom(wire).ok());
  EXPECT_LT(wire.ByteSizeLong(), size_t{kMaxMessageBytes});
  *wire.add_deltas() = ToWire(report.deltas[0]);
  ExpectRefused(ReportFrom(wire).status(), {"deltas", "16385", "16384"});
}

TEST(ReplyOnTheWire, GoesThereAndBack) {
  const auto parsed = ReportReplyFrom(
      ToWire(ReportReply{.coordinator_epoch = {9}, .next_sequence = 11, .resync = true}, kBuild));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->coordinator_epoch, Epoch{9});
  EXPECT_EQ(parsed->next_sequence, 11);
  EXPECT_TRUE(parsed->resync);
}

TEST(ReplyOnTheWire, RefusesNoEpochAndAnotherProtocol) {
  ExpectRefused(ReportReplyFrom(ToWire(ReportReply{}, kBuild)).status(), {"coordinator_epoch"});
  ExpectRefused(ReportReplyFrom(v1::ReportResponse()).status(), {"version"},
                absl::StatusCode::kFailedPrecondition);
}

TenantSettings Acme() {
  TenantSettings acme{.name = "acme"};
  acme.Of(Tier::kHost, ShareField::kGuaranteed) = UINT64_MAX;
  acme.Of(Tier::kGpu, ShareField::kWeight) = 1000;
  acme.members = {{"beta", GroupAccess::kRead}, {"zeta", GroupAccess::kWrite}};
  return acme;
}

TEST(ReplyOnTheWire, BringsTheClustersTenants) {
  ReportReply reply{.coordinator_epoch = {9}};
  EXPECT_FALSE(ReportReplyFrom(ToWire(reply, kBuild))->tenants.has_value());
  EXPECT_FALSE(ReportReplyFrom(ToWire(reply, kBuild))->tenants_differ);
  reply.tenants_differ = true;
  EXPECT_TRUE(ReportReplyFrom(ToWire(reply, kBuild))->tenants_differ);
  reply.tenants = ClusterTenants{
      .store = UINT64_MAX, .version = 7, .replaced = {1, 2}, .settings = {{"acme", Acme()}}};
  const auto parsed = ReportReplyFrom(ToWire(reply, kBuild));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_TRUE(parsed->tenants.has_value());
  EXPECT_EQ(*parsed->tenants, *reply.tenants);
}

TEST(ReportOnTheWire, SaysWhichSettingsTheNodeFollows) {
  Report report = FullReport();
  EXPECT_EQ(ReportFrom(ToWire(report, kBuild))->tenants, SettingsStamp());
  report.tenants = {.store = UINT64_MAX, .version = 7, .sum = 5};
  EXPECT_EQ(ReportFrom(ToWire(report, kBuild))->tenants, report.tenants);
}

// Returns a name of 63 characters, the longest that is allowed.
std::string LongName(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kMaxNodeIdBytes - digits.size(), 'n') + digits;
}

TEST(ReplyOnTheWire, TheLargestSettingsFitInAMessageAndInARequest) {
  ClusterTenants tenants{.store = UINT64_MAX, .version = kMaxSettingsVersion};
  for (uint64_t store = 1; store <= kMaxReplacedStores; ++store) tenants.replaced.insert(store);
  constexpr size_t kMembersOfEach = kMaxGroupMembers / kMaxTenantSettings;
  for (size_t i = 0; i < kMaxTenantSettings; ++i) {
    TenantSettings one{.name = LongName(i)};
    for (const Tier tier : kAllTiers) {
      one.Of(tier, ShareField::kGuaranteed) = UINT64_MAX;
      one.Of(tier, ShareField::kMaximum) = UINT64_MAX;
      one.Of(tier, ShareField::kWeight) = kMaxShareWeight;
    }
    for (size_t k = 0; k < kMembersOfEach; ++k) {
      one.members.emplace(LongName(kMaxTenantSettings + k), GroupAccess::kWrite);
    }
    tenants.settings.emplace(one.name, one);
  }
  v1::ImportTenantsRequest request;
  *request.mutable_tenants() = ToWire(tenants);
  EXPECT_LT(request.ByteSizeLong(), size_t{kMaxRequestBytes});
  EXPECT_EQ(ClusterTenantsFrom(request.tenants()).value(), tenants);
  request.mutable_tenants()->add_replaced(9999);
  ExpectRefused(ClusterTenantsFrom(request.tenants()).status(), {"tenants.replaced", "65", "64"});
}

TEST(TenantsOnTheWire, RefuseWhatCannotBe) {
  v1::ClusterTenants wire = ToWire(ClusterTenants{.version = 7, .settings = {{"acme", Acme()}}});
  *wire.add_tenants() = wire.tenants(0);
  ExpectRefused(ClusterTenantsFrom(wire).status(), {"tenants", "'acme'", "once"});
  wire.mutable_tenants()->RemoveLast();
  wire.set_version(0);
  ExpectRefused(ClusterTenantsFrom(wire).status(), {"tenants.version is 0"});
  wire.set_version(kMaxSettingsVersion + 1);
  ExpectRefused(ClusterTenantsFrom(wire).status(), {"tenants.version is 4611686018427387905"});
  wire.set_version(1);
  v1::ClusterTenants crowded = wire;
  for (size_t i = 0; i < kMaxGroupMembers; ++i) {
    v1::GroupMember* const member = crowded.mutable_tenants(0)->add_members();
    member->set_tenant("member-" + std::to_string(i));
    member->set_access(v1::GROUP_ACCESS_READ);
  }
  crowded.mutable_tenants(0)->mutable_members()->DeleteSubrange(0, 2);
  EXPECT_TRUE(ClusterTenantsFrom(crowded).ok());
  *crowded.add_tenants() = wire.tenants(0);
  crowded.mutable_tenants(1)->set_name("other");
  ExpectRefused(ClusterTenantsFrom(crowded).status(), {"members of all share groups", "8192"});
  while (static_cast<size_t>(wire.tenants_size()) <= kMaxTenantSettings) wire.add_tenants();
  ExpectRefused(ClusterTenantsFrom(wire).status(), {"tenants", "1025", "1024"});
}

TEST(TenantsOnTheWire, AChangeNamesTheFieldThatIsWrong) {
  const auto refused = [](auto change, std::vector<std::string> words) {
    v1::TenantSettings wire = ToWire(Acme());
    change(&wire);
    ExpectRefused(TenantChangeFrom(wire).status(), words);
  };
  refused([](auto* wire) { wire->set_name("-acme"); }, {"settings.name", "'-acme'"});
  refused([](auto* wire) { wire->set_name(std::string(64, 'a')); }, {"settings.name"});
  refused([](auto* wire) { wire->mutable_values(0)->set_tier(v1::TIER_UNSPECIFIED); },
          {"settings.values[0].tier"});
  refused([](auto* wire) { wire->mutable_values(1)->clear_field(); },
          {"settings.values[1].field is 0"});
  refused([](auto* wire) { wire->mutable_values(0)->set_value(0); },
          {"gpu_weight is 0", "1 to 1000"});
  refused([](auto* wire) { wire->mutable_members(0)->set_tenant("-"); },
          {"settings.members[0].tenant is '-'"});
  refused([](auto* wire) { wire->mutable_members(1)->set_access(static_cast<v1::GroupAccess>(3)); },
          {"settings.members[1].access is 3", "2 (write)"});
  refused(
      [](auto* wire) {
        while (static_cast<size_t>(wire->members_size()) <= kMaxGroupMembers) wire->add_members();
      },
      {"settings.members has 8193 entries", "8192"});
  refused(
      [](auto* wire) {
        while (wire->values_size() < 10) *wire->add_values() = wire->values(0);
      },
      {"settings.values has 10 entries", "9"});
}

TEST(TenantsOnTheWire, AValueThatIsAbsentIsTheDefault) {
  const TenantChange change{.name = "acme",
                            .values = {{.tier = Tier::kDisk, .field = ShareField::kMaximum}}};
  const auto parsed = TenantChangeFrom(ToWire(change));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->values.size(), 1);
  EXPECT_EQ(parsed->values[0].tier, Tier::kDisk);
  EXPECT_EQ(parsed->values[0].field, ShareField::kMaximum);
  EXPECT_EQ(parsed->values[0].value, std::nullopt);
}

TEST(TenantsOnTheWire, AMemberThatGoesIsOneWithoutAccess) {
  const TenantChange change{.name = "prompts",
                            .members = {{.tenant = "acme", .access = std::nullopt},
                                        {.tenant = "beta", .access = GroupAccess::kWrite}}};
  const auto parsed = TenantChangeFrom(ToWire(change));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->members.size(), 2);
  EXPECT_EQ(parsed->members[0].tenant, "acme");
  EXPECT_EQ(parsed->members[0].access, std::nullopt);
  EXPECT_EQ(parsed->members[1].access, GroupAccess::kWrite);
}

TEST(LocateQueryOnTheWire, GoesThereAndBackAndRefuses) {
  const LocateQuery query{.asker = *NodeId::FromString("node-1"), .names = {{1, 2}, {3, 4}}};
  v1::LocateRequest wire = ToWire(query, kBuild);
  const auto parsed = LocateQueryFrom(wire);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->asker, query.asker);
  EXPECT_EQ(parsed->names, query.names);
  wire.add_peer_names("short");
  ExpectRefused(LocateQueryFrom(wire).status(), {"peer_names[2]", "5 bytes"});
  wire.clear_version();
  ExpectRefused(LocateQueryFrom(wire).status(), {"version"}, absl::StatusCode::kFailedPrecondition);
}

TEST(LocateQueryOnTheWire, NamesTheAvoidedNodesToTheLimitAndNotOneMore) {
  LocateQuery query{.asker = *NodeId::FromString("node-1")};
  for (size_t i = 0; i < kMaxAvoidedNodes; ++i) {
    query.avoided.push_back(*NodeId::FromString(absl::StrCat("hung-", i)));
  }
  v1::LocateRequest wire = ToWire(query, kBuild);
  const auto parsed = LocateQueryFrom(wire);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->avoided, query.avoided);
  wire.set_avoided(1, "-no name");
  ExpectRefused(LocateQueryFrom(wire).status(), {"avoided[1]", "-no name"});
  wire.set_avoided(1, "hung-1");
  wire.add_avoided("one-more");
  ExpectRefused(LocateQueryFrom(wire).status(), {"avoided", "65", "64"});
}

class LocateReplyOnTheWire : public ::testing::Test {
 protected:
  LocateReplyOnTheWire() {
    const Holder a{.node = *NodeId::FromString("a"), .address = "a:1", .tier = Tier::kHost};
    const Holder b{.node = *NodeId::FromString("b"), .address = "b:1", .tier = Tier::kDisk};
    wire_ = ToWire(LocateReply{{a, b}, {b}});
  }
  v1::LocateResponse wire_;
};

TEST_F(LocateReplyOnTheWire, GoesThereAndBackNamingEachNodeOnce) {
  EXPECT_EQ(wire_.nodes_size(), 2);
  const auto parsed = LocateReplyFrom(wire_);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2);
  EXPECT_EQ((*parsed)[0][0].node.str(), "a");
  EXPECT_EQ((*parsed)[0][0].tier, Tier::kHost);
  EXPECT_EQ((*parsed)[0][1].node.str(), "b");
  EXPECT_EQ((*parsed)[1][0].address, "b:1");
  EXPECT_EQ((*parsed)[1][0].tier, Tier::kDisk);
}

TEST_F(LocateReplyOnTheWire, RefusesAndNamesEachField) {
  const v1::LocateResponse good = wire_;
  wire_.mutable_nodes(1)->set_node_id("");
  ExpectRefused(LocateReplyFrom(wire_).status(), {"nodes[1].node_id"});
  wire_ = good;
  wire_.mutable_nodes(0)->set_address("x");
  ExpectRefused(LocateReplyFrom(wire_).status(), {"nodes[0].address"});
  wire_ = good;
  wire_.mutable_blocks(0)->mutable_holders(1)->set_node(2);
  ExpectRefused(LocateReplyFrom(wire_).status(), {"blocks[0].holders[1].node is 2"});
  wire_ = good;
  wire_.mutable_blocks(1)->mutable_holders(0)->set_tier(v1::TIER_GPU);
  ExpectRefused(LocateReplyFrom(wire_).status(), {"blocks[1].holders[0].tier is 1"});
}

TEST_F(LocateReplyOnTheWire, AKeyThatNobodyHoldsHasAnEmptyList) {
  wire_.mutable_blocks(1)->clear_holders();
  const absl::StatusOr<LocateReply> reply = LocateReplyFrom(wire_);
  ASSERT_EQ(reply.status(), absl::OkStatus());
  EXPECT_TRUE((*reply)[1].empty());
  EXPECT_EQ(ToWire(*reply).blocks(1).holders_size(), 0);
}

TEST_F(LocateReplyOnTheWire, RefusesMoreThanEachLimit) {
  const v1::LocateResponse good = wire_;
  const auto fill = [](auto* repeated, size_t count) {
    while (static_cast<size_t>(repeated->size()) < count) *repeated->Add() = repeated->Get(0);
  };
  fill(wire_.mutable_blocks(0)->mutable_holders(), kMaxHoldersPerBlock);
  fill(wire_.mutable_nodes(), kMaxNodesPerReply);
  fill(wire_.mutable_blocks(), kMaxKeysPerRequest);
  EXPECT_TRUE(LocateReplyFrom(wire_).ok());
  EXPECT_LT(wire_.ByteSizeLong(), size_t{kMaxMessageBytes});
  *wire_.mutable_blocks(0)->add_holders() = good.blocks(0).holders(0);
  ExpectRefused(LocateReplyFrom(wire_).status(), {"blocks[0].holders", "9", "8"});
  *wire_.add_blocks() = good.blocks(0);
  ExpectRefused(LocateReplyFrom(wire_).status(), {"blocks", "8193", "8192"});
  *wire_.add_nodes() = good.nodes(0);
  ExpectRefused(LocateReplyFrom(wire_).status(), {"nodes", "4097", "4096"});
}

}  // namespace
}  // namespace kvtier::convert

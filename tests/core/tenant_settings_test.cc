#include "core/tenant_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvtier {
namespace {

using ::testing::HasSubstr;

TenantSettings Guaranteed(const std::string& name, std::optional<uint64_t> bytes) {
  TenantSettings settings{.name = name};
  settings.Of(Tier::kHost, ShareField::kGuaranteed) = bytes;
  return settings;
}

std::string RefusalOf(absl::string_view line) {
  return std::string(ParseTenantSettings(line).status().message());
}

TEST(TenantSettingsTest, ErrorsNameTheFieldAndTheValue) {
  EXPECT_EQ(RefusalOf("acme host_guaranteed=2KiB host_maximum=1KiB"),
            "line 1: tenant 'acme', host_guaranteed: 2048; must be at most host_maximum, which is "
            "1024");
  EXPECT_EQ(RefusalOf("\nacme disk_weight=1001"),
            "line 2: tenant 'acme', disk_weight: 1001; must be 1 to 1000");
  EXPECT_EQ(RefusalOf("acme gpu_weight=0"),
            "line 1: tenant 'acme', gpu_weight: 0; must be 1 to 1000");
  EXPECT_THAT(RefusalOf("-acme gpu_weight=1"), HasSubstr("tenant name '-acme'"));
  EXPECT_THAT(RefusalOf("acme host_size=1"), HasSubstr("'host_size=1' is no setting"));
  EXPECT_THAT(RefusalOf("acme host_maximum=much"), HasSubstr("'much' is no size"));
  EXPECT_THAT(RefusalOf("acme host_weight=-1"), HasSubstr("'-1' is no weight"));
  EXPECT_THAT(RefusalOf("acme\nacme"), HasSubstr("line 2: tenant 'acme' comes twice"));
}

TEST(TenantSettingsTest, MembersAreReadAndErrorsNameThem) {
  const auto read = ParseTenantSettings("prompts members=acme:write,beta:read host_weight=2");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at("prompts").members,
            (GroupMembers{{"acme", GroupAccess::kWrite}, {"beta", GroupAccess::kRead}}));
  EXPECT_FALSE(read->at("prompts").IsDefault());
  EXPECT_EQ(RefusalOf("prompts members=acme"),
            "line 1: members: 'acme' is no member; must be TENANT:read or TENANT:write");
  EXPECT_EQ(RefusalOf("prompts members=acme:own"),
            "line 1: members: 'acme:own' is no member; must be TENANT:read or TENANT:write");
  EXPECT_EQ(RefusalOf("prompts members=acme:read,acme:write"),
            "line 1: members: 'acme' comes twice; must be named once");
  EXPECT_EQ(RefusalOf("prompts members=prompts:read"),
            "line 1: tenant 'prompts', members: 'prompts' is the share group itself; name other "
            "tenants");
  EXPECT_THAT(RefusalOf("prompts members=-:read"), HasSubstr("members: '-'; must be 1 to 63 of"));
}

TEST(TenantSettingsTest, AChangeAddsAndRemovesTheMembersThatItNames) {
  const TenantSettings before{.name = "prompts",
                              .members = {{"acme", GroupAccess::kRead},
                                          {"beta", GroupAccess::kRead},
                                          {"zeta", GroupAccess::kWrite}}};
  const TenantChange change{.name = "prompts",
                            .members = {{.tenant = "acme", .access = GroupAccess::kWrite},
                                        {.tenant = "beta", .access = std::nullopt},
                                        {.tenant = "nobody", .access = std::nullopt},
                                        {.tenant = "new", .access = GroupAccess::kRead}}};
  EXPECT_FALSE(change.IsEmpty());
  const auto after = change.In(before);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->members, (GroupMembers{{"acme", GroupAccess::kWrite},
                                          {"new", GroupAccess::kRead},
                                          {"zeta", GroupAccess::kWrite}}));
  EXPECT_TRUE(absl::IsInvalidArgument(
      TenantChange{.name = "prompts", .members = {{"prompts", GroupAccess::kRead}}}
          .In({})
          .status()));
}

TEST(TenantSettingsTest, AllGroupsTogetherHaveKMaxGroupMembersAndNotOneMore) {
  TenantSettingsMap settings;
  for (const char* const group : {"a", "b"}) {
    TenantSettings& one = settings[group];
    one.name = group;
    for (size_t i = 0; i < kMaxGroupMembers / 2; ++i) {
      one.members.emplace("member-" + std::to_string(i), GroupAccess::kRead);
    }
  }
  EXPECT_EQ(CheckMayKeep(settings, "b"), absl::OkStatus());
  settings["b"].members.emplace("one-more", GroupAccess::kRead);
  EXPECT_EQ(CheckMayKeep(settings, "b"),
            absl::ResourceExhaustedError("tenant 'b': all share groups would have 8193 members; "
                                         "must be at most 8192 together"));
  SummedWriter out;
  PutTenantSettings(settings, &out);
  const std::string bytes = std::move(out).End();
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  EXPECT_EQ(TakeTenantSettings(kTenantSettingsForm, &*in), std::nullopt);
}

TEST(TenantSettingsTest, AFileOfThemIsRead) {
  const auto read = ParseTenantSettings(
      "# shares\n\nacme host_guaranteed=10GiB  host_weight=3 # the largest\r\nzeta "
      "disk_maximum=default\n");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2);
  EXPECT_EQ(read->at("acme").Of(Tier::kHost, ShareField::kGuaranteed), uint64_t{10} << 30);
  EXPECT_EQ(read->at("acme").Of(Tier::kHost, ShareField::kWeight), 3);
  EXPECT_TRUE(read->at("zeta").IsDefault());
}

TEST(TenantSettingsTest, AChangeLeavesWhatItDoesNotName) {
  TenantSettings before = Guaranteed("acme", 10);
  before.Of(Tier::kDisk, ShareField::kWeight) = 7;
  const TenantChange change{
      .name = "acme",
      .values = {{.tier = Tier::kHost, .field = ShareField::kGuaranteed, .value = std::nullopt},
                 {.tier = Tier::kHost, .field = ShareField::kMaximum, .value = 20}}};
  const auto after = change.In(before);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->Of(Tier::kHost, ShareField::kGuaranteed), std::nullopt);
  EXPECT_EQ(after->Of(Tier::kHost, ShareField::kMaximum), 20);
  EXPECT_EQ(after->Of(Tier::kDisk, ShareField::kWeight), 7);
}

TEST(TenantSettingsTest, DefaultsAreEqualPartsOfWhatNamedGuaranteesLeave) {
  TenantSettings capped{.name = "capped"};
  capped.Of(Tier::kHost, ShareField::kMaximum) = 5;
  const std::vector<TenantSettings> settings = {Guaranteed("named", 40), {.name = "one"}, capped};
  const std::vector<TierShare> shares = SharesOf(Tier::kHost, 100, settings);
  EXPECT_EQ(shares[0].guaranteed, 40);
  EXPECT_EQ(shares[1].guaranteed, 30);
  EXPECT_EQ(shares[2], (TierShare{.guaranteed = 5, .maximum = 5}));
}

TEST(TenantSettingsTest, GuaranteesThatDoNotFitAreCutInProportion) {
  const uint64_t huge = UINT64_MAX - 1;
  const std::vector<TenantSettings> settings = {
      Guaranteed("a", huge), Guaranteed("b", huge), {.name = "c"}};
  const std::vector<TierShare> shares = SharesOf(Tier::kHost, 100, settings);
  EXPECT_EQ(shares[0].guaranteed, 50);
  EXPECT_EQ(shares[1].guaranteed, 50);
  EXPECT_EQ(shares[2].guaranteed, 0);
}

TEST(TenantSettingsTest, ACheckSaysWhatDoesNotFit) {
  const std::vector<TenantSettings> others = {Guaranteed("a", 60), Guaranteed("b", UINT64_MAX)};
  const std::span<const TenantSettings> one = std::span(others).first(1);
  EXPECT_EQ(CheckGuaranteesFit(Tier::kHost, 100, Guaranteed("c", 40), one), absl::OkStatus());
  EXPECT_EQ(CheckGuaranteesFit(Tier::kHost, 100, Guaranteed("c", 41), one),
            absl::InvalidArgumentError("tenant 'c', host_guaranteed: 41; with it the guarantees of "
                                       "all tenants would be 101 bytes, and the tier has 100"));
  EXPECT_FALSE(CheckGuaranteesFit(Tier::kHost, 100, Guaranteed("c", 1), others).ok());
  EXPECT_TRUE(CheckGuaranteesFit(Tier::kHost, 100, {.name = "c"}, others).ok())
      << "who names none is not in the way";
}

TEST(TenantSettingsTest, WhatIsPutIsTakenAndWhatContradictsItselfIsNot) {
  TenantSettings prompts{.name = "prompts"};
  prompts.members = {{"acme", GroupAccess::kWrite}, {"b", GroupAccess::kRead}};
  const TenantSettingsMap settings = {
      {"acme", Guaranteed("acme", 7)}, {"b", {.name = "b"}}, {"prompts", prompts}};
  SummedWriter out;
  PutTenantSettings(settings, &out);
  const std::string bytes = std::move(out).End();
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  ASSERT_TRUE(in.has_value());
  EXPECT_EQ(TakeTenantSettings(kTenantSettingsForm, &*in), settings);
  EXPECT_TRUE(in->at_end());
  for (const uint32_t count : {uint32_t{1}, uint32_t{UINT32_MAX}}) {
    SummedWriter lying;
    lying.Put(count);
    const std::string cut = std::move(lying).End();
    std::optional<SummedReader> reader = SummedReader::Open(cut);
    EXPECT_EQ(TakeTenantSettings(kTenantSettingsForm, &*reader), std::nullopt);
  }
}

// A node that is upgraded still reads the settings that it stored in the first form.
TEST(TenantSettingsTest, TheFirstFormHadNoMembers) {
  SummedWriter out;
  out.Put(uint32_t{1});
  out.Put(uint8_t{4});
  out.PutBytes("acme");
  for (size_t i = 0; i < kTierCount * kAllShareFields.size(); ++i) {
    out.Put(uint8_t{0});
    out.Put(uint64_t{0});
  }
  const std::string bytes = std::move(out).End();
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  EXPECT_EQ(TakeTenantSettings(kMinTenantSettingsForm, &*in),
            (TenantSettingsMap{{"acme", {.name = "acme"}}}));
  EXPECT_TRUE(in->at_end());
  in = SummedReader::Open(bytes);
  EXPECT_EQ(TakeTenantSettings(kTenantSettingsForm, &*in), std::nullopt);
}

}  // namespace
}  // namespace kvtier

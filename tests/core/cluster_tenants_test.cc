#include "core/cluster_tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kA = 0xa0;
constexpr uint64_t kB = 0xb0;

TenantSettings Weighted(const std::string& name, uint64_t weight) {
  TenantSettings settings{.name = name};
  settings.Of(Tier::kHost, ShareField::kWeight) = weight;
  return settings;
}

ClusterTenants Version(uint64_t store, uint64_t version, uint64_t weight = 3) {
  return {.store = store, .version = version, .settings = {{"acme", Weighted("acme", weight)}}};
}

ClusterTenants Full() {
  ClusterTenants tenants = Version(kA, 7);
  tenants.replaced = {kB, UINT64_MAX};
  TenantSettings prompts{.name = "prompts",
                         .members = {{"acme", GroupAccess::kWrite}, {"beta", GroupAccess::kRead}}};
  prompts.Of(Tier::kDisk, ShareField::kMaximum) = UINT64_MAX;
  prompts.Of(Tier::kGpu, ShareField::kGuaranteed) = 0;
  tenants.settings.emplace("prompts", prompts);
  tenants.settings.emplace("ghost", TenantSettings{.name = "ghost"});
  return tenants;
}

bool Takes(const SettingsStamp& followed, const ClusterTenants& offered) {
  return kvtier::Takes(followed, offered.Stamp(), offered.replaced);
}

TEST(ClusterTenantsTest, ANodeFollowsLaterSettingsOfItsStoreAndNoOlderOnes) {
  const SettingsStamp followed = Version(kA, 7).Stamp();
  EXPECT_TRUE(Takes(followed, Version(kA, 8)));
  EXPECT_FALSE(Takes(followed, Version(kA, 7))) << "the same";
  EXPECT_TRUE(Takes(followed, Version(kA, 7, 9))) << "changed after an import of version 6";
  EXPECT_FALSE(Takes(followed, Version(kA, 6)));
  EXPECT_FALSE(Takes(followed, Version(kA, 6, 9)));
}

TEST(ClusterTenantsTest, ANodeStaysWithItsStoreUnlessAnotherOneReplacesIt) {
  const SettingsStamp followed = Version(kA, 7).Stamp();
  ClusterTenants other = Version(kB, 1000);
  EXPECT_FALSE(Takes(followed, other));
  other.replaced = {0xc0};
  EXPECT_FALSE(Takes(followed, other));
  other.replaced.insert(kA);
  EXPECT_TRUE(Takes(followed, other));
  other.version = 1;
  EXPECT_TRUE(Takes(followed, other)) << "versions of two stores say nothing of each other";
}

TEST(ClusterTenantsTest, ANodeWithoutSettingsFollowsAnyAndNobodyFollowsUnknownOnes) {
  EXPECT_TRUE(Takes({}, Version(kA, 1)));
  EXPECT_FALSE(Takes({}, ClusterTenants()));
  EXPECT_FALSE(Takes(Version(kA, 7).Stamp(), ClusterTenants()));
  EXPECT_FALSE(Takes({}, Version(0, 9)));
}

TEST(ClusterTenantsTest, SettingsOfABuildWithoutStoresGiveWayToNoOlderOnes) {
  const SettingsStamp followed = Version(0, 7).Stamp();
  EXPECT_FALSE(Takes(followed, Version(kA, 6)));
  EXPECT_TRUE(Takes(followed, Version(kA, 7)));
  EXPECT_TRUE(Takes(followed, Version(kB, 8)));
}

TEST(ClusterTenantsTest, WhatIsPutIntoAFileIsTakenOutAgain) {
  SummedWriter out;
  PutClusterTenants(Full(), &out);
  const std::string bytes = std::move(out).End();
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  ASSERT_TRUE(in.has_value());
  EXPECT_EQ(TakeClusterTenants(&*in), Full());
  EXPECT_TRUE(in->at_end());
}

TEST(ClusterTenantsTest, WhatIsExportedIsReadAgain) {
  for (const ClusterTenants& tenants :
       {Full(), Version(0, 1), ClusterTenants{.store = kA, .version = kMaxSettingsVersion}}) {
    const std::string text = ExportText(tenants);
    const auto read = ParseExport(text);
    ASSERT_TRUE(read.ok()) << read.status() << text;
    EXPECT_EQ(*read, tenants);
  }
  EXPECT_THAT(ExportText(Full()), HasSubstr("\nacme host_weight=3\n"));
}

TEST(ClusterTenantsTest, AnExportThatWasCutOffOrChangedIsRefused) {
  const std::string text = ExportText(Full());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ParseExport(text.substr(0, length)).ok()) << length;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    // Hexadecimal digits have two cases; the bit of 1 changes no case.
    EXPECT_FALSE(ParseExport(changed).ok()) << i;
  }
  EXPECT_FALSE(ParseExport(text + text).ok());
  EXPECT_THAT(
      std::string(
          ParseExport(absl::StrReplaceAll(text, {{"weight=3", "weight=4"}})).status().message()),
      HasSubstr("changed"));
  EXPECT_THAT(std::string(ParseExport("acme host_weight=3\n").status().message()),
              HasSubstr("line 1 is 'acme host_weight=3'"));
}

TEST(ClusterTenantsTest, AVersionBeyondTheLimitIsNoExport) {
  EXPECT_FALSE(ParseExport(ExportText(Version(kA, kMaxSettingsVersion + 1))).ok());
  EXPECT_FALSE(ParseExport(ExportText(Version(kA, 0))).ok());
}

TEST(ClusterTenantsTest, AStoreReplacesSoManyOthersAndNoMore) {
  ClusterTenants tenants = Version(kA, 1);
  for (uint64_t store = 1; tenants.replaced.size() < kMaxReplacedStores; ++store) {
    ASSERT_TRUE(CheckMayReplace(tenants.replaced).ok());
    tenants.replaced.insert(store);
  }
  EXPECT_TRUE(ParseExport(ExportText(tenants)).ok());
  EXPECT_THAT(std::string(CheckMayReplace(tenants.replaced).message()), HasSubstr("64"));
  tenants.replaced.insert(kMaxReplacedStores + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ParseExport(ExportText(tenants)).status()));
}

TEST(ClusterTenantsTest, AnIdIsSixteenDigits) {
  EXPECT_EQ(ParseStoreId(StoreIdText(kA)).value(), kA);
  EXPECT_EQ(StoreIdText(kA), "00000000000000a0");
  EXPECT_NE(DrawStoreId(), DrawStoreId());
  for (const char* const text : {"", "a0", "0000000000000000", "00000000000000g0",
                                 "00000000000000a00", "0x000000000000a0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseStoreId(text).status())) << text;
  }
}

}  // namespace
}  // namespace kvtier

// Tests the parts of the tiers that tenants have, as `kvtier status` and `kvtier tenants` show
// them: the sign of a part that is nearly full, and who takes whose memory.
#include "cli/tenant_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "cli/tier_parts.h"
#include "tests/cli/tenant_reports.h"

namespace kvtier::cli {
namespace {

using testing::AddTenant;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

void SetTier(v1::Tier tier, uint64_t gib, v1::ListTenantsResponse* response) {
  v1::TierUsage* const usage = response->add_tiers();
  usage->set_tier(tier);
  usage->set_capacity_bytes(gib * kGiB);
}

void Take(const std::string& tenant, uint64_t blocks, v1::TenantReport* from) {
  v1::TenantTaken* const taken = from->mutable_host()->add_taken();
  taken->set_tenant(tenant);
  taken->set_blocks(blocks);
}

// Returns an answer in which "a" uses 24 GiB of a guarantee of 10 GiB, and 46 of the 50 evictions
// of "b" were for it.
v1::ListTenantsResponse ThreeTenants() {
  v1::ListTenantsResponse response;
  AddTenant("b", 3, 10, &response)->mutable_host()->set_evictions(50);
  Take("b", 46, AddTenant("a", 24, 10, &response));
  AddTenant("c", 9, 10, &response);
  response.add_tenants()->set_name("known-by-settings");
  return response;
}

v1::ListTenantsResponse OneTenantOfAllTiers() {
  v1::ListTenantsResponse response;
  v1::TenantReport* const tenant = AddTenant("a", 9, 10, &response);
  tenant->mutable_disk()->set_used_bytes(60 * kGiB);
  tenant->mutable_disk()->set_guaranteed_bytes(50 * kGiB);
  tenant->mutable_disk()->set_maximum_bytes(UINT64_MAX);
  tenant->mutable_gpu()->set_capacity_bytes(8 * kGiB);
  tenant->mutable_gpu()->set_used_bytes(8 * kGiB);
  tenant->mutable_gpu()->set_guaranteed_bytes(8 * kGiB);
  tenant->mutable_gpu()->set_maximum_bytes(UINT64_MAX);
  SetTier(v1::TIER_GPU, 8, &response);
  SetTier(v1::TIER_HOST, 10, &response);
  SetTier(v1::TIER_DISK, 100, &response);
  return response;
}

TEST(OccupancyLines, HaveTheTenantsThatUseMostFirstTheirSignAndWhoTookOfWhom) {
  EXPECT_EQ(OccupancyLines(ThreeTenants()),
            "  TENANT  TIER       HAS      USED  GUARANTEED       FULL\n"
            "  a       host  25.0 GiB  24.0 GiB    10.0 GiB  240.0 % !\n"
            "  c       host  10.0 GiB  9.00 GiB    10.0 GiB   90.0 % !\n"
            "  b       host  4.00 GiB  3.00 GiB    10.0 GiB     30.0 %\n"
            "  tenant a: 25.0 GiB of host memory, 2.5x its guarantee, 92.0 % of evictions of "
            "tenant b\n");
}

TEST(OccupancyLines, HaveEachTierOfALoneTenant) {
  EXPECT_EQ(OccupancyLines(OneTenantOfAllTiers()),
            "  TENANT  TIER       HAS      USED  GUARANTEED       FULL\n"
            "  a       gpu   8.00 GiB  8.00 GiB    8.00 GiB  100.0 % !\n"
            "  a       host  10.0 GiB  9.00 GiB    10.0 GiB   90.0 % !\n"
            "  a       disk  60.0 GiB  60.0 GiB    50.0 GiB     60.0 %\n");
  EXPECT_EQ(OccupancyLines(v1::ListTenantsResponse()), "");
}

TEST(OccupancyLines, AreFew) {
  v1::ListTenantsResponse many;
  for (size_t i = 0; i < kMaxOccupancyTenants + 2; ++i) {
    AddTenant(absl::StrCat("t", i), 1, 10, &many);
  }
  EXPECT_THAT(OccupancyLines(many), EndsWith("  and 2 more: kvtier tenants\n"));
}

TEST(TierPart, OfALoneTenantIsFullAtItsMaximumOrWithTheTier) {
  v1::ListTenantsResponse response = OneTenantOfAllTiers();
  v1::TenantReport* const tenant = response.mutable_tenants(0);
  EXPECT_EQ(DiskPart(response, *tenant).whole, 100 * kGiB);
  EXPECT_FALSE(DiskPart(response, *tenant).is_nearly_full());
  tenant->mutable_disk()->set_maximum_bytes(66 * kGiB);
  EXPECT_EQ(DiskPart(response, *tenant).whole, 66 * kGiB);
  EXPECT_TRUE(DiskPart(response, *tenant).is_nearly_full());
}

TEST(TierPart, OfSeveralTenantsIsFullAtTheGuaranteeIfThereIsOne) {
  v1::ListTenantsResponse response = OneTenantOfAllTiers();
  v1::TenantReport* const other = AddTenant("b", 1, 0, &response);
  other->mutable_disk()->set_used_bytes(45 * kGiB);
  other->mutable_disk()->set_guaranteed_bytes(50 * kGiB);
  other->mutable_disk()->set_maximum_bytes(UINT64_MAX);
  EXPECT_EQ(DiskPart(response, *other).whole, 50 * kGiB);
  EXPECT_TRUE(DiskPart(response, *other).is_nearly_full());
  EXPECT_EQ(HostPart(response, *other).whole, 10 * kGiB) << "the tier";
  EXPECT_EQ(GpuPart(response, response.tenants(0)).whole, 8 * kGiB) << "only one has a pool";
}

TEST(TierPart, LendsWhatItHasNotAndBorrowsWhatItHasBeyond) {
  const v1::ListTenantsResponse response = OneTenantOfAllTiers();
  const v1::TenantReport& tenant = response.tenants(0);
  EXPECT_EQ(DiskPart(response, tenant).borrowed(), 10 * kGiB);
  EXPECT_EQ(DiskPart(response, tenant).lent(), 0u);
  EXPECT_EQ((TierPart{.has = 3, .guaranteed = 10}.lent()), 7u);
  EXPECT_EQ((TierPart{.has = 3, .guaranteed = 10}.borrowed()), 0u);
}

// A node that had just started said of each tenant "1.0x its guarantee".
TEST(TakenLines, SayNothingOfATenantThatUsesNoMoreThanItsGuarantee) {
  v1::ListTenantsResponse response = ThreeTenants();
  v1::TenantReport* const a = response.mutable_tenants(1);
  a->set_host_used_bytes(0);
  EXPECT_EQ(TakenLines(response), "") << "it has more than it is guaranteed, and uses nothing";
  a->set_host_used_bytes(10 * kGiB);
  EXPECT_EQ(TakenLines(response), "") << "what it took was its own";
}

TEST(TakenLines, SayNothingWhereNobodyLosesAnything) {
  v1::ListTenantsResponse response = ThreeTenants();
  response.mutable_tenants(1)->mutable_host()->clear_taken();
  EXPECT_EQ(TakenLines(response), "") << "what it borrows nobody wants";
}

TEST(TakenLines, NameATenantThatLacksSomeOfItsGuarantee) {
  v1::ListTenantsResponse response = ThreeTenants();
  response.mutable_tenants(1)->mutable_host()->clear_taken();
  response.mutable_tenants(0)->mutable_host()->set_fair_bytes(7 * kGiB);
  EXPECT_EQ(
      TakenLines(response),
      "  tenant a: 25.0 GiB of host memory, 2.5x its guarantee, while tenant b lacks 3.00 GiB "
      "of its guarantee\n");
}

// The line had "- of evictions of tenant b" when b had been dropped.
TEST(TakenLines, SayNothingOfATenantThatIsGone) {
  v1::ListTenantsResponse response = ThreeTenants();
  response.mutable_tenants()->DeleteSubrange(0, 1);
  EXPECT_EQ(TakenLines(response), "");
}

TEST(TakenLines, OfATenantWithoutAGuaranteeHaveNoFactor) {
  v1::ListTenantsResponse response = ThreeTenants();
  response.mutable_tenants(1)->mutable_host()->set_guaranteed_bytes(0);
  EXPECT_THAT(TakenLines(response), HasSubstr("tenant a: 25.0 GiB of host memory, 92.0 % of evic"));
}

}  // namespace
}  // namespace kvtier::cli

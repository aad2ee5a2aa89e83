#include "agent/tenant_shares.h"

#include <cstdio>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr DomainId kOne{0};
constexpr DomainId kOther{1};

// Takes until no more may be taken; returns how many.
size_t TakeAll(TenantShares* shares, DomainId domain) {
  size_t taken = 0;
  for (; shares->MayTake(domain); ++taken) shares->Take(domain);
  shares->Audit();
  return taken;
}

TEST(TenantSharesTest, ALoneTenantMayTakeAll) {
  TenantShares shares(10, 1);
  EXPECT_EQ(TakeAll(&shares, kOne), 10u);
  EXPECT_EQ(shares.Refusal("leases", kOne),
            absl::ResourceExhaustedError("leases: all 10 of the node are in use"));
  shares.GiveBack(kOne);
  EXPECT_EQ(TakeAll(&shares, kOne), 1u);
}

TEST(TenantSharesTest, WhoeverComesFirstLeavesTheOthersTheirGuarantees) {
  TenantShares shares(100, 5);
  EXPECT_EQ(shares.guarantee(), 10u);
  EXPECT_EQ(TakeAll(&shares, kOne), 60u);
  EXPECT_EQ(shares.Refusal("leases", kOne),
            absl::ResourceExhaustedError("leases: the tenant has 60 of the node's 100, and 40 are "
                                         "kept for other tenants"));
  for (uint32_t other = 1; other < 5; ++other) EXPECT_EQ(TakeAll(&shares, DomainId{other}), 10u);
  EXPECT_EQ(shares.taken(), 100u);
}

TEST(TenantSharesTest, WhatIsGivenBackGoesToGuaranteesFirst) {
  TenantShares shares(8, 2);
  EXPECT_EQ(TakeAll(&shares, kOne), 6u);
  EXPECT_EQ(TakeAll(&shares, kOther), 2u);
  shares.GiveBack(kOther);
  EXPECT_FALSE(shares.MayTake(kOne)) << "it is the other's";
  EXPECT_TRUE(shares.MayTake(kOther));
  shares.GiveBack(kOne);
  EXPECT_TRUE(shares.MayTake(kOne));
  EXPECT_EQ(TakeAll(&shares, kOther), 2u) << "what is lent is whoever's comes first";
  EXPECT_EQ(shares.Taken(kOther), 3u);
}

// PlainShares says the same by looking at everything.
struct PlainShares {
  size_t limit = 0;
  size_t guarantee = 0;
  std::vector<size_t> taken;

  bool MayTake(size_t domain) const {
    size_t used = 0;
    size_t kept = 0;  // For others.
    for (size_t each = 0; each < taken.size(); ++each) {
      used += taken[each];
      if (each != domain && taken[each] < guarantee) kept += guarantee - taken[each];
    }
    return used + kept < limit;
  }
};

TEST(TenantSharesModel, AgreesWithALookAtEveryTenant) {
  const uint64_t seed = testing::TestSeed();
  std::printf("seed %d\n", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const size_t domains = 1 + random() % 8;
    const size_t limit = 2 * domains + random() % 100;
    TenantShares shares(limit, domains);
    PlainShares plain{.limit = limit, .guarantee = limit / 2 / domains};
    plain.taken.resize(domains);
    for (int step = 0; step < 20'000; ++step) {
      const size_t domain = random() % domains;
      const auto id = static_cast<DomainId>(domain);
      ASSERT_EQ(shares.MayTake(id), plain.MayTake(domain)) << round << " " << step;
      if (random() % 5 < 3 && shares.MayTake(id)) {
        shares.Take(id);
        ++plain.taken[domain];
      } else if (plain.taken[domain] > 0) {
        shares.GiveBack(id);
        --plain.taken[domain];
      }
      ASSERT_EQ(shares.Taken(id), plain.taken[domain]);
    }
    shares.Audit();
  }
}

TEST(TenantSharesDeathTest, NobodyTakesOrGivesBackWhatIsNotThere) {
  TenantShares shares(4, 2);
  EXPECT_DEATH(shares.GiveBack(kOne), "CHECK failed");
  TakeAll(&shares, kOne);
  EXPECT_DEATH(shares.Take(kOne), "CHECK failed");
  EXPECT_DEATH(TenantShares(3, 2), "CHECK failed");
}

}  // namespace
}  // namespace kvtier

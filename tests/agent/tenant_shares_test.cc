#include "agent/tenant_shares.h"

#include <algorithm>
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

// Takes units until the domain may take no more; returns how many were taken.
size_t TakeAll(TenantShares* shares, DomainId domain) {
  size_t taken = 0;
  for (; shares->MayTake(domain); ++taken) shares->Take(domain);
  shares->Audit();
  return taken;
}

TEST(TenantSharesTest, ALoneTenantMayTakeAll) {
  TenantShares shares(10, 1);
  EXPECT_EQ(TakeAll(&shares, kOne), 10u);
  EXPECT_EQ(shares.Refuse("leases", kOne),
            absl::ResourceExhaustedError(
                "leases: all 10 of the node are in use; release some, or try again later"));
  shares.GiveBack(kOne);
  EXPECT_EQ(TakeAll(&shares, kOne), 1u);
}

TEST(TenantSharesTest, WhoeverComesFirstLeavesTheOthersTheirGuarantees) {
  TenantShares shares(100, 5);
  EXPECT_EQ(shares.guarantee(), 10u);
  EXPECT_EQ(TakeAll(&shares, kOne), 60u);
  EXPECT_EQ(
      shares.Refuse("leases", kOne),
      absl::ResourceExhaustedError("leases: the tenant has 60 of the node's 100, and the free ones "
                                   "are kept for other tenants; release some"));
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

// PlainShares gives the same answers by looking at all calls.
struct PlainShares {
  size_t limit = 0;
  size_t guarantee = 0;
  std::vector<size_t> taken;

  bool MayTake(size_t domain) const {
    size_t used = 0;
    size_t kept = 0;  // Units kept for others.
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

TEST(TenantSharesTest, AnAmountIsTakenWholeOrNotAtAll) {
  TenantShares shares(100, 2);
  EXPECT_TRUE(shares.MayTake(kOne, 75));
  EXPECT_FALSE(shares.MayTake(kOne, 76)) << "25 are the other's";
  shares.Take(kOne, 70);
  EXPECT_TRUE(shares.MayTake(kOther, 30)) << "its guarantee, and five of what is free";
  EXPECT_FALSE(shares.MayTake(kOther, 31));
  shares.Take(kOther, 10);
  EXPECT_TRUE(shares.MayTake(kOne, 5));
  EXPECT_FALSE(shares.MayTake(kOne, 6));
  shares.GiveBack(kOne, 70);
  EXPECT_EQ(shares.taken(), 10u);
  shares.Audit();
}

// Taking an amount gives the same answers as taking as many single units one after another.
TEST(TenantSharesModel, AgreesWithSingleOnesOneAfterAnother) {
  const uint64_t seed = testing::TestSeed();
  std::printf("seed %d\n", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const size_t domains = 1 + random() % 8;
    const size_t limit = 2 * domains + random() % 1000;
    TenantShares shares(limit, domains);
    TenantShares singly(limit, domains);
    for (int step = 0; step < 2'000; ++step) {
      const auto domain = static_cast<DomainId>(random() % domains);
      const size_t amount = random() % (1 + limit / 4);
      const bool takes = random() % 5 < 3;
      size_t taken = 0;
      while (takes && taken < amount && singly.MayTake(domain)) {
        singly.Take(domain);
        ++taken;
      }
      if (takes) {
        ASSERT_EQ(shares.MayTake(domain, amount), taken == amount) << round << " " << step;
        if (taken == amount) {
          shares.Take(domain, amount);
        } else {
          for (; taken > 0; --taken) singly.GiveBack(domain);
        }
      } else if (amount <= shares.Taken(domain)) {
        shares.GiveBack(domain, amount);
        for (size_t i = 0; i < amount; ++i) singly.GiveBack(domain);
      }
      ASSERT_EQ(shares.Taken(domain), singly.Taken(domain));
      shares.Audit();
    }
  }
}

TEST(TenantSharesTest, ANewcomerGrowsIntoItsGuaranteeAsOthersGiveBack) {
  TenantShares shares(8, 1);
  EXPECT_EQ(TakeAll(&shares, kOne), 8u);
  shares.AddDomain();
  EXPECT_EQ(shares.guarantee(), 2u);
  EXPECT_EQ(shares.Guarantee(kOther), 0u) << "nothing is taken back from anybody";
  EXPECT_FALSE(shares.MayTake(kOther));
  shares.GiveBack(kOne);
  EXPECT_EQ(shares.Guarantee(kOther), 1u);
  EXPECT_FALSE(shares.MayTake(kOne)) << "it is the newcomer's now";
  shares.GiveBack(kOne);
  shares.GiveBack(kOne);
  EXPECT_EQ(shares.Guarantee(kOther), 2u);
  EXPECT_TRUE(shares.MayTake(kOne)) << "the third is whoever's comes first";
  EXPECT_EQ(TakeAll(&shares, kOther), 3u);
}

TEST(TenantSharesTest, WhoGoesIsGuaranteedNothingAndTheOthersMore) {
  TenantShares shares(8, 2);
  EXPECT_EQ(TakeAll(&shares, kOther), 6u);
  shares.DropDomain(kOther);
  EXPECT_EQ(shares.guarantee(), 4u);
  EXPECT_EQ(shares.Guarantee(kOne), 2u) << "it grows";
  EXPECT_FALSE(shares.MayTake(kOther));
  for (int i = 0; i < 6; ++i) shares.GiveBack(kOther);
  EXPECT_EQ(shares.Guarantee(kOne), 4u);
  EXPECT_EQ(TakeAll(&shares, kOne), 8u);
  shares.AddDomain();
  EXPECT_EQ(shares.Taken(DomainId{2}), 0u) << "a domain is never given again";
}

// GrowingShares gives the same answers for tenants that come and go, one step at a time.
struct GrowingShares {
  struct Tenant {
    size_t taken = 0;
    size_t guarantee = 0;
    bool dropped = false;
  };
  size_t limit = 0;
  std::vector<Tenant> tenants;

  size_t Aim() const {
    size_t there = 0;
    for (const Tenant& tenant : tenants) there += tenant.dropped ? 0 : 1;
    return limit / 2 / there;
  }
  // Returns the units that are left if each tenant except `but` had at least its guarantee.
  size_t FreeFor(const Tenant* but) const {
    size_t left = limit;
    for (const Tenant& tenant : tenants) {
      left -= &tenant == but ? tenant.taken : std::max(tenant.taken, tenant.guarantee);
    }
    return left;
  }
  bool MayTake(const Tenant& tenant) const { return FreeFor(&tenant) > 0; }
  // Cuts guarantees to the aim, and raises the others to it unit by unit, the first tenant first.
  void Settle() {
    const size_t aim = Aim();
    for (Tenant& tenant : tenants) {
      tenant.guarantee = tenant.dropped ? 0 : std::min(tenant.guarantee, aim);
    }
    for (Tenant& tenant : tenants) {
      while (!tenant.dropped && tenant.guarantee < aim &&
             (tenant.taken > tenant.guarantee || FreeFor(nullptr) > 0)) {
        ++tenant.guarantee;
      }
      if (!tenant.dropped && tenant.guarantee < aim) return;  // Later tenants wait for this one.
    }
  }
};

TEST(TenantSharesModel, AgreesWithOneStepAtATimeWhileTenantsComeAndGo) {
  const uint64_t seed = testing::TestSeed();
  std::printf("seed %d\n", static_cast<int>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t limit = 16 + random() % 100;
    GrowingShares plain{.limit = limit, .tenants = {{}}};
    TenantShares shares(limit, 1);
    plain.Settle();
    size_t there = 1;
    for (int step = 0; step < 2'000; ++step) {
      const size_t domain = random() % plain.tenants.size();
      const auto id = static_cast<DomainId>(domain);
      GrowingShares::Tenant& tenant = plain.tenants[domain];
      const uint64_t dice = random() % 100;
      if (dice == 0 && there < 8) {
        shares.AddDomain();
        plain.tenants.emplace_back();
        ++there;
      } else if (dice == 1 && there > 1 && !tenant.dropped) {
        shares.DropDomain(id);
        tenant.dropped = true;
        --there;
      } else if (dice < 60 && shares.MayTake(id)) {
        shares.Take(id);
        ++tenant.taken;
      } else if (tenant.taken > 0) {
        shares.GiveBack(id);
        --tenant.taken;
      }
      plain.Settle();
      shares.Audit();
      for (size_t each = 0; each < plain.tenants.size(); ++each) {
        const auto of = static_cast<DomainId>(each);
        ASSERT_EQ(shares.Guarantee(of), plain.tenants[each].guarantee) << round << " " << step;
        ASSERT_EQ(shares.MayTake(of), plain.MayTake(plain.tenants[each])) << round << " " << step;
      }
    }
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

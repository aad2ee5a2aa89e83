#include "core/tier_share.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/shares_one_by_one.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kAll = UINT64_MAX;

TEST(FairSharesTest, ClaimThatWantsItsGuaranteeHasItWhateverOthersWant) {
  const std::vector<ShareClaim> claims = {{.share = {.guaranteed = 40}, .wanted = 40},
                                          {.share = {.weight = 1000}, .wanted = kAll}};
  EXPECT_THAT(FairShares(100, claims), ElementsAre(40, 60));
}

TEST(FairSharesTest, GuaranteeThatIsNotWantedIsLent) {
  const std::vector<ShareClaim> claims = {{.share = {.guaranteed = 50}, .wanted = 10},
                                          {.share = {.guaranteed = 50}, .wanted = kAll}};
  EXPECT_THAT(FairShares(100, claims), ElementsAre(10, 90));
}

TEST(FairSharesTest, WhatGuaranteesLeaveIsDividedByWeight) {
  const std::vector<ShareClaim> claims = {
      {.share = {.guaranteed = 10}, .wanted = kAll},
      {.share = {.guaranteed = 10, .weight = 3}, .wanted = kAll}};
  EXPECT_THAT(FairShares(100, claims), ElementsAre(30, 70));
}

TEST(FairSharesTest, NobodyHasMoreThanItsMaximumAndOthersHaveTheRest) {
  const std::vector<ShareClaim> claims = {{.share = {.maximum = 20}, .wanted = kAll},
                                          {.share = {}, .wanted = kAll}};
  EXPECT_THAT(FairShares(100, claims), ElementsAre(20, 80));
}

// Otherwise memory would move to and fro between two tenants that have the same right to it.
TEST(FairSharesTest, AClaimThatWantsJustItsShareKeepsIt) {
  std::vector<ShareClaim> claims(7, {.share = {}, .wanted = kAll});
  for (size_t i = 0; i < claims.size(); ++i) claims[i].share.weight = static_cast<uint32_t>(i + 1);
  const std::vector<uint64_t> fair = FairShares(101, claims);
  for (size_t i = 0; i < claims.size(); ++i) {
    claims[i].wanted = fair[i];
    EXPECT_EQ(FairShares(101, claims), fair) << i;
  }
}

TEST(FairSharesTest, WhatNobodyWantsStaysUndivided) {
  const std::vector<ShareClaim> claims = {{.share = {.guaranteed = 30}, .wanted = 5},
                                          {.share = {.maximum = 20}, .wanted = kAll}};
  EXPECT_THAT(FairShares(100, claims), ElementsAre(5, 20));
  EXPECT_TRUE(FairShares(100, {}).empty());
}

TEST(FairSharesTest, ATierOfManyTerabytesAndTheLargestWeightsDoNotOverflow) {
  const uint64_t bytes = uint64_t{1} << 56;
  const std::vector<ShareClaim> claims(
      256, ShareClaim{.share = {.weight = kMaxShareWeight}, .wanted = kAll});
  for (const uint64_t share : FairShares(bytes, claims)) EXPECT_EQ(share, bytes / 256);
}

TEST(FairSharesTest, SharesAreThoseOfHandingOutOneByOne) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 2000; ++round) {
    const uint64_t capacity = 50 + random() % 500;
    std::vector<ShareClaim> claims(1 + random() % 6);
    uint64_t unguaranteed = capacity;
    for (ShareClaim& claim : claims) {
      claim.share.guaranteed = random() % (unguaranteed / 2 + 1);
      unguaranteed -= claim.share.guaranteed;
      if (random() % 2 == 0) claim.share.maximum = claim.share.guaranteed + random() % 300;
      claim.share.weight = 1 + random() % 5;
      claim.wanted = random() % 3 == 0 ? kAll : random() % 400;
    }
    const std::vector<uint64_t> fair = FairShares(capacity, claims);
    ASSERT_EQ(fair, testing::SharesOneByOne(capacity, claims)) << "round " << round;
  }
}

}  // namespace
}  // namespace kvtier

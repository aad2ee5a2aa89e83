// Tests what operators are told of lookups and refusals of each tenant: hits by where the block
// was, misses, and how often a share was used up.
#include "agent/tenant_hits.h"

#include <gtest/gtest.h>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr absl::Duration kLong = absl::Seconds(5);
constexpr DomainId kFirst{0};
constexpr DomainId kSecond{1};

class TenantHitsTest : public ::testing::Test {
 protected:
  TenantHits::Counts Of(DomainId domain) { return rig_.agent->stats().tenants.Of(domain); }
  uint64_t HitsIn(Tier tier) { return Of(kFirst).hits[TierIndex(tier)]; }
  // Asks for blocks and releases them.
  void Get(SessionId session, uint64_t first, size_t count, Tier target = Tier::kHost) {
    ASSERT_TRUE(rig_.Run(rig_.Onboard(session, first, count, kLong, target)).ok());
    rig_.agent->sessions().leases().ReleaseAll(session);
  }

  AgentRig rig_{{.gpu_slots = 8}};
  const SessionId second_ = rig_.Open(1);
};

TEST_F(TenantHitsTest, EachTenantsBlocksAreCountedByWhereTheyWere) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4u);
  Get(rig_.session, 1, 4);
  EXPECT_EQ(HitsIn(Tier::kHost), 4u);
  Get(rig_.session, 1, 2, Tier::kGpu);
  EXPECT_EQ(HitsIn(Tier::kHost), 6u) << "host memory had them";
  Get(rig_.session, 1, 2, Tier::kGpu);
  EXPECT_EQ(HitsIn(Tier::kGpu), 2u);
  rig_.EvictGpus();
  rig_.EvictHost();
  Get(rig_.session, 1, 3);
  EXPECT_EQ(HitsIn(Tier::kDisk), 3u);
  EXPECT_EQ(Of(kFirst).misses, 0u);
  EXPECT_EQ(Of(kSecond).hits[TierIndex(Tier::kHost)], 0u);
}

TEST_F(TenantHitsTest, WhatNobodyHasIsAMissOfTheTenantThatAsked) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2u);
  Get(rig_.session, 1, 5);
  EXPECT_EQ(HitsIn(Tier::kHost), 2u);
  EXPECT_EQ(Of(kFirst).misses, 3u);
  Get(second_, 1, 2);
  EXPECT_EQ(Of(kSecond).misses, 2u) << "another tenant's blocks are nobody's";
  EXPECT_EQ(Of(kFirst).misses, 3u);
}

TEST_F(TenantHitsTest, ARefusalIsCountedOnTheTenantsShare) {
  WorkerSessions& sessions = rig_.agent->sessions();
  const Tenant& second = rig_.agent->options().tenants.OfDomain(kSecond);
  size_t opened = 0;
  while (rig_.OpenFor(SessionTenants::Own(second)).ok()) ++opened;
  EXPECT_GT(opened, kMaxSessions / 2);
  EXPECT_EQ(sessions.shares().Refused(kSecond), 1u);
  EXPECT_EQ(sessions.shares().Refused(kFirst), 0u);
  EXPECT_TRUE(
      rig_.OpenFor(SessionTenants::Own(rig_.agent->options().tenants.OfDomain(kFirst))).ok());
}

}  // namespace
}  // namespace kvtier

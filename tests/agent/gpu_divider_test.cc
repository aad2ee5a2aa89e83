// Tests GPUs whose memory several tenants divide: how large the parts are, whose pool a block is
// in, and how pools follow their shares while workers hold slots.
#include "agent/gpu/gpu_divider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "agent/gpu/gpu_parts.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kRigBlockBytes;

constexpr absl::Duration kLong = absl::Seconds(5);
constexpr uint64_t kUnit = kRegionGranularity;
constexpr uint64_t kPerUnit = kUnit / kRigBlockBytes;

TEST(GpuPartsTest, EachHasItsGuaranteeAndAPartByWeightOfTheRest) {
  EXPECT_THAT(GpuParts(12, 1, std::vector<TierShare>{{}, {}, {}}), ElementsAre(4, 4, 4));
  EXPECT_THAT(GpuParts(12, 1, std::vector<TierShare>{{.weight = 4}, {.weight = 1}}),
              ElementsAre(9, 3));
  EXPECT_THAT(GpuParts(12, 1, std::vector<TierShare>{{.guaranteed = 8}, {.guaranteed = 2}}),
              ElementsAre(9, 3));
  EXPECT_THAT(GpuParts(12, 1, std::vector<TierShare>{{.maximum = 3}, {}}), ElementsAre(3, 9));
}

TEST(GpuPartsTest, EachHasOneSlotWhateverIsGuaranteedToOthers) {
  EXPECT_THAT(GpuParts(12, 2, std::vector<TierShare>{{.guaranteed = 12}, {}}), ElementsAre(10, 2));
  EXPECT_THAT(GpuParts(12, 2, std::vector<TierShare>{{.maximum = 0}, {}}), ElementsAre(2, 10));
}

// Divides by random shares, and checks what must hold of every division.
TEST(GpuPartsModelTest, PartsKeepGuaranteesMaximumsAndTheMemory) {
  testing::SimRandom random(testing::TestSeed());
  for (int round = 0; round < 100'000; ++round) {
    const uint64_t least = 1 + random.Below(3);
    const size_t tenants = 1 + random.Below(5);
    const uint64_t units = least * tenants + random.Below(60);
    std::vector<TierShare> shares(tenants);
    uint64_t left = units;
    for (TierShare& share : shares) {
      share.guaranteed = random.Below(left + 1);
      left -= share.guaranteed;
      if (random.Draw(0.3)) share.maximum = share.guaranteed + random.Below(10);
      share.weight = 1 + static_cast<uint32_t>(random.Below(5));
    }
    const std::vector<uint64_t> parts = GpuParts(units, least, shares);
    const uint64_t sum = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
    ASSERT_LE(sum, units);
    bool may_have_more = false;
    for (size_t i = 0; i < tenants; ++i) {
      const uint64_t most = std::max(least, shares[i].maximum);
      ASSERT_GE(parts[i], least);
      ASSERT_LE(parts[i], most);
      may_have_more |= parts[i] < most;
      // A part is below its guarantee only by the least parts of the other tenants.
      ASSERT_GE(parts[i] + least * (tenants - 1), std::min(shares[i].guaranteed, most));
    }
    ASSERT_TRUE(sum == units || !may_have_more) << "memory is idle that somebody could have";
  }
}

TEST(GpuPartsTest, UnitsAreWholeAndFewEnoughForARegion) {
  EXPECT_EQ(GpuPartUnit(8 * kUnit), kUnit);
  EXPECT_EQ(GpuPartUnit(uint64_t{80} << 30), uint64_t{1} << 30);
  const uint64_t huge = uint64_t{288} << 30;
  EXPECT_LE(huge / GpuPartUnit(huge), kMaxRegionHandles);
  EXPECT_EQ(GpuPartUnit(huge) % kRegionGranularity, 0u);
}

// Two tenants, and eight handles of memory on the GPU.
class GpuDividerTest : public ::testing::Test {
 protected:
  static AgentRig::Shape ShapeOf(TenantSettingsMap settings = {}) {
    return {.slots = 64,
            .gpu_slots = 8 * kPerUnit,
            .gpu_tenants = {"acme", "default"},
            .tenant_settings = std::move(settings)};
  }
  static TenantSettings Guaranteed(const std::string& name, uint64_t bytes) {
    TenantSettings settings{.name = name};
    settings.Of(Tier::kGpu, ShareField::kGuaranteed) = bytes;
    return settings;
  }
  GpuTier& OfTenant(size_t tenant) {
    NodeGpus& gpus = rig_.agent->gpus();
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (gpus.at(i).domain() == static_cast<DomainId>(tenant)) return gpus.at(i);
    }
    ADD_FAILURE() << "tenant " << tenant << " has no pool";
    return gpus.at(0);
  }
  size_t Handles(size_t tenant) { return OfTenant(tenant).pool().handles().size(); }
  absl::Status Set(const std::string& name, ShareField field, uint64_t value) {
    return rig_.Run(rig_.agent->tenants().Set(
        {.name = name, .values = {{.tier = Tier::kGpu, .field = field, .value = value}}},
        std::nullopt));
  }
  // Lets time pass, and checks all along that the pools never have more than the GPU's memory.
  void Pass(absl::Duration span) {
    const absl::Time end = rig_.time.Now() + span;
    while (rig_.time.Now() < end) {
      rig_.Pass(absl::Milliseconds(10));
      ASSERT_LE(Handles(0) + Handles(1), 8u);
    }
    rig_.agent->Audit();
  }
  // Puts a block and leases it in the pool of its tenant; returns how many were leased.
  size_t LeaseInPool(SessionId session, uint64_t block) {
    EXPECT_EQ(rig_.Put(session, block, 1), 1u);
    return rig_.Run(rig_.Onboard(session, block, 1, kLong, Tier::kGpu))->blocks.size();
  }

  AgentRig rig_{ShapeOf()};
  const SessionId acme_ = rig_.Open(1);
};

TEST_F(GpuDividerTest, EachTenantHasAPoolOfItsOwnAndTheOthersBlocksAreNeverInIt) {
  EXPECT_EQ(Handles(0), 4u);
  EXPECT_EQ(Handles(1), 4u);
  EXPECT_EQ(LeaseInPool(rig_.session, 1), 1u);
  EXPECT_EQ(LeaseInPool(acme_, 1), 1u);
  EXPECT_EQ(OfTenant(0).blocks().size(), 1u);
  EXPECT_EQ(OfTenant(1).blocks().size(), 1u);
  EXPECT_TRUE(OfTenant(0).blocks().Contains(rig_.NameRun(rig_.session, 1, 1).keys[0]));
  EXPECT_TRUE(OfTenant(1).blocks().Contains(rig_.NameRun(acme_, 1, 1).keys[0]));
  const absl::Status attached = rig_.agent->sessions().AttachToGpu(acme_).status();
  EXPECT_EQ(attached, absl::OkStatus());
  EXPECT_NE(OfTenant(1).workers().Find(acme_), nullptr) << "it maps its own tenant's pool";
  EXPECT_EQ(OfTenant(0).workers().Find(acme_), nullptr);
}

TEST_F(GpuDividerTest, PoolsFollowTheSharesThatAreSet) {
  ASSERT_EQ(Set("acme", ShareField::kGuaranteed, 6 * kUnit), absl::OkStatus());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Handles(1), 6u);
  EXPECT_EQ(Handles(0), 2u);
  EXPECT_EQ(rig_.agent->gpu_divider().PartOf(DomainId{1}), 6 * kUnit);
  ASSERT_EQ(Set("acme", ShareField::kGuaranteed, 0), absl::OkStatus());
  ASSERT_EQ(Set("acme", ShareField::kMaximum, kUnit), absl::OkStatus());
  Pass(absl::Seconds(2));
  EXPECT_EQ(Handles(1), 1u);
  EXPECT_EQ(Handles(0), 7u);
  EXPECT_EQ(LeaseInPool(acme_, 1), 1u);
}

TEST_F(GpuDividerTest, AGuaranteeBeyondTheMemoryIsRefusedByName) {
  const absl::Status refused = Set("acme", ShareField::kGuaranteed, 9 * kUnit);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("gpu_guaranteed"));
  Pass(absl::Seconds(1));
  EXPECT_EQ(Handles(1), 4u);
}

TEST_F(GpuDividerTest, WhatAWorkerHoldsIsAwaitedAndTheOtherGrowsAfterIt) {
  SlotGrants& grants = OfTenant(0).grants();
  ASSERT_EQ(grants.Take(rig_.session, 4 * kPerUnit)->size(), 4 * kPerUnit);
  ASSERT_EQ(Set("acme", ShareField::kGuaranteed, 6 * kUnit), absl::OkStatus());
  Pass(absl::Minutes(3));
  EXPECT_EQ(Handles(0), 4u) << "its workers keep all that it has";
  EXPECT_EQ(Handles(1), 4u);
  grants.ReleaseAll(rig_.session);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Handles(0), 2u);
  EXPECT_EQ(Handles(1), 6u);
}

// A full pool does not grow by memory that another tenant leaves unused.
TEST_F(GpuDividerTest, UnusedMemoryIsNotLent) {
  ASSERT_EQ(OfTenant(1).grants().Take(acme_, 5 * kPerUnit)->size(), 4 * kPerUnit);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Handles(1), 4u);
  EXPECT_EQ(Handles(0), 4u);
  EXPECT_EQ(OfTenant(0).grants().Take(rig_.session, 4 * kPerUnit)->size(), 4 * kPerUnit)
      << "the other has its part at once";
}

TEST_F(GpuDividerTest, AnOperatorSetsSharesAndNotTheSizeOfOnePool) {
  const absl::Status refused = rig_.agent->gpus().Named("").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--gpu_guaranteed"));
  const auto dropped = rig_.Run(rig_.agent->tenants().Drop("acme"));
  EXPECT_EQ(dropped.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dropped.status().message()), HasSubstr("--gpu_tenants"));
}

TEST_F(GpuDividerTest, SharesThatAreKnownAtTheStartHoldSoonAfterIt) {
  AgentRig rig(ShapeOf({{"default", Guaranteed("default", 7 * kUnit)}}));
  rig.Pass(absl::Seconds(2));
  EXPECT_EQ(rig.agent->gpus().CapacityOf(DomainId{0}), 7 * kUnit);
  EXPECT_EQ(rig.agent->gpus().CapacityOf(DomainId{1}), kUnit);
}

TEST_F(GpuDividerTest, EachGpuIsDividedAlike) {
  AgentRig::Shape shape = ShapeOf({{"acme", Guaranteed("acme", 12 * kUnit)}});
  shape.second_gpu = true;
  AgentRig rig(shape);
  rig.Pass(absl::Seconds(2));
  NodeGpus& gpus = rig.agent->gpus();
  ASSERT_EQ(gpus.size(), 4u);
  for (size_t i = 0; i < gpus.size(); ++i) {
    const bool is_acmes = gpus.at(i).domain() == DomainId{1};
    EXPECT_EQ(gpus.at(i).pool().handles().size(), is_acmes ? 6u : 2u) << i;
  }
  EXPECT_EQ(rig.agent->gpu_divider().bytes(), 16 * kUnit);
}

TEST(GpuTenantsTest, MemoryThatIsTooLittleForAllIsRefusedByValue) {
  const auto parts = FirstGpuParts(2 * kUnit, kRigBlockBytes, 3);
  EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parts.status().message()), HasSubstr("--gpu_bytes=4194304"));
  EXPECT_THAT(*FirstGpuParts(7 * kUnit, kRigBlockBytes, 2), ElementsAre(4 * kUnit, 3 * kUnit));
}

}  // namespace
}  // namespace kvtier

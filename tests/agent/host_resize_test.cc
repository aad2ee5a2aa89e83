// Tests host memory that an operator grows and shrinks, and workers that go on meanwhile: in
// virtual time.
#include "agent/flows/host_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

constexpr uint64_t kSlotsPerSlab = 4;
constexpr uint64_t kSlab = kSlotsPerSlab * kRigBlockBytes;
constexpr DomainId kFirst{0};
constexpr DomainId kSecond{1};

uint64_t g_free_memory = UINT64_MAX;

AgentRig::Shape ShapeOf(HostMemory memory) {
  return {.slots = 16,
          .max_slots = 16 * kSlotsPerSlab,
          .free_memory = [] { return g_free_memory; },
          .eviction = {.host = EvictionPolicy::kLru},
          .disk = false,
          .host_memory = memory};
}

// Two tenants of four slabs each, on a node that may grow to sixteen.
class HostResizeTest : public ::testing::Test {
 protected:
  HostResizeTest() : rig_(ShapeOf(HostMemory::kMoving)), second_(rig_.Open(1)) {
    g_free_memory = UINT64_MAX;
  }

  HostResizer& resizer() { return rig_.agent->host_resizer(); }
  // Begins a resize to `slabs` slabs, waits two seconds, and returns the size.
  HostResizer::Size Resize(uint64_t slabs) {
    EXPECT_EQ(resizer().Begin(slabs * kSlab), absl::OkStatus());
    rig_.Pass(absl::Seconds(2));
    rig_.agent->Audit();
    return resizer().size();
  }
  uint64_t SlabsOf(DomainId domain) const {
    return rig_.agent->host().slots(domain).present_slabs();
  }
  uint64_t Guaranteed(DomainId domain) const {
    return rig_.agent->host_shares().Of(domain).guaranteed;
  }
  size_t Put(SessionId of, uint64_t first, size_t count) {
    size_t put = 0;
    for (size_t i = 0; i < count; ++i) put += rig_.Put(of, first + i, 1);
    return put;
  }
  size_t Found(SessionId of, uint64_t first, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) {
      found += rig_.agent->index().In(Tier::kHost, rig_.NameRun(of, first + i, 1).keys[0]) ? 1 : 0;
    }
    return found;
  }
  // Pins a block in each of the slabs that the tenant's blocks fill from `first` on.
  std::vector<Pin> PinOneInEach(SessionId of, uint64_t first, size_t slabs) {
    std::vector<Pin> pins;
    for (uint64_t i = 0; i < slabs; ++i) {
      const BlockKey key = rig_.NameRun(of, first + i * kSlotsPerSlab, 1).keys[0];
      pins.push_back(*rig_.agent->index().PinOf(key));
    }
    return pins;
  }
  // Keeps one block in each slab.
  void KeepOneInEach(SessionId of, DomainId domain, uint64_t first, size_t slabs) {
    KeptPrefixes& prefixes = rig_.agent->flows().kept_prefixes;
    const auto begun = prefixes.Begin(domain, {.hi = 1}, rig_.executor.Now() + absl::Hours(1));
    for (uint64_t i = 0; i < slabs; ++i) {
      const BlockKey key = rig_.NameRun(of, first + i * kSlotsPerSlab, 1).keys[0];
      EXPECT_EQ(prefixes.Add(begun.handle, key), KeepLimit::kNone);
    }
    prefixes.Filled(begun.handle);
  }
  uint64_t HostCapacity() const {
    for (const TierUsage& usage : rig_.agent->Usage()) {
      if (usage.tier == Tier::kHost) return usage.capacity_bytes;
    }
    return 0;
  }

  AgentRig rig_;
  const SessionId second_;
};

TEST_F(HostResizeTest, ANodeThatGrowsHasRoomAndItsTenantsLargerGuarantees) {
  Put(rig_.session, 1000, 16);
  Put(second_, 1, 16);
  const HostResizer::Size size = Resize(12);
  EXPECT_EQ(size.bytes, 12 * kSlab);
  EXPECT_EQ(size.target_bytes, 12 * kSlab);
  EXPECT_EQ(size.ended, absl::OkStatus());
  EXPECT_EQ(HostCapacity(), 12 * kSlab);
  EXPECT_EQ(Guaranteed(kFirst), 6u);
  EXPECT_EQ(Put(second_, 101, 8), 8u);
  EXPECT_EQ(Found(second_, 1, 16) + Found(second_, 101, 8), 24u) << "none had to leave";
  EXPECT_EQ(Found(rig_.session, 1000, 16), 16u);
  EXPECT_EQ(rig_.agent->flows().kept_prefixes.QuotaOf(kSecond).bytes, 6 * kSlab / kKeptPart);
}

TEST_F(HostResizeTest, MemoryIsTakenThoughNobodyWantsItYet) {
  EXPECT_EQ(Resize(16).bytes, 16 * kSlab);
  EXPECT_EQ(SlabsOf(kFirst), 8u);
  EXPECT_EQ(SlabsOf(kSecond), 8u);
}

TEST_F(HostResizeTest, ATenantThatComesLaterMayHaveAllThatTheNodeGrewTo) {
  Resize(16);
  const TenantChange third{.name = "third"};
  ASSERT_EQ(rig_.Run(rig_.agent->tenants().Set(third, "a secret of its own")), absl::OkStatus());
  rig_.Pass(absl::Seconds(2));
  EXPECT_EQ(rig_.agent->host().slots(DomainId{2}).slab_count(), 16u);
  EXPECT_EQ(Guaranteed(DomainId{2}), 5u);
  rig_.agent->Audit();
}

TEST_F(HostResizeTest, ANodeThatShrinksGivesFreeSlabsUpFirst) {
  Put(rig_.session, 1000, 8);
  Put(second_, 1, 3);
  const HostResizer::Size size = Resize(4);
  EXPECT_EQ(size.bytes, 4 * kSlab);
  EXPECT_EQ(size.ended, absl::OkStatus());
  EXPECT_EQ(Found(rig_.session, 1000, 8) + Found(second_, 1, 3), 11u);
  EXPECT_EQ(Guaranteed(kFirst), 2u);
  EXPECT_EQ(rig_.agent->mover().figures().stray_bytes, 0u) << "the system has it back";
  uint64_t held = 0;
  for (const DomainId domain : {kFirst, kSecond}) {
    held += rig_.agent->host().arena(domain).held_bytes();
  }
  EXPECT_EQ(held, 4 * kSlab);
}

TEST_F(HostResizeTest, WhatIsKeptAndWhatIsLeasedStaysWhenTheNodeShrinks) {
  Put(rig_.session, 1000, 16);
  KeepOneInEach(rig_.session, kFirst, 1000, 4);
  const Onboarded leased = *rig_.Run(rig_.Onboard(rig_.session, 1001, 1, absl::Milliseconds(10)));
  ASSERT_EQ(leased.blocks.size(), 1u);
  Resize(3);
  EXPECT_TRUE(testing::HoldsBlock(AgentRig::Seed(kFirst), TestEngineKey(1001),
                                  rig_.Host(rig_.session, leased.blocks[0].offset)));
  rig_.Pass(absl::Seconds(15));
  EXPECT_EQ(resizer().size().bytes, 3 * kSlab);
  EXPECT_EQ(resizer().size().ended, absl::OkStatus());
  EXPECT_EQ(SlabsOf(kFirst), 2u);
  for (uint64_t i = 0; i < 16; i += kSlotsPerSlab) {
    EXPECT_EQ(rig_.Hits(rig_.session, 1000 + i, 1), 1u) << "with its bytes, in block " << i;
  }
  EXPECT_EQ(rig_.agent->evictor().ledger().SufferedBy(kFirst), 0u) << "no tenant took them";
  rig_.agent->Audit();
}

TEST_F(HostResizeTest, ReservedBlocksAreWrittenAndCommittedInASlabThatIsToLeave) {
  std::vector<ReservationId> reserved;
  for (uint64_t slab = 0; slab < 4; ++slab) {
    ASSERT_EQ(Put(rig_.session, 1000 + 3 * slab, 3), 3u);
    const std::vector<ReservationId> one = rig_.Reserve(rig_.session, 5000 + slab, 1);
    reserved.insert(reserved.end(), one.begin(), one.end());
  }
  ASSERT_EQ(reserved.size(), 4u);
  ASSERT_EQ(resizer().Begin(2 * kSlab), absl::OkStatus());
  rig_.Pass(absl::Milliseconds(500));
  EXPECT_TRUE(resizer().is_under_way());
  EXPECT_EQ(rig_.Commit(rig_.session, reserved), 4u);
  rig_.Pass(absl::Seconds(2));
  EXPECT_EQ(resizer().size().bytes, 2 * kSlab);
  rig_.agent->Audit();
}

TEST_F(HostResizeTest, ASizeBelowASlabForEachTenantAndOneAboveTheMostAreRefused) {
  const absl::Status few = resizer().Begin(2 * kSlab - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(few)) << few;
  EXPECT_THAT(few.message(), AllOf(HasSubstr("bytes: 32767;"), HasSubstr("at least 32768")));
  const absl::Status many = resizer().Begin(16 * kSlab + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(many)) << many;
  EXPECT_THAT(many.message(), AllOf(HasSubstr("bytes: 262145;"), HasSubstr("262144"),
                                    HasSubstr("--host_max_bytes")));
  EXPECT_EQ(resizer().Begin(9 * kSlab + kSlab / 2), absl::OkStatus());
  rig_.Pass(absl::Seconds(2));
  EXPECT_EQ(resizer().size().bytes, 9 * kSlab) << "in whole slabs";
}

TEST(FixedHostMemoryTest, HasNoOtherSizeAndSaysWhatToDo) {
  AgentRig rig(ShapeOf(HostMemory::kFixed));
  const absl::Status refused = rig.agent->host_resizer().Begin(12 * kSlab);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("--host_memory=moving"));
  EXPECT_FALSE(rig.agent->host_resizer().moves());
  EXPECT_EQ(rig.agent->host_resizer().size().max_bytes, 8 * kSlab);
}

TEST(PoolTenantMemoryTest, StaysWhenTheNodeShrinksAndTheOthersGiveTheirs) {
  AgentRig::Shape shape = ShapeOf(HostMemory::kMoving);
  shape.gpu_slots = 8;
  AgentRig rig(shape);
  HostResizer& resizer = rig.agent->host_resizer();
  EXPECT_EQ(resizer.size().min_bytes, 5 * kSlab) << "drivers have pinned four";
  ASSERT_EQ(resizer.Begin(5 * kSlab), absl::OkStatus());
  rig.Pass(absl::Seconds(2));
  EXPECT_EQ(resizer.size().bytes, 5 * kSlab);
  EXPECT_EQ(rig.agent->host().slots(kFirst).present_slabs(), 4u);
  EXPECT_EQ(rig.agent->host().slots(kSecond).present_slabs(), 1u);
}

TEST_F(HostResizeTest, AnotherTargetTakesThePlaceOfTheOneUnderWay) {
  Put(rig_.session, 1000, 16);
  Put(second_, 1, 16);
  const std::vector<Pin> first = PinOneInEach(rig_.session, 1000, 4);
  const std::vector<Pin> second = PinOneInEach(second_, 1, 4);
  HostResizer::Size size = Resize(4);
  EXPECT_EQ(size.bytes, 8 * kSlab) << "each slab is held";
  EXPECT_EQ(size.target_bytes, 4 * kSlab);
  size = Resize(9);
  EXPECT_EQ(size.bytes, 9 * kSlab);
  EXPECT_EQ(size.target_bytes, 9 * kSlab);
  EXPECT_FALSE(resizer().is_under_way());
  EXPECT_EQ(rig_.agent->host().slots(kFirst).closed_slabs(), 0u) << "they stay, and are used again";
  EXPECT_EQ(rig_.agent->host().slots(kSecond).closed_slabs(), 0u);
  EXPECT_EQ(rig_.agent->mover().figures().timed_out, 0u);
}

TEST_F(HostResizeTest, SlabsThatAreHeldForTooLongStayAndTheReasonIsSaid) {
  Put(rig_.session, 1000, 16);
  Put(second_, 1, 16);
  const std::vector<Pin> first = PinOneInEach(rig_.session, 1000, 4);
  const std::vector<Pin> second = PinOneInEach(second_, 1, 4);
  ASSERT_EQ(resizer().Begin(4 * kSlab), absl::OkStatus());
  rig_.Pass(kHostResizeTimeout + absl::Seconds(1));
  const HostResizer::Size size = resizer().size();
  EXPECT_TRUE(absl::IsDeadlineExceeded(size.ended)) << size.ended;
  EXPECT_THAT(size.ended.message(), HasSubstr("stays at 131072 bytes"));
  EXPECT_EQ(size.bytes, 8 * kSlab);
  EXPECT_EQ(size.target_bytes, 8 * kSlab);
  EXPECT_EQ(Guaranteed(kFirst), 4u) << "guarantees are those of what is there";
  EXPECT_EQ(rig_.agent->host().slots(kFirst).closed_slabs(), 0u);
}

TEST_F(HostResizeTest, ANodeWithoutMemoryStaysAsItIsAndSaysWhy) {
  g_free_memory = kFreeMemoryLeft + kSlab - 1;
  HostResizer::Size size = Resize(12);
  EXPECT_TRUE(absl::IsResourceExhausted(size.ended)) << size.ended;
  EXPECT_THAT(size.ended.message(),
              AllOf(HasSubstr("stays at 131072 bytes"), HasSubstr("bytes left for the agent")));
  EXPECT_EQ(size.bytes, 8 * kSlab);
  EXPECT_EQ(Guaranteed(kFirst), 4u);
  g_free_memory = kFreeMemoryLeft + kSlab;
  size = Resize(12);
  EXPECT_EQ(size.bytes, 12 * kSlab) << "who asks again is not made to wait";
  EXPECT_EQ(size.ended, absl::OkStatus());
}

TEST_F(HostResizeTest, ANodeWithoutMemoryStillShrinks) {
  g_free_memory = 0;
  Resize(12);
  EXPECT_EQ(Resize(4).bytes, 4 * kSlab);
}

TEST_F(HostResizeTest, WhatTenantsMayNotHaveIsNotTakenAndTheReasonIsSaid) {
  for (const char* name : {"default", "acme"}) {
    const TenantChange change{
        .name = name,
        .values = {{.tier = Tier::kHost, .field = ShareField::kMaximum, .value = 5 * kSlab}}};
    ASSERT_EQ(rig_.Run(rig_.agent->tenants().Set(change, std::nullopt)), absl::OkStatus());
  }
  const HostResizer::Size size = Resize(12);
  EXPECT_EQ(size.bytes, 10 * kSlab);
  EXPECT_TRUE(absl::IsFailedPrecondition(size.ended)) << size.ended;
  EXPECT_THAT(size.ended.message(), HasSubstr("host_maximum"));
}

TEST_F(HostResizeTest, AnAgentThatStopsBeginsNoneAndEndsTheOneUnderWay) {
  Put(rig_.session, 1000, 16);
  Put(second_, 1, 16);
  const std::vector<Pin> first = PinOneInEach(rig_.session, 1000, 4);
  const std::vector<Pin> second = PinOneInEach(second_, 1, 4);
  Resize(4);
  rig_.agent->EndWaits();
  rig_.Pass(absl::Seconds(1));
  EXPECT_FALSE(resizer().is_under_way());
  EXPECT_TRUE(absl::IsUnavailable(resizer().Begin(8 * kSlab)));
}

}  // namespace
}  // namespace kvtier

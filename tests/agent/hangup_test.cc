// Tests a session that ends while its process lives on. The process may still write the slots that
// it had reserved in host memory or in the GPU pool. Nobody else gets them until the process says
// that it no longer writes, or is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;

class HangupTest : public ::testing::Test {
 protected:
  // Opens a session, which reserves in host memory and hangs up; returns the reserved slots.
  std::vector<std::span<std::byte>> ReserveAndHangUp(size_t blocks) {
    leaving_ = rig_.Open(0);
    const Reserved reserved =
        *rig_.agent->flows().putter.Reserve(rig_.NameRun(leaving_, 50, blocks), Tier::kHost);
    std::vector<std::span<std::byte>> slots;
    for (const ReservedBlock& block : reserved.blocks) {
      EXPECT_EQ(block.state, ReservedBlock::State::kReserved);
      slots.push_back(rig_.Host(leaving_, block.offset));
    }
    EXPECT_TRUE(rig_.agent->CloseSession(leaving_));
    return slots;
  }
  uint64_t late_blocks(Tier tier = Tier::kHost) const {
    return rig_.agent->sessions().reservations().late_bytes(tier) / kRigBlockBytes;
  }
  SessionToken NextToken() {
    ++tokens_;
    return {0xff, static_cast<uint8_t>(tokens_), static_cast<uint8_t>(tokens_ >> 8)};
  }

  AgentRig rig_{{.slots = 8, .disk = false}};
  SessionId leaving_{};

 private:
  size_t tokens_ = 0;
};

TEST_F(HangupTest, WhatItStillWritesIsInNobodyElsesBlock) {
  const auto slots = ReserveAndHangUp(3);
  const size_t put = rig_.Put(rig_.session, 1, 8);
  for (const std::span<std::byte> slot : slots) std::ranges::fill(slot, std::byte{0xab});
  EXPECT_EQ(put, 5u) << "all that is left";
  EXPECT_EQ(rig_.Hits(rig_.session, 1, put), put);
  rig_.agent->Audit();
}

TEST_F(HangupTest, ItsBlocksCanBePutByOthers) {
  ReserveAndHangUp(3);
  EXPECT_EQ(rig_.Put(rig_.session, 50, 3), 3u);
  EXPECT_EQ(rig_.Hits(rig_.session, 50, 3), 3u);
}

TEST_F(HangupTest, ItsSlotsAreFreeWhenItSaysThatItsWritesAreOver) {
  ReserveAndHangUp(3);
  rig_.Pass(absl::Hours(1));
  EXPECT_EQ(late_blocks(), 3u) << "no deadline says that it is done";
  rig_.agent->sessions().WritesOver(leaving_);
  EXPECT_EQ(late_blocks(), 0u);
  EXPECT_EQ(rig_.Put(rig_.session, 1, 8), 8u);
  rig_.agent->sessions().WritesOver(leaving_);
  rig_.agent->sessions().ProcessGone(leaving_);
  rig_.agent->Audit();
}

TEST_F(HangupTest, ItsSlotsAreFreeWhenItsProcessIsGone) {
  ReserveAndHangUp(3);
  rig_.agent->sessions().ProcessGone(leaving_);
  EXPECT_EQ(late_blocks(), 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig_.Put(rig_.session, 1, 8), 8u);
}

TEST_F(HangupTest, WhoReservedNothingLeavesNothing) {
  const SessionId idle = rig_.Open(0);
  EXPECT_FALSE(rig_.agent->CloseSession(idle));
  EXPECT_FALSE(rig_.agent->CloseSession(idle)) << "it is unknown by now";
  rig_.agent->sessions().WritesOver(rig_.session);
  EXPECT_TRUE(rig_.agent->sessions().table().IsOpen(rig_.session));
}

TEST_F(HangupTest, WhatWasLateBeforeTheHangupStaysLate) {
  leaving_ = rig_.Open(0);
  ASSERT_TRUE(rig_.agent->flows().putter.Reserve(rig_.NameRun(leaving_, 50, 2), Tier::kHost).ok());
  rig_.Pass(kReservationDuration + 2 * kSweepInterval);
  EXPECT_EQ(late_blocks(), 2u);
  ASSERT_TRUE(rig_.agent->flows().putter.Reserve(rig_.NameRun(leaving_, 60, 1), Tier::kHost).ok());
  EXPECT_TRUE(rig_.agent->CloseSession(leaving_));
  EXPECT_EQ(late_blocks(), 3u);
  rig_.agent->Audit();
  rig_.agent->sessions().WritesOver(leaving_);
  EXPECT_EQ(late_blocks(), 0u);
}

TEST_F(HangupTest, ATenantWhoseLateSlotsAreHalfOfItsMemoryIsGivenNoMoreToWrite) {
  ReserveAndHangUp(3);
  ASSERT_EQ(rig_.Put(rig_.session, 1, 5), 5u);
  const SessionId first = leaving_;
  ReserveAndHangUp(1);
  ASSERT_EQ(late_blocks(), 4u);
  const uint64_t declined = rig_.agent->stats().host.declined;
  EXPECT_EQ(rig_.Put(rig_.session, 20, 2), 0u);
  EXPECT_EQ(rig_.agent->stats().host.declined, declined + 2);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4u) << "what is there is not evicted for a refusal";
  const SessionId other = rig_.Open(1);
  EXPECT_EQ(rig_.Put(other, 1, 8), 8u) << "it is another tenant";
  rig_.agent->sessions().WritesOver(first);
  EXPECT_EQ(rig_.Put(rig_.session, 20, 2), 2u);
}

TEST_F(HangupTest, WhoMayStillWriteCountsAsASession) {
  const Tenant& tenant = rig_.agent->options().tenants.OfDomain(DomainId{0});
  ReserveAndHangUp(1);
  // The other tenant is guaranteed a quarter.
  constexpr size_t kShare = kMaxSessions - kMaxSessions / 4;
  while (rig_.agent->sessions().table().size() < kShare - 1) {
    ASSERT_TRUE(rig_.agent->sessions().Open(SessionTenants::Own(tenant), NextToken()).ok());
  }
  const auto refused = rig_.agent->sessions().Open(SessionTenants::Own(tenant), NextToken());
  EXPECT_EQ(refused.status().message(),
            "sessions: the tenant has 768 of the node's 1024, and the free ones are kept for other "
            "tenants; release some; 1 in use are of workers that hung up and may still write");
  const Tenant& other = rig_.agent->options().tenants.OfDomain(DomainId{1});
  while (rig_.agent->sessions().table().size() < kMaxSessions - 1) {
    ASSERT_TRUE(rig_.agent->sessions().Open(SessionTenants::Own(other), NextToken()).ok());
  }
  EXPECT_EQ(
      rig_.agent->sessions().Open(SessionTenants::Own(other), NextToken()).status().message(),
      "sessions: all 1024 of the node are in use; release some, or try again later; 1 in use are "
      "of workers that hung up and may still write");
  rig_.agent->Audit();
  rig_.agent->sessions().WritesOver(leaving_);
  EXPECT_TRUE(rig_.agent->sessions().Open(SessionTenants::Own(tenant), NextToken()).ok());
}

// A worker that writes with its CPU has no step whose end could free its slots.
TEST(HangupOnGpuTest, ASlotOfThePoolIsNobodyElsesEither) {
  AgentRig rig({.gpu_slots = 2});
  const SessionId leaving = rig.Open(0);
  ASSERT_TRUE(rig.agent->sessions().AttachToGpu(leaving).ok());
  ASSERT_TRUE(rig.agent->flows().putter.Reserve(rig.NameRun(leaving, 50, 2), Tier::kGpu).ok());
  EXPECT_TRUE(rig.agent->CloseSession(leaving));
  rig.Pass(2 * kSweepInterval);
  EXPECT_EQ(rig.agent->gpus().at(0).pool().used_bytes(), 2 * kRigBlockBytes);
  EXPECT_EQ(rig.agent->sessions().reservations().late_bytes(Tier::kGpu), 2 * kRigBlockBytes);
  EXPECT_EQ(rig.Put(rig.session, 1, 4), 4u) << "host memory has none that are late";
  rig.agent->sessions().WritesOver(leaving);
  EXPECT_EQ(rig.agent->gpus().at(0).pool().used_bytes(), 0u);
  rig.agent->Audit();
}

}  // namespace
}  // namespace kvtier

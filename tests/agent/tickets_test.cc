// Tests that a ticket holds blocks between two sessions of a tenant: once for each rank, until its
// deadline, within its tenant's limits, and for nobody else.
#include "agent/flows/tickets.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "agent/limits.h"
#include "core/space.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(100);
constexpr absl::Duration kLifetime = absl::Seconds(20);

class TicketsTest : public ::testing::Test {
 protected:
  absl::StatusOr<TakenTicket> Take(SessionId of, uint64_t first, size_t count,
                                   uint32_t redemptions = 1, absl::Duration lifetime = kLifetime) {
    TicketRequest request{.redemptions = redemptions, .lifetime = lifetime};
    request.sequences.push_back(
        {.run = rig_.NameRun(of, first, count), .deadline = rig_.executor.Now() + kShort});
    return rig_.Run(rig_.agent->flows().tickets.Take(std::move(request)));
  }
  absl::StatusOr<std::vector<Onboarded>> Redeem(SessionId by, const TicketId& id,
                                                uint32_t rank = 0) {
    const BlockRun run = rig_.NameRun(by, 0, 1);
    return rig_.agent->flows().tickets.Redeem(by, TicketHolder::Of(run), id, rank, {run.space});
  }
  void Release(SessionId of, const Onboarded& onboarded) {
    for (const LeasedBlock& block : onboarded.blocks) {
      rig_.agent->sessions().leases().Release(of, std::span(&block.lease, 1));
    }
  }
  uint64_t Pinned() { return rig_.agent->index().pinned_bytes(); }

  AgentRig rig_{{.slots = 16, .disk = false}};
  const SessionId taker_ = rig_.Open(0);
  const SessionId worker_ = rig_.Open(0);
};

TEST_F(TicketsTest, ABlockThatIsFoundDamagedIsNotRedeemed) {
  ASSERT_EQ(rig_.Put(taker_, 1, 3), 3);
  const TakenTicket ticket = *Take(taker_, 1, 3);
  rig_.agent->flows().host_prover.Condemn(
      *rig_.agent->index().PinOf(rig_.NameRun(taker_, 2, 1).keys[0]));
  EXPECT_EQ(Take(taker_, 1, 3)->sequences[0].indices, std::vector<size_t>{0});
  const std::vector<Onboarded> redeemed = *Redeem(worker_, ticket.id);
  EXPECT_EQ(redeemed[0].blocks.size(), 1);
  EXPECT_EQ(redeemed[0].missed, MissReason::kDamaged);
  rig_.agent->Audit();
}

TEST_F(TicketsTest, EachRankRedeemsOnceAndThenNothingIsHeld) {
  ASSERT_EQ(rig_.Put(taker_, 1, 3), 3);
  const TakenTicket ticket = *Take(taker_, 1, 4, /*redemptions=*/2);
  ASSERT_NE(ticket.id, TicketId{});
  ASSERT_EQ(ticket.sequences.size(), 1);
  EXPECT_EQ(ticket.sequences[0].indices, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(ticket.sequences[0].missed, MissReason::kAbsent);
  EXPECT_EQ(rig_.agent->flows().tickets.blocks(), 3);
  // The session that took the ticket may be gone.
  rig_.agent->CloseSession(taker_);

  const std::vector<Onboarded> first = *Redeem(worker_, ticket.id, 0);
  ASSERT_EQ(first.size(), 1);
  ASSERT_EQ(first[0].blocks.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(HoldsBlock(AgentRig::Seed(DomainId{}), TestEngineKey(1 + i),
                           rig_.Host(worker_, first[0].blocks[i].offset)));
  }
  EXPECT_EQ(Redeem(worker_, ticket.id, 0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Redeem(worker_, ticket.id, 2).status().code(), absl::StatusCode::kNotFound);
  const SessionId other = rig_.Open(0);
  const std::vector<Onboarded> second = *Redeem(other, ticket.id, 1);
  EXPECT_EQ(second[0].blocks.size(), 3);
  EXPECT_EQ(rig_.agent->flows().tickets.size(), 0);
  EXPECT_EQ(Redeem(other, ticket.id, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_GT(Pinned(), 0) << "the leases hold them now";
  Release(worker_, first[0]);
  Release(other, second[0]);
  EXPECT_EQ(Pinned(), 0);
  rig_.agent->Audit();
}

TEST_F(TicketsTest, WhatItHoldsIsNotEvictedAndIsAfterItsDeadline) {
  ASSERT_EQ(rig_.Put(taker_, 1, 2), 2);
  const TakenTicket ticket = *Take(taker_, 1, 2);
  ASSERT_EQ(rig_.Put(taker_, 100, 16), 14) << "the ticket's two slots are not to be had";
  rig_.Pass(kLifetime - absl::Milliseconds(1));
  EXPECT_EQ(rig_.agent->flows().tickets.size(), 1);
  rig_.Pass(absl::Milliseconds(200));
  EXPECT_EQ(rig_.agent->flows().tickets.size(), 0);
  EXPECT_EQ(Pinned(), 0);
  EXPECT_EQ(Redeem(worker_, ticket.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(rig_.Put(taker_, 200, 16), 16);
}

TEST_F(TicketsTest, ALateOneIsNoneAlsoBeforeItIsSwept) {
  ASSERT_EQ(rig_.Put(taker_, 1, 1), 1);
  const TakenTicket ticket = *Take(taker_, 1, 1, 1, absl::Milliseconds(1));
  rig_.time.RunUntil(ticket.deadline);
  EXPECT_EQ(Redeem(worker_, ticket.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TicketsTest, AnothersTicketIsOneThatWasNeverThere) {
  ASSERT_EQ(rig_.Put(taker_, 1, 1), 1);
  const TakenTicket ticket = *Take(taker_, 1, 1);
  const SessionId stranger = rig_.Open(1);
  const absl::Status others = Redeem(stranger, ticket.id).status();
  EXPECT_EQ(others, Redeem(stranger, TicketId{7}).status());
  EXPECT_EQ(others.code(), absl::StatusCode::kNotFound);
  rig_.agent->flows().tickets.Release(TicketHolder::Of(rig_.NameRun(stranger, 1, 1)), ticket.id);
  EXPECT_EQ(Redeem(worker_, ticket.id)->front().blocks.size(), 1) << "it is not used up";
}

TEST_F(TicketsTest, AnotherSpaceIsRefusedByNameAndTheTicketStays) {
  ASSERT_EQ(rig_.Put(taker_, 1, 1), 1);
  const TakenTicket ticket = *Take(taker_, 1, 1);
  const BlockRun run = rig_.NameRun(worker_, 0, 1);
  Tickets& tickets = rig_.agent->flows().tickets;
  SpaceDigest other = run.space;
  other.bytes[0] ^= 1;
  const auto with = [&](std::vector<SpaceDigest> spaces) {
    return tickets.Redeem(worker_, TicketHolder::Of(run), ticket.id, 0, std::move(spaces)).status();
  };
  EXPECT_EQ(with({other}).message(), "space_ids[0]: must be the space of the ticket's sequence 0");
  EXPECT_EQ(with({}).message(), "space_ids: 0; must be 1, one for each sequence of the ticket");
  EXPECT_TRUE(with({run.space}).ok());
}

TEST_F(TicketsTest, WithoutABlockThereIsNoTicket) {
  const TakenTicket ticket = *Take(taker_, 1, 2);
  EXPECT_EQ(ticket.id, TicketId{});
  EXPECT_EQ(ticket.sequences[0].missed, MissReason::kAbsent);
  EXPECT_EQ(rig_.agent->flows().tickets.size(), 0);
}

TEST_F(TicketsTest, OnesTicketsHoldNoMoreThanHalfOfItsMemory) {
  ASSERT_EQ(rig_.Put(taker_, 1, 16), 16);
  const TakenTicket half = *Take(taker_, 1, 8);
  const absl::Status more = Take(taker_, 9, 1).status();
  EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Pinned(), 8 * kRigBlockBytes) << "what was brought for it is let go";
  rig_.agent->flows().tickets.Release(TicketHolder::Of(rig_.NameRun(taker_, 1, 1)), half.id);
  EXPECT_EQ(Pinned(), 0);
  EXPECT_TRUE(Take(taker_, 9, 1).ok());
  rig_.agent->Audit();
}

TEST_F(TicketsTest, OneHasSoManyAndAnotherAsMany) {
  ASSERT_EQ(rig_.Put(taker_, 1, 1), 1);
  for (size_t i = 0; i < 8; ++i) ASSERT_TRUE(Take(taker_, 1, 1).ok());
  // A block that several tickets hold counts for each of them.
  EXPECT_EQ(Take(taker_, 1, 1).status().code(), absl::StatusCode::kResourceExhausted);
  const SessionId stranger = rig_.Open(1);
  ASSERT_EQ(rig_.Put(stranger, 1, 1), 1);
  EXPECT_TRUE(Take(stranger, 1, 1).ok());
}

TEST(TicketLimitsTest, AreTheirs) {
  AgentRig rig({.slots = 4 * kMaxTicketsPerDomain, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1);
  const auto take = [&](uint32_t redemptions, absl::Duration lifetime) {
    TicketRequest request{.redemptions = redemptions, .lifetime = lifetime};
    request.sequences.push_back(
        {.run = rig.NameRun(rig.session, 1, 1), .deadline = rig.executor.Now() + kShort});
    return rig.Run(rig.agent->flows().tickets.Take(std::move(request))).status();
  };
  EXPECT_EQ(take(0, kLifetime).message(), "redemptions: 0; must be 1 to 64");
  EXPECT_EQ(take(kMaxRedemptions + 1, kLifetime).message(), "redemptions: 65; must be 1 to 64");
  EXPECT_EQ(take(1, absl::ZeroDuration()).message(), "lifetime_ms: 0; must be 1 to 60000");
  EXPECT_EQ(take(1, kMaxTicketLifetime + absl::Milliseconds(1)).message(),
            "lifetime_ms: 60001; must be 1 to 60000");
  for (size_t i = 0; i < kMaxTicketsPerDomain; ++i) ASSERT_TRUE(take(1, kLifetime).ok()) << i;
  EXPECT_EQ(take(1, kLifetime).message(),
            "tickets: the tenant has 1024, the most that it may have; redeem or release some");
}

}  // namespace
}  // namespace kvtier::testing

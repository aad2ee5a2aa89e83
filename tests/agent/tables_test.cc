// Tests the tables: sessions, tenants, leases, reservations, and their limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;
using testing::TestSpace;

constexpr DomainId kDomain{0};  // Domain of the rig's first tenant.

TenantTable::Entry TenantNumber(size_t number) {
  return {.name = absl::StrCat("tenant-", number),
          .secret = absl::StrCat("a secret of sixteen bytes, number ", number)};
}

TEST(TenantTableTest, EachTenantHasADomainInTheOrderGiven) {
  const auto table = TenantTable::Create({TenantNumber(0), TenantNumber(1)});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->Find("tenant-1")->domain, DomainId{1});
  EXPECT_EQ(table->Find("tenant-2"), nullptr);
}

TEST(TenantTableTest, RefusesWhatWouldMakeTenantsOne) {
  const TenantTable::Entry one = TenantNumber(1);
  EXPECT_TRUE(absl::IsInvalidArgument(TenantTable::Create({one, one}).status()));
  // Two tenants of one secret would name the same blocks in two arenas, and a worker of one would
  // get an offset into the other's memory.
  const TenantTable::Entry alias{.name = "alias", .secret = one.secret};
  EXPECT_TRUE(absl::IsInvalidArgument(TenantTable::Create({one, alias}).status()));
}

TEST(TenantTableTest, ASecretHasSixteenBytesExceptTheOpenTenants) {
  EXPECT_TRUE(TenantTable::Create({{.name = "default"}}).ok());
  EXPECT_FALSE(TenantTable::Create({{.name = "acme"}}).ok());
  EXPECT_FALSE(TenantTable::Create({{.name = "acme", .secret = "fifteen bytes.."}}).ok());
  EXPECT_TRUE(TenantTable::Create({{.name = "acme", .secret = "sixteen bytes..."}}).ok());
  EXPECT_FALSE(TenantTable::Create({{.name = "-", .secret = "sixteen bytes..."}}).ok());
}

TEST(TenantTableTest, HoldsKMaxTenantsAndNotOneMore) {
  std::vector<TenantTable::Entry> entries;
  EXPECT_FALSE(TenantTable::Create(entries).ok());
  for (size_t i = 0; i < kMaxTenants; ++i) entries.push_back(TenantNumber(i));
  EXPECT_TRUE(TenantTable::Create(entries).ok());
  entries.push_back(TenantNumber(kMaxTenants));
  EXPECT_FALSE(TenantTable::Create(entries).ok());
}

TEST(TenantTableTest, ADroppedTenantComesAgainInANewDomainOnceNothingOfItIsHeld) {
  TenantTable table = *TenantTable::Create({TenantNumber(0), TenantNumber(1)});
  table.Leave(DomainId{0});
  EXPECT_EQ(table.Find("tenant-0"), nullptr);
  EXPECT_EQ(table.DomainOf(TenantTagOf("tenant-0")), std::nullopt);
  EXPECT_EQ(table.OfDomain(DomainId{0}).name, "tenant-0") << "what is held says whose it is";
  // Otherwise a block of the old domain would be found by its key, and taken to lie in the new
  // domain.
  EXPECT_TRUE(absl::IsFailedPrecondition(table.Check(TenantNumber(0))));
  TenantTable::Entry alias = TenantNumber(0);
  alias.name = "alias";
  EXPECT_TRUE(absl::IsFailedPrecondition(table.Check(alias)));
  table.Forget(DomainId{0});
  ASSERT_EQ(table.Check(TenantNumber(0)), absl::OkStatus());
  EXPECT_EQ(table.Add(TenantNumber(0)).domain, DomainId{2});
  EXPECT_EQ(table.DomainOf(TenantTagOf("tenant-0")), DomainId{2});
}

TEST(TenantTableTest, AShutTenantIsThereAndIsNotLetIn) {
  TenantTable table = *TenantTable::Create({TenantNumber(0)});
  table.Shut(DomainId{0});
  EXPECT_NE(table.Find("tenant-0"), nullptr);
  EXPECT_EQ(table.FindAdmitted("tenant-0"), nullptr);
  table.Reopen(DomainId{0});
  EXPECT_EQ(table.FindAdmitted("tenant-0"), table.Find("tenant-0"));
}

TEST(TenantTableTest, MembersOfAShareGroupAreLetInAndNobodyElse) {
  TenantTable table = *TenantTable::Create({TenantNumber(0), TenantNumber(1), TenantNumber(2)});
  const Tenant& group = table.OfDomain(DomainId{0});
  const Tenant& reader = table.OfDomain(DomainId{1});
  EXPECT_EQ(table.Admitted("tenant-1", ""), SessionTenants::Own(reader));
  EXPECT_EQ(table.Admitted("tenant-1", "tenant-0"), std::nullopt);
  table.SetMembers(DomainId{0}, {{"tenant-1", GroupAccess::kRead}});
  EXPECT_EQ(table.Admitted("tenant-1", "tenant-0"),
            (SessionTenants{.home = &group, .payer = &reader, .may_write = false}));
  EXPECT_EQ(table.Admitted("tenant-2", "tenant-0"), std::nullopt);
  EXPECT_EQ(table.Admitted("tenant-0", "tenant-0"), std::nullopt) << "it is no member of itself";
  EXPECT_EQ(table.Admitted("tenant-1", "tenant-2"), std::nullopt);
  EXPECT_EQ(table.Admitted("tenant-1", "nothing"), std::nullopt);
  table.SetMembers(DomainId{0}, {{"tenant-1", GroupAccess::kWrite}});
  EXPECT_TRUE(table.Admitted("tenant-1", "tenant-0")->may_write);
  table.Shut(DomainId{0});
  EXPECT_EQ(table.Admitted("tenant-1", "tenant-0"), std::nullopt) << "the group is shut";
  table.Reopen(DomainId{0});
  table.Shut(DomainId{1});
  EXPECT_EQ(table.Admitted("tenant-1", "tenant-0"), std::nullopt) << "the member is shut";
}

TEST(TenantTableTest, GivesKMaxDomainsInItsLifeAndNotOneMore) {
  TenantTable table = *TenantTable::Create({TenantNumber(0)});
  for (size_t i = 1; i < kMaxDomains; ++i) {
    ASSERT_EQ(table.Check(TenantNumber(i)), absl::OkStatus()) << i;
    const DomainId domain = table.Add(TenantNumber(i)).domain;
    table.Leave(domain);
    table.Forget(domain);
  }
  const absl::Status refused = table.Check(TenantNumber(kMaxDomains));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("restart the agent"));
}

class SessionTableTest : public ::testing::Test {
 protected:
  static SessionToken Token(size_t number) {
    return {static_cast<uint8_t>(number), static_cast<uint8_t>(number >> 8)};
  }
  SessionTenants Own(size_t tenant) const {
    return SessionTenants::Own(tenants_.OfDomain(static_cast<DomainId>(tenant)));
  }
  const TenantTable tenants_ = *TenantTable::Create({TenantNumber(0), TenantNumber(1)});
  SessionTable sessions_;
};

TEST_F(SessionTableTest, ATokenFindsItsSessionUntilItCloses) {
  const SessionId id = *sessions_.Open(Own(0), Token(1));
  EXPECT_EQ(*sessions_.Find(Token(1)), id);
  sessions_.Close(id);
  sessions_.Close(id);
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions_.Find(Token(1)).status()));
  EXPECT_FALSE(sessions_.IsOpen(id));
}

TEST_F(SessionTableTest, HoldsKMaxSessionsAndNotOneMore) {
  std::vector<SessionId> ids;
  for (size_t i = 0; i < kMaxSessions; ++i) {
    ids.push_back(*sessions_.Open(Own(0), Token(i)));
  }
  const auto more = sessions_.Open(Own(0), Token(kMaxSessions));
  EXPECT_TRUE(absl::IsResourceExhausted(more.status()));
  sessions_.Close(ids.front());
  EXPECT_TRUE(sessions_.Open(Own(0), Token(kMaxSessions)).ok());
}

TEST_F(SessionTableTest, HoldsKMaxSpacesPerSessionAndNotOneMore) {
  const SessionId id = *sessions_.Open(Own(0), Token(1));
  for (size_t i = 1; i <= kMaxSpacesPerSession; ++i) {
    EXPECT_EQ(*sessions_.AddSpace(id, TestSpace(i * 4096)), i);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(sessions_.AddSpace(id, TestSpace(1)).status()));
  EXPECT_EQ(*sessions_.AddSpace(id, TestSpace(4096)), 1u) << "a known space takes no room";
}

TEST_F(SessionTableTest, ASpaceThatIsRemovedMakesRoomAndItsIdIsNeverAnothers) {
  const SessionId id = *sessions_.Open(Own(0), Token(1));
  for (size_t i = 1; i <= kMaxSpacesPerSession; ++i) {
    ASSERT_TRUE(sessions_.AddSpace(id, TestSpace(i * 4096), i).ok());
  }
  sessions_.RemoveSpace(id, 3);
  sessions_.RemoveSpace(id, 3);
  sessions_.RemoveSpace(id, 99);
  const auto keys = AgentRig::Keys(1, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(sessions_.NameRun(id, 3, std::nullopt, keys).status()));
  EXPECT_TRUE(sessions_.NameRun(id, 4, std::nullopt, keys).ok());
  const uint32_t again = *sessions_.AddSpace(id, TestSpace(uint64_t{3} * 4096), 17);
  EXPECT_EQ(again, kMaxSpacesPerSession + 1);
  EXPECT_EQ(*sessions_.AddSpace(id, TestSpace(uint64_t{3} * 4096), 17), again) << "asked for twice";
  EXPECT_TRUE(absl::IsResourceExhausted(sessions_.AddSpace(id, TestSpace(1), 18).status()));
  // The worker registers the space again before it removes its first registration.
  sessions_.RemoveSpace(id, 1);
  const uint32_t another = *sessions_.AddSpace(id, TestSpace(uint64_t{3} * 4096), 19);
  sessions_.RemoveSpace(id, again);
  EXPECT_TRUE(sessions_.NameRun(id, another, std::nullopt, keys).ok());
  EXPECT_EQ(sessions_.spaces().All().size(), kMaxSpacesPerSession);
  sessions_.Close(id);
  for (const auto* space : sessions_.spaces().All()) EXPECT_EQ(space->sessions, 0u);
}

TEST_F(SessionTableTest, TenantsAndSpacesNameTheSameEngineKeyDifferently) {
  const SessionId one = *sessions_.Open(Own(0), Token(1));
  const SessionId other = *sessions_.Open(Own(1), Token(2));
  const uint32_t small = *sessions_.AddSpace(one, TestSpace(4096));
  const uint32_t large = *sessions_.AddSpace(one, TestSpace(8192));
  const uint32_t others = *sessions_.AddSpace(other, TestSpace(4096));
  const auto keys = AgentRig::Keys(1, 1);
  const BlockKey key = sessions_.NameRun(one, small, std::nullopt, keys)->keys[0];
  EXPECT_NE(key, sessions_.NameRun(one, large, std::nullopt, keys)->keys[0]);
  EXPECT_NE(key, sessions_.NameRun(other, others, std::nullopt, keys)->keys[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(sessions_.NameRun(one, 0, std::nullopt, keys).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(sessions_.NameRun(one, 3, std::nullopt, keys).status()));
}

TEST(LeaseTest, ALeaseEndsByReleaseByDeadlineOrWithItsSession) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 3), 3u);
  LeaseTable& leases = rig.agent->sessions().leases();
  const Onboarded onboarded = *rig.Run(rig.Onboard(rig.session, 1, 3, absl::Seconds(1)));
  ASSERT_EQ(leases.size(), 3u);
  const std::vector<LeaseId> first = {onboarded.blocks[0].lease};
  leases.Release(SessionId{99}, first);
  EXPECT_EQ(leases.size(), 3u) << "another session's release is ignored";
  leases.Release(rig.session, first);
  leases.Release(rig.session, first);
  EXPECT_EQ(leases.size(), 2u);
  EXPECT_EQ(rig.EvictHost(), 0u) << "a held child keeps its parent";
  rig.Pass(kLeaseDuration + kLeaseGrace);
  EXPECT_EQ(leases.size(), 2u) << "the grace belongs to the reader";
  rig.Pass(2 * kSweepInterval);
  EXPECT_EQ(leases.size(), 0u);
  EXPECT_EQ(rig.agent->stats().expired_leases, 2u);
  EXPECT_EQ(rig.EvictHost(), 3u);
}

TEST(LeaseTest, ASessionHoldsKMaxLeasesAndNotOneMore) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  const BlockKey key = rig.NameRun(rig.session, 1, 1).keys[0];
  LeaseTable& leases = rig.agent->sessions().leases();
  const absl::Time deadline = rig.executor.Now() + absl::Seconds(5);
  for (size_t i = 0; i < kMaxLeasesPerSession; ++i) {
    ASSERT_TRUE(leases.Grant(rig.session, kDomain, *rig.agent->index().PinOf(key), deadline).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      leases.Grant(rig.session, kDomain, *rig.agent->index().PinOf(key), deadline).status()));
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 0u) << "no lease, no hit";
  const SessionId other = rig.Open(0);
  EXPECT_EQ(rig.Hits(other, 1, 1), 1u) << "the limit is each session's own";
  leases.Audit();
  rig.agent->CloseSession(rig.session);
  rig.Pass(kSweepInterval);
  EXPECT_EQ(leases.size(), 0u);
  EXPECT_EQ(rig.agent->index().pinned_bytes(), 0u);
}

// Regression: each of 1,024 sessions could hold 65,536 leases: 14 GB that no stated limit counted.
TEST(LeaseTest, AllSessionsOfATenantTogetherHoldItsShareAndNotOneMore) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  const BlockKey key = rig.NameRun(rig.session, 1, 1).keys[0];
  LeaseTable& leases = rig.agent->sessions().leases();
  const absl::Time deadline = rig.executor.Now() + absl::Seconds(5);
  const auto grant = [&](SessionId session) {
    return leases.Grant(session, kDomain, *rig.agent->index().PinOf(key), deadline).status();
  };
  // Half is guaranteed, to both tenants alike.
  constexpr size_t kShare = kMaxLeases - kMaxLeases / 2 / 2;
  SessionId session = rig.session;
  for (size_t i = 0; i < kShare; ++i) {
    if (i % kMaxLeasesPerSession == 0) session = rig.Open(0);
    ASSERT_TRUE(grant(session).ok()) << i;
  }
  const absl::Status refused = grant(rig.session);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(),
              ::testing::HasSubstr(
                  absl::StrCat("leases: the tenant has ", kShare, " of the node's ", kMaxLeases)));
  leases.Audit();
  const SessionId other = rig.Open(1);
  ASSERT_EQ(rig.Put(other, 1, 4), 4u);
  EXPECT_EQ(rig.Hits(other, 1, 4), 4u) << "the other tenant has its guarantee";
  rig.agent->CloseSession(session);
  EXPECT_TRUE(grant(rig.session).ok()) << "there is room again";
}

TEST(LeaseTest, TheyEndInTheOrderOfTheirDeadlines) {
  LeaseTable table(/*domains=*/1);
  const absl::Time start = absl::UnixEpoch();
  for (const int second : {3, 1, 2}) {
    ASSERT_TRUE(table.Grant(SessionId{1}, kDomain, Pin(), start + absl::Seconds(second)).ok());
  }
  EXPECT_EQ(table.Expire(start + absl::Milliseconds(1500)), 1u);
  EXPECT_EQ(table.Expire(start + absl::Milliseconds(2500)), 1u);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.Expire(start + absl::Seconds(4)), 1u);
}

// Regression: one tenant's reservations could be all that the node may have.
TEST(ReservationTest, ATenantLeavesTheOthersTheirGuarantees) {
  NodeGpus no_gpus({}, {});
  ReservationTable table(&no_gpus, 1, /*domains=*/2);
  uint64_t next = 0;
  const auto add = [&](DomainId domain) {
    PendingBlock block{.domain = domain};
    block.meta.key = testing::NumberedKey(++next);
    return table.Add(SessionId{1 + next / kMaxReservationsPerSession}, std::move(block),
                     absl::UnixEpoch());
  };
  for (size_t i = 0; i < kMaxReservations - kMaxReservations / 4; ++i) {
    ASSERT_TRUE(add(DomainId{0}).ok()) << i;
  }
  EXPECT_THAT(add(DomainId{0}).status().message(),
              ::testing::HasSubstr("reservations: the tenant has 49152 of the node's 65536"));
  const auto others = add(DomainId{1});
  ASSERT_TRUE(others.ok());
  table.End(*others);
  EXPECT_EQ(table.size(), 49152u);
}

TEST(ReservationTest, ALateReservationFreesItsKeyAndKeepsItsSlot) {
  AgentRig rig;
  const BlockRun run = rig.NameRun(rig.session, 1, 1);
  const Reserved reserved = *rig.agent->flows().putter.Reserve(run, Tier::kHost);
  rig.Pass(kReservationDuration + 2 * kSweepInterval);
  EXPECT_EQ(rig.agent->stats().expired_reservations, 1u);
  EXPECT_EQ(rig.agent->host().used_bytes(), kRigBlockBytes) << "the worker may still write there";
  // Another worker puts the block meanwhile, so the late commit publishes nothing.
  const SessionId other = rig.Open(0);
  EXPECT_EQ(rig.Put(other, 1, 1), 1u);
  EXPECT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, {reserved.blocks[0].id})), 0u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 1u);
  const std::vector<ReservationId> late = {reserved.blocks[0].id};
  rig.agent->sessions().reservations().Release(rig.session, late);
  EXPECT_EQ(rig.agent->host().used_bytes(), kRigBlockBytes) << "the other's block alone";
  rig.agent->Audit();
}

TEST(ReservationTest, WhatACommitNamesAsUnwrittenIsFreeAndCounted) {
  AgentRig rig({.gpu_slots = 4});
  const SessionId other = rig.Open(0);
  ReservationTable& table = rig.agent->sessions().reservations();
  const auto reserve = [&](uint64_t first, size_t count, Tier target) {
    const Reserved reserved =
        *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, first, count), target);
    std::vector<ReservationId> ids;
    for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
    return ids;
  };
  const std::vector<ReservationId> host = reserve(1, 3, Tier::kHost);
  const std::vector<ReservationId> gpu = reserve(50, 2, Tier::kGpu);
  EXPECT_EQ(table.GiveBackUnwritten(other, host), 0u) << "they are another session's";
  EXPECT_EQ(table.GiveBackUnwritten(rig.session, host), 3u);
  EXPECT_EQ(table.GiveBackUnwritten(rig.session, host), 0u);
  EXPECT_EQ(table.GiveBackUnwritten(rig.session, gpu), 2u);
  EXPECT_EQ(table.unwritten_blocks(Tier::kHost), 3u);
  EXPECT_EQ(table.unwritten_blocks(Tier::kGpu), 2u);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(rig.agent->host().used_bytes(), 0u);
  EXPECT_EQ(rig.Put(other, 1, 3), 3u) << "the keys are free, too";
}

TEST(ReservationTest, ASessionHoldsKMaxReservationsAndNotOneMore) {
  AgentRig rig({.slots = kMaxReservationsPerSession + 4, .disk = false});
  const BlockRun all = rig.NameRun(rig.session, 0, kMaxReservationsPerSession + 1);
  const Reserved reserved = *rig.agent->flows().putter.Reserve(all, Tier::kHost);
  size_t held = 0;
  for (const ReservedBlock& block : reserved.blocks) {
    if (block.state == ReservedBlock::State::kReserved) ++held;
  }
  EXPECT_EQ(held, kMaxReservationsPerSession);
  EXPECT_EQ(reserved.blocks.back().state, ReservedBlock::State::kNoRoom);
  rig.agent->CloseSession(rig.session);
  rig.agent->sessions().WritesOver(rig.session);
  EXPECT_EQ(rig.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig.agent->host().used_bytes(), 0u);
}

TEST(ReservationTest, AllSessionsTogetherHoldKMaxReservationsAndNotOneMore) {
  NodeGpus no_gpus({}, {});
  ReservationTable table(&no_gpus, 1, /*domains=*/1);
  for (uint64_t i = 0; i <= kMaxReservations; ++i) {
    PendingBlock block;
    block.meta.key = testing::NumberedKey(i);
    const auto added =
        table.Add(SessionId{i / kMaxReservationsPerSession}, std::move(block), absl::UnixEpoch());
    ASSERT_EQ(added.ok(), i < kMaxReservations) << i;
  }
  EXPECT_EQ(table.size(), kMaxReservations);
}

TEST(ReservationTest, TheyAreLateInTheOrderOfTheirDeadlines) {
  NodeGpus no_gpus({}, {});
  ReservationTable table(&no_gpus, 1, /*domains=*/1);
  const absl::Time start = absl::UnixEpoch();
  for (const uint64_t second : {3, 1, 2}) {
    PendingBlock block;
    block.meta.key = testing::NumberedKey(second);
    ASSERT_TRUE(table.Add(SessionId{1}, std::move(block), start + absl::Seconds(second)).ok());
  }
  EXPECT_EQ(table.Expire(start + absl::Milliseconds(1500)), 1u);
  EXPECT_FALSE(table.IsPending(testing::NumberedKey(1)));
  EXPECT_TRUE(table.IsPending(testing::NumberedKey(2)));
  EXPECT_EQ(table.Expire(start + absl::Seconds(4)), 2u);
  EXPECT_FALSE(table.IsPending(testing::NumberedKey(3)));
  EXPECT_EQ(table.size(), 3u) << "late ones keep their slots";
}

TEST(SessionTest, AKilledWorkersHoldingsAreAllBackWhenItsProcessIsGone) {
  AgentRig rig({.gpu_slots = 4});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 4), 4u);
  ASSERT_TRUE(rig.Run(rig.Onboard(rig.session, 1, 4, absl::Seconds(1))).ok());
  ASSERT_TRUE(rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 50, 3), Tier::kHost).ok());
  ASSERT_TRUE(rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 60, 2), Tier::kGpu).ok());
  const auto pending = rig.Spawn(rig.Onboard(rig.session, 1, 4, absl::Seconds(1), Tier::kGpu));
  rig.agent->CloseSession(rig.session);
  EXPECT_EQ(rig.agent->sessions().leases().size(), 0u);
  EXPECT_EQ(rig.agent->host().used_bytes(), 7 * kRigBlockBytes) << "it may still write";
  rig.agent->sessions().ProcessGone(rig.session);
  EXPECT_EQ(rig.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig.agent->host().used_bytes(), 4 * kRigBlockBytes);
  rig.Pass(absl::Seconds(1));
  ASSERT_TRUE(pending->has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition((*pending)->status())) << "its request came too late";
  EXPECT_EQ(rig.agent->index().pinned_bytes(), 0u);
  EXPECT_EQ(rig.agent->gpus().pinned_bytes(), 0u);
  rig.agent->Audit();
}

}  // namespace
}  // namespace kvtier

// Tests that a kept prefix stays in host memory until its time is over, its tenant ends it, or the
// tenant is erased: within its tenant's quota, and for nobody else.
#include "agent/flows/keep_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kShort = absl::Milliseconds(100);
constexpr absl::Duration kTtl = absl::Minutes(5);

class KeepPrefixTest : public ::testing::Test {
 protected:
  explicit KeepPrefixTest(bool disk = false) : rig_({.slots = 16, .disk = disk}) {}
  ~KeepPrefixTest() override { rig_.agent->Audit(); }

  Kept Keep(SessionId by, uint64_t first, size_t count, absl::Duration ttl = kTtl) {
    KeepRequest request{.sequences = {}, .deadline = rig_.executor.Now() + kShort, .ttl = ttl};
    request.sequences.push_back(rig_.NameRun(by, first, count));
    return *rig_.Run(rig_.agent->flows().prefix_keeper.Keep(std::move(request)));
  }
  size_t End(SessionId by, KeptId id) {
    return rig_.Run(rig_.agent->flows().prefix_keeper.End(DomainOf(by), id));
  }
  DomainId DomainOf(SessionId session) { return rig_.agent->sessions().table().DomainOf(session); }
  std::vector<KeptPrefixes::Listed> List(SessionId of) {
    return rig_.agent->flows().kept_prefixes.List(DomainOf(of), rig_.executor.Now());
  }
  KeptPrefixes::Use UseOf(SessionId of) {
    return rig_.agent->flows().kept_prefixes.UseOf(DomainOf(of));
  }
  // Puts as many other blocks as the tenant's memory takes; returns how many.
  size_t FillMemory(SessionId by) { return rig_.Put(by, 1000 + 100 * ++fills_, 16); }

  AgentRig rig_;
  const SessionId other_ = rig_.Open(1);  // Session of the other tenant.
  uint64_t fills_ = 0;
};

class KeepPrefixFromDiskTest : public KeepPrefixTest {
 protected:
  KeepPrefixFromDiskTest() : KeepPrefixTest(/*disk=*/true) {}
};

TEST_F(KeepPrefixTest, WhatIsKeptIsNotEvictedUntilItsTimeIsOver) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3);
  const Kept kept = Keep(rig_.session, 1, 4);
  EXPECT_THAT(kept.sequences[0].indices, ElementsAre(0, 1, 2));
  EXPECT_EQ(kept.sequences[0].missed, MissReason::kAbsent);
  EXPECT_EQ(kept.limit, KeepLimit::kNone);
  EXPECT_EQ(kept.deadline, rig_.executor.Now() + kTtl);
  EXPECT_EQ(rig_.agent->index().pinned_bytes(), 0u) << "it may be moved";
  EXPECT_FALSE(rig_.agent->index().IsPinned(rig_.NameRun(rig_.session, 1, 1).keys[0]));
  rig_.agent->CloseSession(rig_.session);  // A kept prefix is the tenant's, not the session's.
  rig_.session = rig_.Open(0);
  EXPECT_EQ(FillMemory(rig_.session), 13) << "the three slots are not to be had";
  rig_.Pass(kTtl - absl::Seconds(1));
  FillMemory(rig_.session);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 3), 3);
  rig_.Pass(absl::Seconds(2));
  EXPECT_TRUE(List(rig_.session).empty());
  EXPECT_EQ(FillMemory(rig_.session), 16);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 3), 0);
}

TEST_F(KeepPrefixTest, TheSameKeysAgainRenewIt) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2);
  const Kept first = Keep(rig_.session, 1, 3, absl::Minutes(2));
  ASSERT_EQ(rig_.Put(rig_.session, 3, 1, TestEngineKey(2)), 1);
  rig_.Pass(absl::Minutes(1));
  const Kept again = Keep(rig_.session, 1, 3, absl::Minutes(2));
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.deadline, first.deadline + absl::Minutes(1));
  EXPECT_THAT(again.sequences[0].indices, ElementsAre(0, 1, 2)) << "and has what came since";
  EXPECT_EQ(UseOf(rig_.session),
            (KeptPrefixes::Use{.prefixes = 1, .blocks = 3, .bytes = 3 * kRigBlockBytes}));
  // A shorter time to live does not shorten the promise.
  EXPECT_EQ(Keep(rig_.session, 1, 3, absl::Seconds(1)).deadline, again.deadline);
  EXPECT_NE(Keep(rig_.session, 1, 2).id, first.id) << "other keys are another prefix";
}

TEST_F(KeepPrefixTest, WhatSeveralPrefixesKeepTakesItsBytesOnceAndLastsAsLongAsAny) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3);
  const Kept shorter = Keep(rig_.session, 1, 2);
  const Kept longer = Keep(rig_.session, 1, 3);
  EXPECT_EQ(UseOf(rig_.session),
            (KeptPrefixes::Use{.prefixes = 2, .blocks = 5, .bytes = 3 * kRigBlockBytes}));
  EXPECT_EQ(End(rig_.session, longer.id), 1u);
  FillMemory(rig_.session);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 3), 2);
  EXPECT_EQ(End(rig_.session, shorter.id), 1u);
  EXPECT_EQ(UseOf(rig_.session), KeptPrefixes::Use());
}

TEST_F(KeepPrefixTest, BeyondTheQuotaOnlyTheLeadingBlocksThatFit) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 8), 8);
  // The quota is a quarter of 16 blocks.
  const Kept kept = Keep(rig_.session, 1, 8);
  EXPECT_THAT(kept.sequences[0].indices, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(kept.limit, KeepLimit::kTenantBytes);
  ASSERT_EQ(rig_.Put(rig_.session, 100, 1), 1);
  const Kept none = Keep(rig_.session, 100, 1);
  EXPECT_EQ(none.id, KeptId{});
  EXPECT_TRUE(none.sequences[0].indices.empty());
  EXPECT_EQ(none.limit, KeepLimit::kTenantBytes);
  const KeptPrefixes& all = rig_.agent->flows().kept_prefixes;
  EXPECT_EQ(all.RefusedOf(DomainOf(rig_.session)), 2u) << "operators see both";
  EXPECT_EQ(all.RefusedOf(DomainOf(other_)), 0u);
  EXPECT_EQ(List(rig_.session).size(), 1u);
}

TEST_F(KeepPrefixTest, OneThatKeepsWithoutEndMeetsItsOwnQuotaAndAnotherTenantNothing) {
  for (uint64_t i = 0; i < 2 * kMaxKeptPrefixesPerDomain; ++i) {
    rig_.Put(rig_.session, 1, 4);
    Keep(rig_.session, 1, 1 + i % 4);
    rig_.Put(rig_.session, 10 + i, 1);
    Keep(rig_.session, 10 + i, 1);
  }
  EXPECT_EQ(UseOf(rig_.session).bytes, 4 * kRigBlockBytes);
  EXPECT_EQ(FillMemory(rig_.session), 12) << "it has the rest of its memory";
  EXPECT_EQ(FillMemory(other_), 16);
  ASSERT_EQ(rig_.Put(other_, 1, 4), 4);
  EXPECT_EQ(Keep(other_, 1, 4).sequences[0].indices.size(), 4u);
  EXPECT_EQ(List(other_).size(), 1u);
}

TEST_F(KeepPrefixTest, SoManyPrefixesAndNoMore) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 1), 1);
  // A set may name a block several times; sets that do so a different number of times are
  // different.
  const auto keep = [&](size_t times) {
    BlockRun set = rig_.NameRun(rig_.session, 1, 1);
    set.is_set = true;
    set.keys.resize(times, set.keys[0]);
    KeepRequest request{.sequences = {}, .deadline = rig_.executor.Now() + kShort, .ttl = kTtl};
    request.sequences.push_back(std::move(set));
    return *rig_.Run(rig_.agent->flows().prefix_keeper.Keep(std::move(request)));
  };
  for (size_t i = 1; i <= 4; ++i) EXPECT_EQ(keep(i).sequences[0].indices.size(), i);
  EXPECT_EQ(UseOf(rig_.session).bytes, kRigBlockBytes);
  EXPECT_EQ(UseOf(rig_.session).blocks, 1u + 2 + 3 + 4);
}

TEST_F(KeepPrefixTest, AnothersPrefixIsOneThatWasNeverThere) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2);
  const Kept kept = Keep(rig_.session, 1, 2);
  EXPECT_EQ(End(other_, kept.id), 0u);
  EXPECT_EQ(End(other_, KeptId{77}), 0u);
  EXPECT_EQ(End(other_, KeptId{}), 0u) << "all of its own";
  EXPECT_TRUE(List(other_).empty());
  ASSERT_EQ(List(rig_.session).size(), 1u);
  ASSERT_EQ(rig_.Put(other_, 1, 1), 1);
  EXPECT_EQ(Keep(other_, 1, 1).id, kept.id) << "each tenant counts for itself";
}

TEST_F(KeepPrefixTest, AnErasureEndsThemAll) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3);
  ASSERT_EQ(rig_.Put(other_, 1, 3), 3);
  Keep(rig_.session, 1, 3);
  Keep(other_, 1, 3);
  // Without a disk there is no key to destroy, but memory is emptied.
  EXPECT_FALSE(rig_.Run(rig_.agent->flows().tenant_eraser.Erase("acme")).ok());
  EXPECT_EQ(rig_.agent->index().blocks_in_host(DomainOf(other_)), 0u);
  EXPECT_EQ(UseOf(other_), KeptPrefixes::Use());
  EXPECT_EQ(List(rig_.session).size(), 1u);
}

TEST_F(KeepPrefixTest, WhatIsDroppedIsKeptNoLonger) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3);
  const Kept kept = Keep(rig_.session, 1, 3);
  const auto drop = [&](uint64_t first, size_t count) {
    return rig_.Run(rig_.agent->flows().block_deleter.Delete(
        {rig_.NameRun(rig_.session, first, count)}, DeleteScope::kNamed));
  };
  EXPECT_EQ(drop(3, 1).blocks, 1u);
  ASSERT_EQ(List(rig_.session).size(), 1u);
  EXPECT_EQ(List(rig_.session)[0].blocks, 2u);
  EXPECT_EQ(List(rig_.session)[0].bytes, 2 * kRigBlockBytes);
  // A block that comes back is kept again when the prefix is renewed, and not before.
  ASSERT_EQ(rig_.Put(rig_.session, 3, 1, TestEngineKey(2)), 1);
  EXPECT_EQ(List(rig_.session)[0].blocks, 2u);
  EXPECT_EQ(Keep(rig_.session, 1, 3).id, kept.id);
  EXPECT_EQ(List(rig_.session)[0].blocks, 3u);
  // The drop ends the promise, but a leased block stays for its reader.
  const Onboarded held = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, kShort));
  EXPECT_EQ(drop(1, 3).held, 1u);
  EXPECT_TRUE(List(rig_.session).empty()) << "nothing is left of it";
  EXPECT_EQ(UseOf(rig_.session), KeptPrefixes::Use());
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&held.blocks[0].lease, 1));
  EXPECT_EQ(FillMemory(rig_.session), 16);
}

TEST_F(KeepPrefixTest, AnOperatorWhoEmptiesHostMemoryLeavesThem) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 5), 5);
  Keep(rig_.session, 1, 3);
  EXPECT_EQ(rig_.EvictHost(), 2u);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 5), 3);
}

TEST_F(KeepPrefixTest, ALeaseOfABlockThatIsKeptEndsAndItIsKeptStill) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 1), 1);
  const Onboarded before = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, kShort));
  const Kept kept = Keep(rig_.session, 1, 1);
  EXPECT_TRUE(rig_.agent->index().IsPinned(rig_.NameRun(rig_.session, 1, 1).keys[0]));
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&before.blocks[0].lease, 1));
  rig_.agent->Audit();
  const Onboarded during = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, kShort));
  End(rig_.session, kept.id);
  EXPECT_EQ(FillMemory(rig_.session), 15) << "the lease holds it";
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&during.blocks[0].lease, 1));
  EXPECT_EQ(FillMemory(rig_.session), 16);
}

TEST_F(KeepPrefixTest, ADamagedBlockLeavesThoughItIsKept) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 2), 2);
  Keep(rig_.session, 1, 2);
  const BlockKey key = rig_.NameRun(rig_.session, 2, 1).keys[0];
  rig_.Host(rig_.session, rig_.agent->index().Find(key)->offset)[7] ^= std::byte{1};
  rig_.agent->flows().host_prover.Suspect(key);
  rig_.Pass(absl::Seconds(1));
  EXPECT_FALSE(rig_.agent->index().In(Tier::kHost, key));
  EXPECT_EQ(List(rig_.session)[0].blocks, 1u);
  EXPECT_EQ(UseOf(rig_.session).bytes, kRigBlockBytes);
}

TEST_F(KeepPrefixTest, ATtlIsASecondToAnHour) {
  const auto status = [&](absl::Duration ttl) {
    KeepRequest request{.sequences = {}, .deadline = rig_.executor.Now() + kShort, .ttl = ttl};
    request.sequences.push_back(rig_.NameRun(rig_.session, 1, 1));
    return rig_.Run(rig_.agent->flows().prefix_keeper.Keep(std::move(request))).status();
  };
  EXPECT_EQ(status(absl::Milliseconds(999)).message(), "ttl_ms: 999; must be 1000 to 3600000");
  EXPECT_EQ(status(kMaxKeptTtl + absl::Milliseconds(1)).message(),
            "ttl_ms: 3600001; must be 1000 to 3600000");
  EXPECT_TRUE(status(kMinKeptTtl).ok());
  EXPECT_TRUE(status(kMaxKeptTtl).ok());
  EXPECT_TRUE(List(rig_.session).empty()) << "nothing was here to keep";
}

TEST_F(KeepPrefixFromDiskTest, WhatOnlyADiskHasIsLoadedFirst) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  rig_.EvictHost();
  EXPECT_THAT(Keep(rig_.session, 1, 4).sequences[0].indices, ElementsAre(0, 1, 2, 3));
  rig_.EvictHost();
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), 4u);
}

TEST_F(KeepPrefixFromDiskTest, WhatDoesNotComeInTimeIsNotKept) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  rig_.EvictHost();
  rig_.disk.Stall();
  const Kept kept = Keep(rig_.session, 1, 4);
  EXPECT_EQ(kept.id, KeptId{});
  EXPECT_EQ(kept.sequences[0].missed, MissReason::kDeadline);
  rig_.disk.Resume();
}

TEST_F(KeepPrefixFromDiskTest, AnErasureMeanwhileLeavesNothingKept) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  rig_.EvictHost();
  rig_.disk.Stall();
  KeepRequest request{.sequences = {}, .deadline = rig_.executor.Now() + kTtl, .ttl = kTtl};
  request.sequences.push_back(rig_.NameRun(rig_.session, 1, 4));
  const auto keeping = rig_.Spawn(rig_.agent->flows().prefix_keeper.Keep(std::move(request)));
  rig_.agent->index().CountErasure(DomainOf(rig_.session));
  rig_.disk.Resume();
  while (!keeping->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ((*keeping)->value().id, KeptId{});
  EXPECT_EQ(UseOf(rig_.session), KeptPrefixes::Use());
}

}  // namespace
}  // namespace kvtier::testing

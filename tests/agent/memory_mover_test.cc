// Tests host memory that moves between tenants, by one agent in virtual time.
#include "agent/flows/memory_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;

constexpr uint64_t kSlotsPerSlab = 4;
constexpr DomainId kHog{0};
constexpr DomainId kQuiet{1};

class MemoryMoverTest : public ::testing::Test {
 protected:
  // Each tenant is guaranteed four slabs of four blocks.
  MemoryMoverTest()
      : rig_({.slots = 16,
              .eviction = {.host = EvictionPolicy::kLru},
              .disk = false,
              .host_memory = HostMemory::kMoving}),
        hog_(rig_.session),
        quiet_(rig_.Open(1)) {}

  // Puts blocks one by one, each without a parent; returns how many got room.
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
  uint64_t SlabsOf(DomainId domain) const {
    return rig_.agent->host().slots(domain).present_slabs();
  }
  // Sets a field of a tenant's share of host memory, in slabs.
  absl::Status Set(const std::string& tenant, ShareField field, uint64_t slabs) {
    const uint64_t bytes = slabs * kSlotsPerSlab * kRigBlockBytes;
    const TenantChange change{.name = tenant,
                              .values = {{.tier = Tier::kHost, .field = field, .value = bytes}}};
    return rig_.Run(rig_.agent->tenants().Set(change, std::nullopt));
  }
  // Fills all memory that the hog may borrow; keeps and returns one block in each of its first
  // `slabs` slabs.
  std::vector<BlockKey> KeepOneInEachSlab(uint64_t slabs = 7) {
    KVT_CHECK(Set("default", ShareField::kGuaranteed, 7).ok());
    Fill(hog_, 1000, 28);
    KeptPrefixes& prefixes = rig_.agent->flows().kept_prefixes;
    const auto begun = prefixes.Begin(kHog, {.hi = 1}, rig_.executor.Now() + absl::Hours(1));
    std::vector<BlockKey> kept;
    for (uint64_t i = 0; i < slabs * kSlotsPerSlab; i += kSlotsPerSlab) {
      kept.push_back(rig_.NameRun(hog_, 1000 + i, 1).keys[0]);
      KVT_CHECK(prefixes.Add(begun.handle, kept.back()) == KeepLimit::kNone);
    }
    prefixes.Filled(begun.handle);
    return kept;
  }
  // Leases blocks, and returns how many.
  size_t Lease(SessionId of, uint64_t first, size_t count) {
    const auto onboarded = rig_.Run(rig_.Onboard(of, first, count, absl::Milliseconds(10)));
    return onboarded.ok() ? onboarded->blocks.size() : 0;
  }
  // Gives memory time to move.
  void Settle() { rig_.Pass(absl::Seconds(5)); }
  // Puts `count` blocks; after each, the tenant may get memory that others do not use.
  void Fill(SessionId of, uint64_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Put(of, first + i, 1);
      Settle();
    }
  }

  AgentRig rig_;
  const SessionId hog_;
  const SessionId quiet_;
};

TEST_F(MemoryMoverTest, ATenantBorrowsWhatAnotherDoesNotUse) {
  EXPECT_EQ(SlabsOf(kHog), 4u);
  Fill(hog_, 1000, 28);
  EXPECT_EQ(SlabsOf(kHog), 7u);
  EXPECT_EQ(SlabsOf(kQuiet), 1u);
  EXPECT_EQ(Found(hog_, 1000, 28), 28u) << "none had to leave";
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, WhatWasBorrowedIsGivenBackAndTheOwnerKeepsAllItsBlocks) {
  Fill(hog_, 1000, 28);
  Fill(quiet_, 1, 16);
  EXPECT_EQ(SlabsOf(kQuiet), 4u);
  EXPECT_EQ(SlabsOf(kHog), 4u);
  EXPECT_EQ(Found(quiet_, 1, 16), 16u);
  EXPECT_EQ(Found(hog_, 1000, 28), 16u);
  const EvictionLedger& ledger = rig_.agent->evictor().ledger();
  EXPECT_EQ(ledger.SufferedBy(kHog), 12u);
  EXPECT_EQ(ledger.Of(kHog), 12u);
  uint64_t taken = 0;
  ledger.ForEachTakenBy(kQuiet, [&taken](DomainId, uint64_t blocks) { taken += blocks; });
  EXPECT_EQ(taken, 12u);
  EXPECT_EQ(ledger.CausedBy(kQuiet), 12u);
  EXPECT_EQ(ledger.CausedBy(kHog), 0u) << "what it evicted of its own does not count";
  EXPECT_EQ(ledger.SufferedBy(kQuiet), 0u);
  EXPECT_EQ(rig_.agent->mover().figures().stray_bytes, 0u) << "what left was given back at once";
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, MemoryBeyondAMaximumLeavesTheTenantThoughNobodyWantsIt) {
  Fill(hog_, 1000, 28);
  ASSERT_EQ(SlabsOf(kHog), 7u);
  ASSERT_TRUE(Set("default", ShareField::kMaximum, 3).ok());
  Settle();
  EXPECT_EQ(SlabsOf(kHog), 3u);
  EXPECT_EQ(SlabsOf(kQuiet), 5u);
  EXPECT_EQ(Found(hog_, 1000, 28), 12u);
  ASSERT_TRUE(Set("acme", ShareField::kMaximum, 4).ok());
  Settle();
  EXPECT_EQ(SlabsOf(kQuiet), 4u) << "one slab is the system's, as no tenant may have it";
  Fill(hog_, 2000, 20);
  EXPECT_EQ(SlabsOf(kHog), 3u);
  EXPECT_EQ(Found(hog_, 2000, 20), 12u) << "a put evicts the tenant's own";
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, NothingOfAGuaranteeLeavesForAnother) {
  Fill(quiet_, 1, 16);
  Put(hog_, 1000, 200);
  Settle();
  Put(hog_, 2000, 200);
  EXPECT_EQ(Found(quiet_, 1, 16), 16u);
  EXPECT_EQ(rig_.agent->evictor().ledger().SufferedBy(kQuiet), 0u);
}

TEST_F(MemoryMoverTest, ASlabThatIsLeasedIsWaitedForAndItsBlocksGetNoNewLeases) {
  Fill(hog_, 1000, 28);
  // The test takes one lease in each of the hog's slabs.
  size_t leased = 0;
  for (uint64_t i = 0; i < 28; i += kSlotsPerSlab) leased += Lease(hog_, 1000 + i, 1);
  ASSERT_EQ(leased, 7u);
  Put(quiet_, 1, 4);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(SlabsOf(kQuiet), 1u) << "all of the hog's slabs are leased";
  size_t refused = 0;
  for (uint64_t i = 0; i < 28; i += kSlotsPerSlab) {
    refused += Lease(hog_, 1000 + i, 1) == 0 ? 1 : 0;
  }
  EXPECT_EQ(refused, 1u) << "the slab that is to leave";
  // The leases end, and so does the wait, although the hog goes on leasing.
  for (int i = 0; i < 20; ++i) {
    rig_.Pass(absl::Seconds(1));
    for (uint64_t block = 0; block < 28; ++block) Lease(hog_, 1000 + block, 1);
  }
  EXPECT_GE(SlabsOf(kQuiet), 2u);
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, AReservationIsWrittenAndCommittedInASlabThatIsToLeave) {
  Fill(hog_, 1000, 24);
  const std::vector<ReservationId> reserved = rig_.Reserve(hog_, 5000, 1);
  ASSERT_EQ(reserved.size(), 1u);
  Put(quiet_, 1, 12);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.Commit(hog_, reserved), 1u);
  Fill(quiet_, 1, 16);
  Settle();
  EXPECT_EQ(SlabsOf(kQuiet), 4u);
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, AShareThatIsSetMovesMemory) {
  Fill(hog_, 1000, 28);
  Put(quiet_, 1, 4);
  ASSERT_TRUE(Set("acme", ShareField::kGuaranteed, 6).ok());
  Fill(quiet_, 1, 24);
  EXPECT_EQ(SlabsOf(kQuiet), 6u);
  EXPECT_EQ(SlabsOf(kHog), 2u);
  EXPECT_FALSE(Set("default", ShareField::kGuaranteed, 3).ok());
}

// Regression: the slab with the head of a conversation was the oldest, and left with its blocks.
// Then nothing of the conversation was found any more.
TEST_F(MemoryMoverTest, AConversationThatGivesMemoryBackLosesItsEndWhereverThatLies) {
  Fill(hog_, 1000, 28);
  ASSERT_EQ(SlabsOf(kHog), 7u);
  ASSERT_EQ(rig_.Put(hog_, 1, 28), 28u);
  ASSERT_EQ(Found(hog_, 1000, 28), 0u);
  Fill(quiet_, 1, 16);
  ASSERT_EQ(SlabsOf(kHog), 4u);
  EXPECT_EQ(rig_.Hits(hog_, 1, 28), 16u);
  EXPECT_EQ(rig_.agent->evictor().ledger().SufferedBy(kHog), 12u);
  EXPECT_GT(rig_.agent->mover().figures().copied, 0u);
  EXPECT_LE(rig_.agent->mover().figures().copied, 12u) << "once each, of three slabs";
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, BlocksThatLeaveFirstLeaveWithoutACopyIfTheyAreInTheSlab) {
  Fill(hog_, 1000, 28);
  Fill(quiet_, 1, 16);
  EXPECT_EQ(Found(hog_, 1012, 16), 16u) << "the last that were put";
  EXPECT_EQ(rig_.agent->mover().figures().copied, 0u);
}

// Every other block is used once more, so two blocks of each slab are worth more than the rest.
TEST_F(MemoryMoverTest, TheBlocksOfTheTenantThatLeaveFirstMakeRoomWhicheverSlabsTheyAreIn) {
  Fill(hog_, 1000, 28);
  for (uint64_t i = 0; i < 28; i += 2) ASSERT_EQ(rig_.Hits(hog_, 1000 + i, 1), 1u);
  rig_.Pass(absl::Minutes(1));  // The leases end.
  Fill(quiet_, 1, 16);
  ASSERT_EQ(SlabsOf(kHog), 4u);
  size_t used_again = 0;
  for (uint64_t i = 0; i < 28; i += 2) used_again += Found(hog_, 1000 + i, 1);
  EXPECT_EQ(used_again, 14u);
  EXPECT_EQ(Found(hog_, 1000, 28), 16u);
  EXPECT_LE(rig_.agent->mover().figures().copied, 12u);
}

TEST_F(MemoryMoverTest, WhereNothingElseMayLeaveASlabTakesItsBlocksAlong) {
  Fill(hog_, 1000, 28);
  // Every block is leased, except those of one slab.
  ASSERT_EQ(Lease(hog_, 1004, 1), 1u);
  for (uint64_t i = 5; i < 28; ++i) ASSERT_EQ(Lease(hog_, 1000 + i, 1), 1u);
  ASSERT_EQ(rig_.Hits(hog_, 1000, 1), 1u);
  Put(quiet_, 1, 4);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(SlabsOf(kHog), 6u);
  EXPECT_EQ(Found(hog_, 1000, 4), 0u);
  EXPECT_EQ(Found(hog_, 1004, 24), 24u);
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, BlocksThatAreKeptMoveOutOfASlabThatIsToLeave) {
  constexpr uint64_t kSlabs = 4;  // The guarantee, whose quota is a block for each.
  const std::vector<BlockKey> kept = KeepOneInEachSlab(kSlabs);
  ASSERT_TRUE(Set("default", ShareField::kGuaranteed, kSlabs).ok());
  Fill(quiet_, 1, 16);
  EXPECT_EQ(SlabsOf(kQuiet), 4u);
  EXPECT_GE(rig_.agent->mover().figures().copied, 3u);
  for (uint64_t i = 0; i < kSlabs * kSlotsPerSlab; i += kSlotsPerSlab) {
    EXPECT_EQ(rig_.Hits(hog_, 1000 + i, 1), 1u) << "with its bytes, in block " << i;
  }
  rig_.agent->Audit();
}

// While the kept block of a slab is copied, leases of other blocks there end. These blocks are then
// the first to leave when the mover reserves its next slot.
TEST_F(MemoryMoverTest, ABlockThatIsReleasedWhileAKeptOneMovesMayLeave) {
  const std::vector<BlockKey> kept = KeepOneInEachSlab();
  std::vector<std::pair<BlockKey, LeaseId>> leases;
  for (uint64_t i = 0; i < 28; ++i) {
    if (i % kSlotsPerSlab == 0 || i % kSlotsPerSlab == 3) continue;
    const auto got = rig_.Run(rig_.Onboard(hog_, 1000 + i, 1, absl::Milliseconds(10)));
    leases.emplace_back(rig_.NameRun(hog_, 1000 + i, 1).keys[0], got->blocks[0].lease);
  }
  for (uint64_t i = 3; i < 28; i += kSlotsPerSlab) ASSERT_EQ(rig_.Hits(hog_, 1000 + i, 1), 1u);

  const BlockIndex& index = rig_.agent->index();
  const auto is_copied = [&](const BlockKey& key) { return index.IsPinned(key); };
  size_t released = 0;
  rig_.byte_threads.then = [&] {
    if (std::ranges::none_of(kept, is_copied)) return;
    for (const auto& [key, lease] : leases) {
      if (!index.IsPinned(key) || !index.host_order(kHog).IsLeaving(index.Find(key)->slot))
        continue;
      rig_.agent->sessions().leases().Release(hog_, std::span(&lease, 1));
      ++released;
    }
  };
  ASSERT_TRUE(Set("default", ShareField::kGuaranteed, 4).ok());
  Put(quiet_, 1, 4);
  rig_.Pass(absl::Seconds(1));
  EXPECT_GE(released, 2u);
  EXPECT_LT(SlabsOf(kHog), 7u);
  rig_.agent->Audit();
}

TEST_F(MemoryMoverTest, BlocksThatChangedWhereTheyLayAreDroppedAndNotCopied) {
  const std::vector<BlockKey> kept = KeepOneInEachSlab();
  for (const BlockKey& key : kept) {
    const uint64_t offset = rig_.agent->index().Find(key)->slot.offset().value;
    rig_.agent->host().arena(kHog).bytes()[offset] ^= std::byte{1};
  }
  ASSERT_TRUE(Set("default", ShareField::kGuaranteed, 4).ok());
  Fill(quiet_, 1, 16);
  EXPECT_EQ(SlabsOf(kQuiet), 4u);
  EXPECT_EQ(rig_.agent->mover().figures().copied, 0u);
  const auto is_here = [&](const BlockKey& key) {
    return rig_.agent->index().In(Tier::kHost, key);
  };
  EXPECT_EQ(std::ranges::count_if(kept, is_here), 4) << "those of slabs that stayed";
}

// A worker maps its whole arena, and the kernel adds memory wherever the worker touches it.
TEST_F(MemoryMoverTest, MemoryThatAWorkerTakesByTouchingItIsGivenBack) {
  Settle();
  const Arena& arena = rig_.agent->host().arena(kHog);
  const uint64_t held = arena.held_bytes();
  ASSERT_LT(held, arena.bytes().size());
  for (uint64_t at = 0; at < arena.bytes().size(); at += 4096) {
    static_cast<volatile std::byte*>(arena.bytes().data())[at];
  }
  EXPECT_GT(arena.held_bytes(), held);
  Settle();
  EXPECT_EQ(arena.held_bytes(), held);
  EXPECT_GT(rig_.agent->mover().figures().stray_bytes, 0u);
}

TEST_F(MemoryMoverTest, BytesOfOneTenantAreNeverSeenInTheMemoryOfAnother) {
  Fill(hog_, 1000, 28);
  Fill(quiet_, 1, 12);
  const Arena& arena = rig_.agent->host().arena(kQuiet);
  for (uint64_t slab = 0; slab < rig_.agent->host().slots(kQuiet).slab_count(); ++slab) {
    if (rig_.agent->host().slots(kQuiet).UseOf(static_cast<uint32_t>(slab)).used > 0) continue;
    for (const std::byte byte : arena.bytes().subspan(slab * kSlotsPerSlab * kRigBlockBytes,
                                                      kSlotsPerSlab * kRigBlockBytes)) {
      ASSERT_EQ(byte, std::byte{0});
    }
  }
}

}  // namespace
}  // namespace kvtier

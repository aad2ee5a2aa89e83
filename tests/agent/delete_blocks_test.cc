// Tests that a tenant's blocks leave every tier when it says so, and nobody else's do.
#include "agent/flows/delete_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

class DeleteBlocksTest : public ::testing::Test {
 protected:
  // Waits until all blocks that were put are on disk and no copy pins them.
  void Settle() {
    while (rig_.agent->flows().offloader->pending() > 0) ASSERT_TRUE(rig_.time.Step());
  }
  Deleted Drop(uint64_t first, size_t count) {
    return rig_.Run(rig_.agent->flows().block_deleter.Delete(
        {rig_.NameRun(rig_.session, first, count)}, DeleteScope::kDescendants));
  }
  Deleted Delete(SessionId by, uint64_t first, size_t count) {
    return rig_.Run(rig_.agent->flows().block_deleter.Delete({rig_.NameRun(by, first, count)},
                                                             DeleteScope::kNamed));
  }

  AgentRig rig_;
};

TEST_F(DeleteBlocksTest, FromMemoryAndFromTheDiskAndForGood) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  const SessionId other = rig_.Open(1);
  ASSERT_EQ(rig_.PutOnDisk(other, 1, 4), 4);
  const Deleted deleted = Delete(rig_.session, 2, 5);
  EXPECT_EQ(deleted.blocks, 3) << "of the five, this node had three";
  EXPECT_EQ(deleted.held, 0);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 1);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kDisk), 1 + 4);
  EXPECT_EQ(rig_.Hits(other, 1, 4), 4) << "another tenant's blocks of the same keys stay";
  EXPECT_EQ(Delete(rig_.session, 2, 5).blocks, 0);
  // The blocks may be put again.
  EXPECT_EQ(rig_.Put(rig_.session, 2, 3), 3);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 4);
  rig_.agent->Audit();
}

TEST_F(DeleteBlocksTest, ALeasedBlockStaysWhereItIsReadAndIsCounted) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 2), 2);
  const Onboarded held = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, absl::Milliseconds(100)));
  ASSERT_EQ(held.blocks.size(), 1);
  const Deleted deleted = Delete(rig_.session, 1, 2);
  EXPECT_EQ(deleted.blocks, 1);
  EXPECT_EQ(deleted.held, 1);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kDisk), 0) << "the disk has forgotten it";
  EXPECT_TRUE(HoldsBlock(AgentRig::Seed(DomainId{}), TestEngineKey(1),
                         rig_.Host(rig_.session, held.blocks[0].offset)));
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&held.blocks[0].lease, 1));
  EXPECT_EQ(Delete(rig_.session, 1, 2).blocks, 1);
  EXPECT_EQ(rig_.agent->index().copies(), 0);
}

TEST_F(DeleteBlocksTest, WhatDescendsFromAPrefixGoesWithItFromAllTiers) {
  // 1 to 4, on which 10 and 11 and 20 follow; 30 is another conversation's.
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  ASSERT_EQ(rig_.Put(rig_.session, 10, 2, TestEngineKey(4)), 2);
  Settle();
  rig_.EvictHost();  // These blocks are on disk alone now.
  ASSERT_EQ(rig_.Put(rig_.session, 20, 1, TestEngineKey(2)), 1);
  ASSERT_EQ(rig_.Put(rig_.session, 30, 1), 1);
  Settle();
  const Deleted deleted = Drop(2, 1);
  EXPECT_EQ(deleted.blocks, 6u) << "2, 3, 4, 10, 11 and 20";
  EXPECT_EQ(deleted.held, 0u);
  EXPECT_TRUE(deleted.is_whole);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 4), 1);
  for (const uint64_t gone : {10, 11, 20}) EXPECT_EQ(rig_.Hits(rig_.session, gone, 1), 0);
  EXPECT_EQ(rig_.Hits(rig_.session, 30, 1), 1);
  EXPECT_EQ(Drop(2, 1).blocks, 0u);
  rig_.agent->Audit();
}

TEST_F(DeleteBlocksTest, WhatIsHeldOnTheWayStaysAndItsKinGo) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 3), 3);
  ASSERT_EQ(rig_.Put(rig_.session, 10, 3, TestEngineKey(2)), 3);
  Settle();
  const Onboarded held = *rig_.Run(rig_.Onboard(rig_.session, 11, 1, absl::Milliseconds(100)));
  const Deleted deleted = Drop(1, 1);
  EXPECT_EQ(deleted.blocks, 5u);
  EXPECT_EQ(deleted.held, 1u);
  EXPECT_TRUE(deleted.is_whole);
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&held.blocks[0].lease, 1));
  // The agent no longer knows block 11 as a descendant of block 10, which is gone: it goes because
  // the run names it.
  EXPECT_EQ(Drop(10, 2).blocks, 1u);
  EXPECT_EQ(rig_.agent->index().copies(), 0u);
}

TEST_F(DeleteBlocksTest, AHeldParentDoesNotKeepItsChildren) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 3), 3);
  const Onboarded held = *rig_.Run(rig_.Onboard(rig_.session, 1, 1, absl::Milliseconds(100)));
  EXPECT_EQ(Drop(1, 1).blocks, 2u);
  rig_.agent->sessions().leases().Release(rig_.session, std::span(&held.blocks[0].lease, 1));
  EXPECT_EQ(Drop(1, 1).blocks, 1u);
}

TEST(DeleteBlocksDeepTest, AChainDeeperThanWhatIsRememberedGoesWhole) {
  constexpr size_t kBlocks = 2 * kMaxDropDepth + 100;
  AgentRig rig({.slots = kBlocks, .disk = false});
  for (size_t put = 0; put < kBlocks;) {
    std::optional<EngineKey> parent;
    if (put > 0) parent = TestEngineKey(put - 1);
    put += rig.Put(rig.session, put, std::min<size_t>(kBlocks - put, 4000), parent);
  }
  ASSERT_EQ(rig.agent->index().copies(), kBlocks);
  const Deleted deleted = rig.Run(rig.agent->flows().block_deleter.Delete(
      {rig.NameRun(rig.session, 0, 1)}, DeleteScope::kDescendants));
  EXPECT_EQ(deleted.blocks, kBlocks);
  EXPECT_TRUE(deleted.is_whole);
  EXPECT_EQ(rig.agent->index().copies(), 0u);
}

TEST(DeleteBlocksDeepTest, WhereTooMuchIsHeldItEndsAndSaysSo) {
  if (kSanitized) GTEST_SKIP() << "4,096 held blocks take minutes under a sanitizer";
  constexpr size_t kChildren = kMaxDropHeld + 10;
  AgentRig rig({.slots = kChildren + 4, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 0, 1), 1);
  std::vector<Pin> pins;
  for (size_t i = 1; i <= kChildren; ++i) {
    ASSERT_EQ(rig.Put(rig.session, i, 1, TestEngineKey(0)), 1);
    pins.push_back(*rig.agent->index().PinOf(rig.NameRun(rig.session, i, 1).keys[0]));
  }
  const auto drop = [&] {
    return rig.Run(rig.agent->flows().block_deleter.Delete({rig.NameRun(rig.session, 0, 1)},
                                                           DeleteScope::kDescendants));
  };
  const Deleted held = drop();
  EXPECT_FALSE(held.is_whole);
  EXPECT_EQ(held.blocks, 0u);
  EXPECT_EQ(held.held, kMaxDropHeld + 1);
  pins.clear();
  EXPECT_EQ(drop().blocks, kChildren + 1);
}

TEST_F(DeleteBlocksTest, TwoDropsOfATenantTakeTurns) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4);
  const auto drop = [&] {
    return rig_.Spawn(rig_.agent->flows().block_deleter.Delete({rig_.NameRun(rig_.session, 1, 1)},
                                                               DeleteScope::kDescendants));
  };
  const auto first = drop();
  const auto second = drop();
  ASSERT_FALSE(first->has_value()) << "it waits for the disk";
  while (!first->has_value() || !second->has_value()) ASSERT_TRUE(rig_.time.Step());
  EXPECT_EQ((*first)->blocks, 4u);
  EXPECT_EQ((*second)->blocks, 0u);
  EXPECT_TRUE((*first)->is_whole && (*second)->is_whole);
}

TEST(DeleteBlocksWithoutDiskTest, FromMemory) {
  AgentRig rig({.disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 2), 2);
  BlockRun set = rig.NameRun(rig.session, 1, 2);
  set.is_set = true;
  EXPECT_EQ(rig.Run(rig.agent->flows().block_deleter.Delete({set}, DeleteScope::kNamed)).blocks, 2);
  EXPECT_EQ(rig.agent->index().copies(), 0);
}

}  // namespace
}  // namespace kvtier::testing

// A tenant's blocks leave every tier when it says so, and nobody else's do.
#include "agent/flows/delete_blocks.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

class DeleteBlocksTest : public ::testing::Test {
 protected:
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
  // They may be put again.
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

// Tests a node with two disks, one of which hangs: calls that wait for that disk take no turns from
// calls to the other.
#include "agent/disk/node_disks.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;

// The first of two disks hangs. Calls that wait for it take no turn from the second disk once the
// first is out of service.
class HungDiskTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kUntilQuarantined = absl::Seconds(3);
  size_t OnFirst() { return rig_.agent->disks().set()->Statuses()[0].block_count; }
  bool FirstServes() { return rig_.agent->disks().set()->Statuses()[0].serving; }
  void FillBoth(size_t blocks) {
    ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, blocks), blocks);
    rig_.EvictHost();
    on_first_ = OnFirst();
    ASSERT_GT(on_first_, blocks / 3);
    ASSERT_LT(on_first_, 2 * blocks / 3);
    rig_.disk.Stall();
  }

  AgentRig rig_{{.slots = 4 * kMaxLoadsRunning, .second_disk = true}};
  size_t on_first_ = 0;
};

TEST_F(HungDiskTest, DoesNotUseUpTheWrites) {
  constexpr size_t kBlocks = 6 * kMaxOffloadsRunning;
  rig_.disk.Stall();
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  rig_.Pass(absl::Seconds(1));
  EXPECT_GT(rig_.agent->flows().offloader->pending(), kMaxOffloadsRunning) << "not yet quarantined";
  rig_.Pass(kUntilQuarantined);
  EXPECT_FALSE(FirstServes());
  EXPECT_EQ(rig_.agent->flows().offloader->pending(), kMaxOffloadsRunning) << "the ones that hang";
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kDisk), kBlocks - kMaxOffloadsRunning);
  rig_.disk.Resume();
  rig_.Pass(kUntilQuarantined);
  EXPECT_EQ(rig_.agent->flows().offloader->pending(), 0u);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kDisk), kBlocks);
  rig_.agent->Audit();
}

TEST_F(HungDiskTest, DoesNotUseUpTheLoads) {
  constexpr size_t kBlocks = 3 * kMaxLoadsRunning;
  FillBoth(kBlocks);
  ASSERT_EQ(rig_.Run(rig_.agent->flows().onboarder.Prefetch(rig_.NameRun(rig_.session, 1, kBlocks),
                                                            true)),
            kBlocks);
  rig_.Pass(kUntilQuarantined);
  EXPECT_FALSE(FirstServes());
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), kBlocks - on_first_);
}

TEST_F(HungDiskTest, DoesNotUseUpThePeersReads) {
  constexpr size_t kBlocks = 4 * kMaxPeerDiskReads;
  FillBoth(kBlocks);
  const auto serve_all = [&] {
    size_t served = 0;
    for (const BlockKey& key : rig_.NameRun(rig_.session, 1, kBlocks).keys) {
      const absl::Time deadline = rig_.executor.Now() + absl::Milliseconds(1);
      auto serve = rig_.agent->flows().peer_server.Serve(DomainId{}, key, deadline);
      served += rig_.Run(std::move(serve)).has_value() ? 1 : 0;
    }
    return served;
  };
  serve_all();
  EXPECT_LT(serve_all(), kBlocks - on_first_) << "the hung reads take every place";
  rig_.Pass(kUntilQuarantined);
  EXPECT_FALSE(FirstServes());
  EXPECT_EQ(serve_all(), kBlocks - on_first_);
}
}  // namespace
}  // namespace kvtier

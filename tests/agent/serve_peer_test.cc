// Tests PeerServer: blocks that it holds still for other nodes, from host memory and from disk.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);

TEST(ServePeerTest, ServesFromHostInPlaceAndFromDiskThroughABuffer) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  const BlockKey key = rig.NameRun(rig.session, 1, 1).keys[0];
  {
    const auto served =
        rig.Run(rig.agent->flows().peer_server.Serve(DomainId{}, key, rig.executor.Now() + kLong));
    ASSERT_TRUE(served.has_value());
    EXPECT_EQ(rig.EvictHost(), 0u) << "held while it is served";
  }
  EXPECT_EQ(rig.EvictHost(), 1u);
  const auto served =
      rig.Run(rig.agent->flows().peer_server.Serve(DomainId{}, key, rig.executor.Now() + kLong));
  ASSERT_TRUE(served.has_value());
  EXPECT_TRUE(testing::HoldsBlock(1, TestEngineKey(1), served->payload));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), 0u) << "a peer's miss evicts nothing";
}

TEST(ServePeerTest, DiskReadsForPeersAreBoundedAndEndAtTheirDeadline) {
  AgentRig rig({.slots = 64});
  const size_t blocks = kMaxPeerDiskReads + 1;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, blocks), blocks);
  rig.EvictHost();
  rig.disk.Stall();
  const std::vector<BlockKey> keys = rig.NameRun(rig.session, 1, blocks).keys;
  const absl::Time deadline = rig.executor.Now() + absl::Milliseconds(50);
  std::vector<std::shared_ptr<std::optional<std::optional<ServedBlock>>>> asked;
  for (const BlockKey& key : keys) {
    asked.push_back(rig.Spawn(rig.agent->flows().peer_server.Serve(DomainId{}, key, deadline)));
  }
  EXPECT_FALSE(asked.front()->has_value());
  EXPECT_FALSE(asked.back()->has_value()) << "one too many waits";
  rig.time.RunUntil(deadline);
  for (const auto& answer : asked) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_FALSE((*answer)->has_value());
  }
}

// Seen: 16 blocks of 64 MiB on their way to peers took 1 GiB beside the arena.
TEST(ServePeerTest, BuffersOfBlocksFromDiskAreBoundedUntilTheyAreSent) {
  AgentRig rig({.slots = 16});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 3), 3u);
  rig.EvictHost();
  AgentStats stats;
  Waits waits(&rig.executor);
  PeerServer server({.executor = &rig.executor,
                     .scope = rig.agent->scope(),
                     .waits = &waits,
                     .tenants = &rig.agent->options().tenants,
                     .index = &rig.agent->index(),
                     .disks = rig.agent->disks().set(),
                     .prover = &rig.agent->flows().host_prover,
                     .stats = &stats},
                    2 * SlotBytes(testing::kRigBlockBytes));
  const std::vector<BlockKey> keys = rig.NameRun(rig.session, 1, 3).keys;
  const auto serve = [&](size_t i) {
    return rig.Run(server.Serve(DomainId{}, keys[i], rig.executor.Now() + kLong));
  };
  std::optional<ServedBlock> first = serve(0);
  const std::optional<ServedBlock> second = serve(1);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_FALSE(serve(2).has_value()) << "both buffers are still being sent";
  first.reset();
  EXPECT_TRUE(serve(2).has_value());
}

// Once, such a block was left out at once, and the asking node called it absent.
TEST(ServePeerTest, ABlockForWhichNoBufferIsFreeWaitsForOneInItsTime) {
  AgentRig rig({.slots = 16});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 3), 3u);
  rig.EvictHost();
  AgentStats stats;
  Waits waits(&rig.executor);
  PeerServer server({.executor = &rig.executor,
                     .scope = rig.agent->scope(),
                     .waits = &waits,
                     .tenants = &rig.agent->options().tenants,
                     .index = &rig.agent->index(),
                     .disks = rig.agent->disks().set(),
                     .prover = &rig.agent->flows().host_prover,
                     .stats = &stats},
                    SlotBytes(testing::kRigBlockBytes));
  const std::vector<BlockKey> keys = rig.NameRun(rig.session, 1, 3).keys;
  const absl::Time deadline = rig.executor.Now() + absl::Seconds(1);
  std::optional<ServedBlock> first = rig.Run(server.Serve(DomainId{}, keys[0], deadline));
  ASSERT_TRUE(first.has_value());
  const auto second = rig.Spawn(server.Serve(DomainId{}, keys[1], deadline));
  const auto third = rig.Spawn(server.Serve(DomainId{}, keys[2], deadline));
  rig.Pass(absl::Milliseconds(100));
  EXPECT_FALSE(second->has_value() || third->has_value());
  first.reset();
  rig.Pass(absl::Milliseconds(10));
  ASSERT_TRUE(second->has_value() && (*second)->has_value());
  EXPECT_FALSE(third->has_value()) << "it came later";
  (*second)->reset();
  rig.Pass(absl::Milliseconds(10));
  ASSERT_TRUE(third->has_value() && (*third)->has_value());
}

}  // namespace
}  // namespace kvtier

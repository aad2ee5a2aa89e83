// Tests the agent's GPU pool: which tenant it serves, what leaves it last, and how copies are
// counted.
#include <gtest/gtest.h>

#include "tests/agent/agent_rig.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr absl::Duration kLong = absl::Seconds(5);

// A process that maps the pool can read all of it, so the agent does not give out offsets of
// another domain's blocks there.
TEST(GpuTenantTest, APoolIsOneTenantsAndNoOthers) {
  AgentRig rig({.gpu_slots = 4, .gpu_tenants = {"acme"}});
  const SessionId owner = rig.Open(1);
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(
      rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 2, 1), Tier::kGpu).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(rig.Run(rig.Onboard(rig.session, 1, 1, kLong, Tier::kGpu)).status()));
  const NodeGpus& gpus = rig.agent->gpus();
  EXPECT_EQ(gpus.Of(rig.session, rig.NameRun(rig.session, 1, 1).domain), nullptr);
  EXPECT_NE(gpus.Of(owner, rig.NameRun(owner, 1, 1).domain), nullptr);
  EXPECT_TRUE(rig.agent->flows().putter.Reserve(rig.NameRun(owner, 2, 1), Tier::kGpu).ok());
}

TEST(GpuEvictionTest, WhatOnlyThePoolHasLeavesItLast) {
  AgentRig rig({.gpu_slots = 3, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1u);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 1, 1, kLong, Tier::kGpu))->blocks.size(), 1u);
  rig.agent->sessions().leases().ReleaseAll(rig.session);
  rig.Pass(absl::Milliseconds(1));
  ASSERT_EQ(rig.EvictHost(), 1u);
  ASSERT_EQ(rig.Put(rig.session, 50, 1), 1u);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 50, 1, kLong, Tier::kGpu))->blocks.size(), 1u);
  rig.agent->sessions().leases().ReleaseAll(rig.session);
  EXPECT_EQ(rig.agent->gpus().at(0).blocks().CheapestCopy(),
            rig.NameRun(rig.session, 50, 1).keys[0]);
  ASSERT_EQ(rig.Put(rig.session, 60, 2), 2u);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 60, 2, kLong, Tier::kGpu))->blocks.size(), 2u);
  EXPECT_TRUE(rig.agent->index().In(Tier::kGpu, rig.NameRun(rig.session, 1, 1).keys[0]));
}

TEST(GpuStatsTest, PaddingIsWhatBlocksLeaveOfTheirSlots) {
  AgentRig rig({.gpu_slots = 4});
  GpuTier& gpu = rig.agent->gpus().at(0);
  EXPECT_EQ(gpu.blocks().padding_bytes(), 0u);
  const BlockKey key = testing::NumberedKey(1);
  const uint64_t length = testing::kRigBlockBytes - 96;
  gpu.Publish({.key = key, .length = length}, std::move(gpu.Reserve(rig.session)->slot),
              ReuseHint());
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1u);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 1, 1, kLong, Tier::kGpu))->blocks.size(), 1u);
  EXPECT_EQ(gpu.blocks().padding_bytes(), 96u) << "the other fills its slot";
  gpu.Drop(key);
  EXPECT_EQ(gpu.blocks().padding_bytes(), 0u);
}

TEST(GpuCopiesTest, CopiesAreCountedEachWay) {
  AgentRig rig({.gpu_slots = 4});
  ASSERT_EQ(rig.Put(rig.session, 1, 3), 3u);
  const auto onboarded = rig.Spawn(rig.Onboard(rig.session, 1, 3, kLong, Tier::kGpu));
  EXPECT_EQ(rig.agent->gpus().at(0).stats().onboard.in_flight, 1u);
  rig.Pass(absl::Seconds(1));
  const GpuLinkStats& link = rig.agent->gpus().at(0).stats().onboard;
  EXPECT_EQ(link.in_flight, 0u);
  EXPECT_EQ(link.copies, 1u);
  EXPECT_EQ(link.bytes, 3 * testing::kRigBlockBytes);
  EXPECT_GT(link.best_bytes_per_second, 0);
  EXPECT_GT(link.busy, absl::ZeroDuration());
  EXPECT_EQ(rig.agent->gpus().at(0).stats().offload.copies, 0u);
  rig.device.FailCopy(CopyDirection::kDeviceToHost, 1);
  const Reserved reserved =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 50, 1), Tier::kGpu);
  EXPECT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, {reserved.blocks[0].id})), 0u);
  EXPECT_EQ(rig.agent->gpus().at(0).stats().offload.failed, 1u);
}

std::vector<ReservationId> IdsOf(const Reserved& reserved) {
  std::vector<ReservationId> ids;
  for (const ReservedBlock& block : reserved.blocks) {
    if (block.state == ReservedBlock::State::kReserved) ids.push_back(block.id);
  }
  return ids;
}

// The commit and the onboard have more blocks than a lane's queue has places.
TEST(GpuCopiesTest, ALongCommitAndALongOnboardLoseNoBlock) {
  constexpr size_t kBlocks = kMaxQueuedBatches + 100;
  AgentRig rig({.slots = 2 * kBlocks, .gpu_slots = 2 * kBlocks, .disk = false});
  const auto ids =
      IdsOf(*rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, kBlocks), Tier::kGpu));
  ASSERT_EQ(ids.size(), kBlocks);
  EXPECT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, ids)), kBlocks);
  EXPECT_EQ(rig.agent->stats().gpu.io_errors, 0u);
  EXPECT_EQ(rig.EvictGpus(), kBlocks);
  EXPECT_EQ(rig.Run(rig.Onboard(rig.session, 1, kBlocks, kLong, Tier::kGpu))->blocks.size(),
            kBlocks);
}

TEST(GpuCopiesTest, WhoWaitsForBlocksGoesAheadOfACommitsCopies) {
  constexpr size_t kBlocks = 64 * kMaxBlocksGathered;
  AgentRig rig({.slots = 2 * kBlocks, .gpu_slots = 2 * kBlocks, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 5000, 1), 1u);
  const auto ids =
      IdsOf(*rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, kBlocks), Tier::kGpu));
  const auto commit = rig.Spawn(rig.agent->flows().putter.Commit(rig.session, ids));
  const auto onboard = rig.Spawn(rig.Onboard(rig.session, 5000, 1, kLong, Tier::kGpu));
  while (!onboard->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ((*onboard)->value().blocks.size(), 1u);
  EXPECT_FALSE(commit->has_value());
  EXPECT_GT(rig.agent->gpus().at(0).stats().offload.in_flight, 60u);
  while (!commit->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ(**commit, kBlocks);
}

TEST(GpuTenantTest, APoolOfAnUnknownTenantIsRefusedByName) {
  Agent::Options options{.node = *NodeId::FromString("rig"),
                         .tenants = *TenantTable::Create({{.name = "default"}}),
                         .host_bytes = 1 << 20,
                         .slab_bytes = 64 << 10,
                         .gpu_tenants = {"nobody"}};
  const absl::Status status = Agent::Create(std::move(options), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "--gpu_tenants=nobody: no tenant has this name; name some of --tenants_dir");
}

}  // namespace
}  // namespace kvtier

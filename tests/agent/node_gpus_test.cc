// Tests a node with two GPUs: each worker works on its own GPU, and what happens to one GPU does
// not affect the other.
#include "agent/gpu/node_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/agent/agent_rig.h"
#include "tests/testing/fake_memory_binder.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::ElementsAre;
using testing::FakeMemoryBinder;
using testing::FillBlock;
using ::testing::HasSubstr;
using testing::HoldsBlock;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);

class NodeGpusTest : public ::testing::Test {
 protected:
  NodeGpusTest() : second_(rig_.Open(0)) {
    EXPECT_EQ(Choose(first_, 0), absl::OkStatus());
    EXPECT_EQ(Choose(second_, 1), absl::OkStatus());
  }
  ~NodeGpusTest() override { rig_.agent->Audit(); }
  NodeGpus& gpus() { return rig_.agent->gpus(); }
  absl::Status Choose(SessionId session, size_t gpu) {
    return gpus().Choose(session, rig_.NameRun(session, 1, 1).domain,
                         gpus().at(gpu).device().uuid());
  }
  BlockKey Key(uint64_t block) { return rig_.NameRun(first_, block, 1).keys[0]; }
  bool Has(size_t gpu, uint64_t block) { return gpus().at(gpu).blocks().Contains(Key(block)); }
  std::span<std::byte> InPool(size_t gpu, uint64_t offset) {
    return {gpus().at(gpu).pool().region()->address() + offset, kRigBlockBytes};
  }
  uint64_t Seed() { return AgentRig::Seed(rig_.NameRun(first_, 1, 1).domain); }
  // Writes the block in a slot of the session's GPU, which is `gpu`, and commits it.
  size_t PutInPool(SessionId session, size_t gpu, uint64_t block) {
    const auto reserved =
        rig_.agent->flows().putter.Reserve(rig_.NameRun(session, block, 1), Tier::kGpu);
    if (reserved->blocks[0].state != ReservedBlock::State::kReserved) return 0;
    FillBlock(Seed(), TestEngineKey(block), InPool(gpu, reserved->blocks[0].offset));
    const size_t committed =
        rig_.Run(rig_.agent->flows().putter.Commit(session, {reserved->blocks[0].id}));
    rig_.Pass(absl::Milliseconds(1));
    return committed;
  }
  // Leases the block in the pool of the session's GPU, `gpu`; returns whether it has its own bytes.
  bool HitInPool(SessionId session, size_t gpu, uint64_t block) {
    const Onboarded onboarded = *rig_.Run(rig_.Onboard(session, block, 1, kLong, Tier::kGpu));
    const bool hit =
        onboarded.blocks.size() == 1 &&
        HoldsBlock(Seed(), TestEngineKey(block), InPool(gpu, onboarded.blocks[0].offset));
    rig_.agent->sessions().leases().ReleaseAll(session);
    return hit;
  }

  AgentRig rig_{{.slots = 32, .gpu_slots = 4, .second_gpu = true}};
  const SessionId first_ = rig_.session;
  const SessionId second_;
};

TEST_F(NodeGpusTest, EachWorkerPutsAndGetsOnItsOwnGpu) {
  EXPECT_EQ(PutInPool(first_, 0, 1), 1u);
  EXPECT_EQ(PutInPool(second_, 1, 2), 1u);
  EXPECT_TRUE(Has(0, 1) && !Has(1, 1));
  EXPECT_TRUE(Has(1, 2) && !Has(0, 2));
  EXPECT_TRUE(HitInPool(first_, 0, 1));
  EXPECT_TRUE(HitInPool(second_, 1, 2));
}

// A block of a prompt that all workers share may be in both pools.
TEST_F(NodeGpusTest, ABlockMayBeOnBothAndIsToldOfUntilTheLastCopyGoes) {
  EXPECT_EQ(PutInPool(first_, 0, 1), 1u);
  EXPECT_TRUE(HitInPool(second_, 1, 1)) << "it comes by host memory";
  EXPECT_TRUE(Has(0, 1) && Has(1, 1));
  const ResidencyTable& told = *rig_.agent->residency().table(rig_.NameRun(first_, 1, 1).domain);
  gpus().at(0).Drop(Key(1));
  EXPECT_TRUE(told.Has(Key(1), Tier::kGpu));
  gpus().at(1).Drop(Key(1));
  EXPECT_FALSE(told.Has(Key(1), Tier::kGpu));
}

TEST_F(NodeGpusTest, OneThatIsFullOrEmptiedLeavesTheOtherAsItWas) {
  for (uint64_t block = 1; block <= 3; ++block) ASSERT_EQ(PutInPool(second_, 1, block), 1u);
  for (uint64_t block = 11; block <= 20; ++block) ASSERT_EQ(PutInPool(first_, 0, block), 1u);
  EXPECT_TRUE(Has(1, 1) && Has(1, 2) && Has(1, 3));
  EXPECT_GT(gpus().at(0).EvictSome(UINT64_MAX), 0u);
  EXPECT_EQ(gpus().at(0).blocks().size(), 0u);
  EXPECT_TRUE(HitInPool(second_, 1, 1));
}

TEST_F(NodeGpusTest, OneThatIsLostLeavesTheOtherUnaffected) {
  ASSERT_EQ(PutInPool(first_, 0, 1), 1u);
  ASSERT_EQ(PutInPool(second_, 1, 2), 1u);
  rig_.device.Lose();
  EXPECT_EQ(PutInPool(first_, 0, 3), 0u);
  EXPECT_FALSE(HitInPool(first_, 0, 2)) << "nothing is copied to it any more";
  EXPECT_EQ(rig_.Hits(first_, 1, 1), 1u) << "host memory serves on";
  EXPECT_EQ(PutInPool(second_, 1, 4), 1u);
  EXPECT_TRUE(HitInPool(second_, 1, 1));
  EXPECT_TRUE(HitInPool(second_, 1, 2));
  EXPECT_TRUE(HitInPool(second_, 1, 4));
}

TEST_F(NodeGpusTest, ASessionIsToldWhichGpuItMayNotHave) {
  const DomainId domain = rig_.NameRun(first_, 1, 1).domain;
  DeviceUuid none;
  none.bytes.fill(9);
  const absl::Status unknown = gpus().Choose(first_, domain, none);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("GPU-09090909-0909"));
  const DomainId others = rig_.NameRun(rig_.Open(1), 1, 1).domain;
  EXPECT_EQ(gpus().Choose(first_, others, gpus().at(0).device().uuid()).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(rig_.agent->sessions().AttachToGpu(first_).ok());
  EXPECT_EQ(Choose(first_, 0), absl::OkStatus()) << "it has that one";
  EXPECT_EQ(Choose(first_, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NodeGpusTest, WhoNamesNoneHasTheFirst) {
  const SessionId session = rig_.Open(0);
  EXPECT_EQ(PutInPool(session, 0, 7), 1u);
  EXPECT_TRUE(Has(0, 7));
}

TEST_F(NodeGpusTest, ATenantIsErasedFromAllOfThem) {
  ASSERT_EQ(PutInPool(first_, 0, 1), 1u);
  ASSERT_EQ(PutInPool(second_, 1, 2), 1u);
  ASSERT_TRUE(HitInPool(second_, 1, 1));
  EXPECT_EQ(rig_.Run(gpus().EvictDomain(rig_.NameRun(first_, 1, 1).domain)), 3u);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kGpu), 0u);
}

TEST_F(NodeGpusTest, AnOperatorNamesOneByItsUuid) {
  EXPECT_EQ(gpus().Named("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gpus().Named("GPU-1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*gpus().Named(gpus().at(1).device().uuid().ToString()), &gpus().at(1));
  AgentRig one({.gpu_slots = 2});
  EXPECT_EQ(*one.agent->gpus().Named(""), &one.agent->gpus().at(0));
  AgentRig none;
  EXPECT_EQ(none.agent->gpus().Named("").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GpuMemoryPlaceTest, HostMemoryIsOnTheNodesOfTheGpusOfItsTenant) {
  FakeMemoryBinder binder;
  AgentRig rig({.gpu_slots = 4, .second_gpu = true, .binder = &binder, .gpu_tenants = {"acme"}});
  ASSERT_EQ(binder.bound.size(), 1u);
  EXPECT_THAT(binder.bound[0].nodes, ElementsAre(0, 1));
  const std::span<std::byte> arena =
      rig.agent->host().arena(rig.agent->options().tenants.Find("acme")->domain).bytes();
  EXPECT_EQ(binder.bound[0].memory.data(), arena.data());
  EXPECT_EQ(binder.bound[0].memory.size(), arena.size());
}

TEST(GpuMemoryPlaceTest, MemoryThatCannotBePlacedServesWhereItIs) {
  FakeMemoryBinder binder;
  binder.answer = absl::UnavailableError("planted");
  AgentRig rig({.gpu_slots = 4, .binder = &binder});
  EXPECT_EQ(rig.Put(rig.session, 1, 2), 2u);
  EXPECT_EQ(rig.Run(rig.Onboard(rig.session, 1, 2, kLong, Tier::kGpu))->blocks.size(), 2u);
}

TEST(GpuMemoryPlaceTest, ANodeWithoutAGpuPlacesNothing) {
  FakeMemoryBinder binder;
  AgentRig rig({.binder = &binder});
  EXPECT_EQ(binder.bound.size(), 0u);
}

}  // namespace
}  // namespace kvtier

// Tests slots of the GPU pool as workers' own KV memory.
#include "agent/gpu/slot_grants.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;

class SlotGrantsTest : public ::testing::Test {
 protected:
  SlotGrants& grants() { return rig_.agent->gpus().at(0).grants(); }
  std::vector<uint32_t> Take(uint32_t count) {
    return grants().Take(rig_.session, count).value_or(std::vector<uint32_t>());
  }
  uint64_t used() const { return rig_.agent->gpus().at(0).pool().used_bytes() / kRigBlockBytes; }
  AgentRig rig_{{.gpu_slots = 8}};
};

TEST_F(SlotGrantsTest, SlotsAreTheWorkersUntilItGivesThemBack) {
  const std::vector<uint32_t> first = Take(3);
  const std::vector<uint32_t> second = Take(5);
  std::set<uint32_t> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(grants().Take(rig_.session, 1).status().code(), absl::StatusCode::kResourceExhausted);
  grants().Release(rig_.session, first);
  EXPECT_EQ(Take(8).size(), 3u) << "as many as there are";
}

// Regression: a worker that computes with its CPU is in no step. Before it had heard that its
// session had ended, it wrote its sequences into slots that already were another worker's.
TEST_F(SlotGrantsTest, SlotsOfASessionThatEndedAreNobodyElsesUntilItsWritesAreOver) {
  ASSERT_EQ(Take(8).size(), 8u);
  EXPECT_TRUE(rig_.agent->CloseSession(rig_.session));
  EXPECT_EQ(used(), 8u);
  EXPECT_EQ(grants().Take(rig_.Open(0), 1).status().code(), absl::StatusCode::kResourceExhausted);
  rig_.agent->sessions().WritesOver(rig_.session);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(grants().size(), 0u);
}

TEST_F(SlotGrantsTest, SlotsOfADeadWorkerAreFree) {
  ASSERT_EQ(Take(8).size(), 8u);
  rig_.agent->CloseSession(rig_.session);
  rig_.agent->sessions().ProcessGone(rig_.session);
  EXPECT_EQ(used(), 0u);
}

TEST_F(SlotGrantsTest, WhoGaveAllSlotsBackLeavesNothing) {
  grants().Release(rig_.session, Take(8));
  EXPECT_FALSE(rig_.agent->CloseSession(rig_.session));
  EXPECT_EQ(grants().size(), 0u);
}

TEST_F(SlotGrantsTest, CachedBlocksMakeRoom) {
  ASSERT_EQ(rig_.Put(rig_.session, 100, 4), 4u);
  const auto onboarded = rig_.Run(rig_.Onboard(rig_.session, 100, 4, absl::Seconds(1), Tier::kGpu));
  ASSERT_EQ(onboarded->blocks.size(), 4u);
  EXPECT_EQ(Take(8).size(), 4u) << "leased blocks stay";
  std::vector<LeaseId> leases;
  for (const LeasedBlock& block : onboarded->blocks) leases.push_back(block.lease);
  rig_.agent->sessions().leases().Release(rig_.session, leases);
  EXPECT_EQ(Take(8).size(), 4u);
  EXPECT_EQ(rig_.agent->stats().gpu.evictions, 4u);
}

TEST_F(SlotGrantsTest, NobodyGivesBackWhatAnotherHolds) {
  const std::vector<uint32_t> slots = Take(2);
  const SessionId other = rig_.Open(0);
  grants().Release(other, slots);
  EXPECT_EQ(grants().size(), 2u);
  grants().Release(rig_.session, std::vector<uint32_t>{slots[0], slots[0], 12345});
  EXPECT_EQ(grants().size(), 1u);
}

TEST_F(SlotGrantsTest, APoolServesBlocksOfItsSizeAndTenantAlone) {
  BlockRun run = rig_.NameRun(rig_.session, 0, 1);
  EXPECT_NE(rig_.agent->gpus().For(run), nullptr);
  run.lengths.longest *= 2;
  EXPECT_EQ(rig_.agent->gpus().For(run), nullptr);
  EXPECT_EQ(rig_.agent->gpus().For(rig_.NameRun(rig_.Open(1), 0, 1)), nullptr);
}

TEST_F(SlotGrantsTest, MoreThanASessionMayHoldAreRefused) {
  ASSERT_EQ(Take(1).size(), 1u);
  EXPECT_EQ(grants().Take(rig_.session, kMaxSlotsPerSession).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(SlotGrantsTest, BytesWithoutATokenAreWhatWorkersSayAndNoMoreThanTheyHold) {
  ASSERT_EQ(Take(3).size(), 3u);
  EXPECT_EQ(grants().UnusedBytes(), 0u) << "a session without a page says nothing";
  const SessionId other = rig_.Open(0);
  const SignalPage* const page = *rig_.agent->sessions().AttachToGpu(other);
  ASSERT_EQ(grants().Take(other, 2)->size(), 2u);
  SignalWord* const word = page->word(static_cast<size_t>(StepWord::kUnusedBytes));
  EXPECT_EQ(grants().UnusedBytes(), 0u) << "it does not tell";
  word->store(1000);
  EXPECT_EQ(grants().UnusedBytes(), 1000u);
  word->store(~uint64_t{0});
  EXPECT_EQ(grants().UnusedBytes(), 2 * kRigBlockBytes);
  rig_.agent->CloseSession(other);
  EXPECT_EQ(grants().UnusedBytes(), 0u);
}

}  // namespace
}  // namespace kvtier

// Tests that the orders of eviction know why a block came, its uses, and what engines say of it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/index/gpu_blocks.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr absl::Duration kLong = absl::Seconds(5);

// Each request has a hint with its own priority, by which a test tells requests apart.
//
// The touch after a load counts as the use that brought the block ("0 uses") if a waiting worker
// asked for the block, and as its first use if the block was prefetched.
class ReuseHintsTest : public ::testing::Test {
 protected:
  // LRU remembers nothing of a block that left, so that one that comes back has no uses.
  void Start(AgentRig::Shape shape, EvictionPolicy policy = EvictionPolicy::kLru) {
    shape.eviction = {.gpu = policy, .host = policy};
    shape.transport = &peers_;
    shape.coordinator = &coordinator_;
    rig_.emplace(shape);
    peers_.rig = &*rig_;
  }
  BlockRun RunOf(uint64_t first, size_t count, uint8_t priority) {
    BlockRun run = rig_->NameRun(rig_->session, first, count);
    run.hint.priority = priority;
    return run;
  }
  size_t Put(const BlockRun& run, Tier target = Tier::kHost) {
    const Reserved reserved = *rig_->agent->flows().putter.Reserve(run, target);
    std::vector<ReservationId> ids;
    for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
    return rig_->Commit(rig_->session, std::move(ids));
  }
  // Puts blocks on disk, and evicts them from host memory.
  void PutOnDiskAlone(uint64_t first, size_t count) {
    ASSERT_EQ(rig_->PutOnDisk(rig_->session, first, count), count);
    ASSERT_EQ(rig_->EvictHost(), count);
  }
  Task<absl::StatusOr<Onboarded>> Onboard(BlockRun run, Tier target = Tier::kHost,
                                          absl::Duration timeout = kLong) {
    OnboardRequest request{
        .run = std::move(run), .target = target, .deadline = rig_->executor.Now() + timeout};
    return rig_->agent->flows().onboarder.Onboard(std::move(request));
  }
  // Returns the state that the block has in the order of the tier; nullopt: it is not there.
  std::optional<ReuseState> StateOf(uint64_t block, Tier tier = Tier::kHost) {
    const BlockRun run = rig_->NameRun(rig_->session, block, 1);
    const BlockIndex& index = rig_->agent->index();
    const EvictionOrder& order =
        tier == Tier::kHost ? index.host_order(run.domain).order() : index.pools().at(0)->order();
    const auto place = order.Find(run.keys[0]);
    return place.has_value() ? std::optional(order.StateOf(*place)) : std::nullopt;
  }
  // Returns what the order of the tier knows of the block.
  std::string Known(uint64_t block, Tier tier = Tier::kHost) {
    const std::optional<ReuseState> found = StateOf(block, tier);
    if (!found.has_value()) return "absent";
    const ReuseState& state = *found;
    std::string known = absl::StrCat(state.uses, " uses, priority ", state.priority);
    if (state.turn > 0) absl::StrAppend(&known, ", turn ", state.turn);
    if (state.finish > 0) absl::StrAppend(&known, ", finish ", state.finish);
    if (state.ended != 0) absl::StrAppend(&known, ", ended");
    if (state.touch_to_come != 0) absl::StrAppend(&known, ", touch to come");
    return known;
  }

  // Other nodes have blocks 1 to 8.
  testing::KnowingCoordinator coordinator_;
  testing::ScriptedPeers peers_;
  std::optional<AgentRig> rig_;
};

TEST_F(ReuseHintsTest, AReservationRemembersItsHintUntilTheCommit) {
  Start({.disk = false});
  BlockRun run = RunOf(1, 2, 7);
  run.hint.turn = 3;
  run.hint.finish = FinishReason::kLength;
  run.hint.will_not_return = true;
  ASSERT_EQ(Put(run), 2u);
  for (const uint64_t block : {1, 2}) {
    EXPECT_EQ(Known(block), "0 uses, priority 7, turn 3, finish 3, ended");
  }
}

// The id tells a learnt order that the conversation goes on from its first block.
TEST_F(ReuseHintsTest, TheIdOfAConversationReachesTheOrder) {
  Start({.disk = false}, EvictionPolicy::kLearnt);
  for (const uint64_t conversation : {0, 77}) {
    BlockRun run = RunOf(1, 3, 50);
    run.hint.conversation = conversation;
    ASSERT_EQ(Put(run), 3u);
    BlockRun branch = RunOf(10, 1, 50);
    branch.parent = run.keys[0];
    branch.hint.conversation = conversation;
    ASSERT_EQ(Put(branch), 1u);
    EXPECT_EQ(StateOf(3)->left_behind, conversation != 0 ? 1u : 0u);
    EXPECT_EQ(StateOf(1)->left_behind, 0u);
    rig_->EvictHost();
  }
}

TEST_F(ReuseHintsTest, HostMemoryKnowsWhatADiskHasToo) {
  Start({}, EvictionPolicy::kLearnt);
  ASSERT_EQ(rig_->PutOnDisk(rig_->session, 1, 2), 2u);
  EXPECT_EQ(StateOf(1)->is_below, 1u);
  rig_->EvictHost();
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 2, 50)))->blocks.size(), 2u);
  EXPECT_EQ(StateOf(1)->is_below, 1u) << "it came from there";
  const BlockKey key = rig_->NameRun(rig_->session, 1, 1).keys[0];
  ASSERT_EQ(rig_->Run(rig_->agent->disks().set()->Erase(key)), absl::OkStatus());
  EXPECT_EQ(StateOf(1)->is_below, 0u);
}

TEST_F(ReuseHintsTest, ADeepBlockIsDearerWhereTheAgentKnowsWhatAttentionCosts) {
  for (const uint64_t attention_bytes : {uint64_t{0}, testing::kRigBlockBytes / 16}) {
    Start({.attention_bytes = attention_bytes, .disk = false}, EvictionPolicy::kLearnt);
    ASSERT_EQ(Put(RunOf(1, 8, 50)), 8u);
    EXPECT_EQ(StateOf(1)->depth_cost, 0u);
    if (attention_bytes == 0) {
      EXPECT_EQ(StateOf(8)->depth_cost, 0u);
    } else {
      EXPECT_GE(StateOf(8)->depth_cost, 3u);
    }
  }
}

TEST_F(ReuseHintsTest, AStagedBlockIsComputedToo) {
  Start({.disk = false, .staging_slots = 4});
  ASSERT_EQ(Put(RunOf(1, 1, 7)), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 7");
}

TEST_F(ReuseHintsTest, AnOnboardIsAUseOfWhatIsLeased) {
  Start({.disk = false});
  ASSERT_EQ(Put(RunOf(50, 2, 7)), 2u);
  const BlockRun run = RunOf(50, 3, 8);
  ASSERT_EQ(rig_->Run(Onboard(run))->blocks.size(), 2u);
  EXPECT_EQ(Known(50), "1 uses, priority 8");
  EXPECT_EQ(Known(51), "1 uses, priority 8");
  EXPECT_EQ(Known(52), "absent");
  const EvictionOrder& order = rig_->agent->index().host_order(run.domain).order();
  EXPECT_GT(order.LastUseOf(*order.Find(run.keys[0])), order.LastUseOf(*order.Find(run.keys[1])))
      << "the head of the run is the warmest";
}

TEST_F(ReuseHintsTest, ALoadForAWorkerThatWaitsIsAskedFor) {
  Start({});
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 8)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 8");
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "1 uses, priority 9");
}

TEST_F(ReuseHintsTest, APrefetchIsNoUse) {
  Start({});
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(RunOf(1, 1, 8), true)), 1u);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(Known(1), "0 uses, priority 8");
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "1 uses, priority 9");
}

TEST_F(ReuseHintsTest, APrefetchThatAWorkerComesToWaitForIsAskedFor) {
  Start({});
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(RunOf(1, 1, 8), true)), 1u);
  ASSERT_EQ(Known(1), "absent") << "it is on its way";
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 9");
}

TEST_F(ReuseHintsTest, ALoadWhoseWorkerGaveUpIsPrefetched) {
  Start({});
  PutOnDiskAlone(1, 1);
  const BlockRun run = RunOf(1, 1, 8);
  ASSERT_TRUE(rig_->Run(Onboard(run, Tier::kHost, absl::ZeroDuration()))->blocks.empty());
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(Known(1), "0 uses, priority 8");
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "1 uses, priority 9");
}

TEST_F(ReuseHintsTest, ABlockOfAnotherNodeIsFromAPeerWhereAWorkerWaits) {
  Start({.disk = false});
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 8)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 8");
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(RunOf(2, 1, 9), false)), 1u);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(Known(2), "0 uses, priority 9");
  ASSERT_EQ(rig_->Run(Onboard(RunOf(2, 1, 10)))->blocks.size(), 1u);
  EXPECT_EQ(Known(2), "1 uses, priority 10") << "it was prefetched";
  peers_[testing::kPeer].takes = absl::Milliseconds(20);
  BlockRun set = RunOf(3, 1, 9);
  set.is_set = true;
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(set, false)), 1u);
  ASSERT_EQ(rig_->Run(Onboard(RunOf(3, 1, 10)))->blocks.size(), 1u);
  EXPECT_EQ(Known(3), "0 uses, priority 10") << "a worker came to wait for it";
}

TEST_F(ReuseHintsTest, ABlockInTheGpuPoolIsKnownThereAndInHostMemory) {
  Start({.gpu_slots = 4, .disk = false});
  ASSERT_EQ(Put(RunOf(1, 1, 7), Tier::kGpu), 1u);
  for (const Tier tier : {Tier::kHost, Tier::kGpu}) EXPECT_EQ(Known(1, tier), "0 uses, priority 7");
  const BlockRun run = RunOf(1, 1, 8);
  EXPECT_EQ(rig_->agent->index().Advise(run.keys, run.hint), 1u);
  for (const Tier tier : {Tier::kHost, Tier::kGpu}) EXPECT_EQ(Known(1, tier), "0 uses, priority 8");
  ASSERT_EQ(rig_->EvictGpus(), 1u);
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9), Tier::kGpu))->blocks.size(), 1u);
  EXPECT_EQ(Known(1, Tier::kGpu), "0 uses, priority 9") << "it was asked for";
  EXPECT_EQ(Known(1), "1 uses, priority 9");
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 10), Tier::kGpu))->blocks.size(), 1u);
  EXPECT_EQ(Known(1, Tier::kGpu), "1 uses, priority 10");
}

TEST_F(ReuseHintsTest, WhatMakesRoomInTheGpuPoolIsNoUse) {
  Start({.slots = 96, .gpu_slots = 64, .disk = false});
  for (uint64_t block = 1; block <= 62; ++block) {
    ASSERT_EQ(Put(RunOf(block, 1, 7), Tier::kGpu), 1u);
  }
  rig_->Pass(absl::Milliseconds(1));
  ASSERT_EQ(rig_->EvictHost(), 62u);
  const auto reserved = rig_->agent->flows().putter.Reserve(RunOf(100, 1, 8), Tier::kGpu);
  rig_->Pass(absl::Milliseconds(10));
  EXPECT_EQ(Known(1), absl::StrCat("0 uses, priority ", kDefaultPriority));
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(Known(1), "1 uses, priority 9") << "it came as what is prefetched does";
}

TEST_F(ReuseHintsTest, AdviceReachesABlockWhoseCommitIsToCome) {
  Start({.disk = false});
  const BlockRun run = RunOf(1, 1, 7);
  const std::vector<ReservationId> ids = {
      rig_->agent->flows().putter.Reserve(run, Tier::kHost)->blocks[0].id};
  BlockRun ended = RunOf(1, 1, 9);
  ended.hint.finish = FinishReason::kStop;
  ended.hint.will_not_return = true;
  EXPECT_EQ(rig_->agent->index().Advise(ended.keys, ended.hint), 0u);
  rig_->agent->sessions().reservations().Advise(ended.keys, ended.hint);
  ASSERT_EQ(rig_->Commit(rig_->session, ids), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 9, finish 1, ended");
}

TEST_F(ReuseHintsTest, AdviceEndsWithItsReservation) {
  Start({.disk = false});
  const BlockRun run = RunOf(1, 1, 7);
  const BlockRun ended = RunOf(1, 1, 9);
  const std::vector<ReservationId> ids = {
      rig_->agent->flows().putter.Reserve(run, Tier::kHost)->blocks[0].id};
  ReservationTable& reservations = rig_->agent->sessions().reservations();
  reservations.Advise(ended.keys, ended.hint);
  reservations.Audit();
  reservations.Release(rig_->session, ids);
  EXPECT_EQ(reservations.AdviceFor(run.keys[0]), std::nullopt);
  reservations.Advise(ended.keys, ended.hint);  // Nobody puts it: it is ignored.
  ASSERT_EQ(Put(run), 1u);
  EXPECT_EQ(Known(1), "0 uses, priority 7");
}

TEST_F(ReuseHintsTest, ATicketsHintIsOfTheUseThatRedeemsIt) {
  Start({.disk = false});
  ASSERT_EQ(Put(RunOf(1, 1, 7)), 1u);
  TicketRequest request{.redemptions = 1, .lifetime = kLong};
  request.sequences.push_back({.run = RunOf(1, 1, 8), .deadline = rig_->executor.Now() + kLong});
  const TakenTicket ticket = *rig_->Run(rig_->agent->flows().tickets.Take(std::move(request)));
  EXPECT_EQ(Known(1), "0 uses, priority 7");
  const BlockRun any = RunOf(1, 1, 50);
  ASSERT_TRUE(rig_->agent->flows()
                  .tickets.Redeem(rig_->session, TicketHolder::Of(any), ticket.id, 0, {any.space})
                  .ok());
  EXPECT_EQ(Known(1), "1 uses, priority 8");
}

TEST_F(ReuseHintsTest, ABlockOfPriority100OutlivesOneOf0OfLikeUseWhereThePolicyKnowsPriorities) {
  for (const EvictionPolicy policy : {EvictionPolicy::kLearnt, EvictionPolicy::kPriority}) {
    SCOPED_TRACE(EvictionPolicyName(policy));
    Start({.slots = 16, .disk = false}, policy);
    ASSERT_EQ(Put(RunOf(1, 8, kMaxPriority)), 8u);
    ASSERT_EQ(Put(RunOf(11, 8, 0)), 8u);  // Later.
    ASSERT_EQ(Put(RunOf(21, 8, kDefaultPriority)), 8u);
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_NE(Known(1 + i), "absent") << i;
      EXPECT_EQ(Known(11 + i), "absent") << i;
    }
    // Advice that an engine gives later counts as well.
    rig_->agent->index().Advise(RunOf(1, 8, 0).keys, {.priority = 0});
    ASSERT_EQ(Put(RunOf(31, 8, kDefaultPriority)), 8u);
    for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(Known(1 + i), "absent") << i;
  }
}

TEST_F(ReuseHintsTest, LruAndFifoTakeNoNoticeOfPriorities) {
  for (const EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kFifo}) {
    SCOPED_TRACE(EvictionPolicyName(policy));
    Start({.slots = 16, .disk = false}, policy);
    ASSERT_EQ(Put(RunOf(1, 8, kMaxPriority)), 8u);
    ASSERT_EQ(Put(RunOf(11, 8, 0)), 8u);
    ASSERT_EQ(Put(RunOf(21, 8, kDefaultPriority)), 8u);
    for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(Known(1 + i), "absent") << i;
  }
}

}  // namespace
}  // namespace kvtier

// The orders of eviction are told why a block came, of its uses, and what engines say of it.
#include "agent/index/reuse_facts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/scripted_peers.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr absl::Duration kLong = absl::Seconds(5);

const char* NameOf(Arrival arrival) {
  switch (arrival) {
    case Arrival::kComputed:
      return "computed";
    case Arrival::kAskedFor:
      return "asked for";
    case Arrival::kPrefetched:
      return "prefetched";
    case Arrival::kFromPeer:
      return "from peer";
  }
  return "unknown";
}

// Requests of a rig are told apart by the conversations of their hints.
class ReuseFactsTest : public ::testing::Test {
 protected:
  void Start(AgentRig::Shape shape) {
    shape.transport = &peers_;
    shape.coordinator = &coordinator_;
    rig_.emplace(shape);
    peers_.rig = &*rig_;
    rig_->agent->index().reuse_facts().SetWatch([this](const ReuseFact& fact) { Note(fact); });
  }
  BlockRun RunOf(uint64_t first, size_t count, uint64_t conversation) {
    BlockRun run = rig_->NameRun(rig_->session, first, count);
    for (size_t i = 0; i < count; ++i) numbers_[run.keys[i]] = first + i;
    run.hint.conversation = conversation;
    return run;
  }
  size_t Put(const BlockRun& run, Tier target = Tier::kHost) {
    const Reserved reserved = *rig_->agent->flows().putter.Reserve(run, target);
    std::vector<ReservationId> ids;
    for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
    return rig_->Commit(rig_->session, std::move(ids));
  }
  // Puts blocks that only the disk has when it returns, and forgets what was told.
  void PutOnDiskAlone(uint64_t first, size_t count) {
    ASSERT_EQ(rig_->PutOnDisk(rig_->session, first, count), count);
    ASSERT_EQ(rig_->agent->evictor().EvictAll(), count);
    told_.clear();
  }
  Task<absl::StatusOr<Onboarded>> Onboard(BlockRun run, Tier target = Tier::kHost,
                                          absl::Duration timeout = kLong) {
    OnboardRequest request{
        .run = std::move(run), .target = target, .deadline = rig_->executor.Now() + timeout};
    return rig_->agent->flows().onboarder.Onboard(std::move(request));
  }
  std::vector<std::string> TakeTold() { return std::exchange(told_, {}); }

  // They have blocks 1 to 8.
  testing::KnowingCoordinator coordinator_;
  testing::ScriptedPeers peers_;
  std::optional<AgentRig> rig_;

 private:
  void Note(const ReuseFact& fact) {
    std::string text = absl::StrCat(TierName(fact.tier), " ", numbers_[fact.key], " ");
    if (fact.kind == ReuseFact::Kind::kArrival) absl::StrAppend(&text, NameOf(*fact.arrival));
    if (fact.kind == ReuseFact::Kind::kUse) absl::StrAppend(&text, "used");
    if (fact.kind == ReuseFact::Kind::kAdvice) absl::StrAppend(&text, "advised");
    told_.push_back(absl::StrCat(text, " by ", fact.hint.conversation));
  }

  std::map<BlockKey, uint64_t> numbers_;
  std::vector<std::string> told_;
};

using Texts = std::vector<std::string>;

TEST_F(ReuseFactsTest, AReservationRemembersItsHintUntilTheCommit) {
  Start({.disk = false});
  ASSERT_EQ(Put(RunOf(1, 2, 7)), 2u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 computed by 7", "host 2 computed by 7"}));
}

TEST_F(ReuseFactsTest, AStagedBlockIsComputedToo) {
  Start({.disk = false, .staging_slots = 4});
  ASSERT_EQ(Put(RunOf(1, 1, 7)), 1u);
  EXPECT_EQ(TakeTold(), Texts{"host 1 computed by 7"});
}

TEST_F(ReuseFactsTest, AnOnboardIsAUseOfWhatIsLeased) {
  Start({.disk = false});
  ASSERT_EQ(Put(RunOf(50, 2, 7)), 2u);
  TakeTold();
  ASSERT_EQ(rig_->Run(Onboard(RunOf(50, 3, 8)))->blocks.size(), 2u);
  EXPECT_EQ(TakeTold(), (Texts{"host 51 used by 8", "host 50 used by 8"}));
}

TEST_F(ReuseFactsTest, ALoadForAWorkerThatWaitsIsAskedFor) {
  Start({});
  const BlockRun run = RunOf(1, 1, 8);
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(Onboard(run))->blocks.size(), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 asked for by 8", "host 1 used by 8"}));
}

TEST_F(ReuseFactsTest, APrefetchIsNoUse) {
  Start({});
  const BlockRun run = RunOf(1, 1, 8);
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(run, true)), 1u);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(TakeTold(), Texts{"host 1 prefetched by 8"});
}

TEST_F(ReuseFactsTest, APrefetchThatAWorkerComesToWaitForIsAskedFor) {
  Start({});
  const BlockRun run = RunOf(1, 1, 8);
  PutOnDiskAlone(1, 1);
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(run, true)), 1u);
  ASSERT_TRUE(TakeTold().empty()) << "it is on its way";
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9)))->blocks.size(), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 asked for by 8", "host 1 used by 9"}));
}

TEST_F(ReuseFactsTest, ALoadWhoseWorkerGaveUpIsPrefetched) {
  Start({});
  const BlockRun run = RunOf(1, 1, 8);
  PutOnDiskAlone(1, 1);
  ASSERT_TRUE(rig_->Run(Onboard(run, Tier::kHost, absl::ZeroDuration()))->blocks.empty());
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(TakeTold(), Texts{"host 1 prefetched by 8"});
}

TEST_F(ReuseFactsTest, ABlockOfAnotherNodeIsFromAPeerWhereAWorkerWaits) {
  Start({.disk = false});
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 8)))->blocks.size(), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 from peer by 8", "host 1 used by 8"}));
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(RunOf(2, 1, 9), false)), 1u);
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(TakeTold(), Texts{"host 2 prefetched by 9"});
  peers_[testing::kPeer].takes = absl::Milliseconds(20);
  BlockRun set = RunOf(3, 1, 9);
  set.is_set = true;
  ASSERT_EQ(rig_->Run(rig_->agent->flows().onboarder.Prefetch(set, false)), 1u);
  ASSERT_EQ(rig_->Run(Onboard(RunOf(3, 1, 10)))->blocks.size(), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 3 from peer by 9", "host 3 used by 10"}))
      << "a worker came to wait for it";
}

TEST_F(ReuseFactsTest, ABlockInTheGpuPoolIsToldOfThereAndInHostMemory) {
  Start({.gpu_slots = 4, .disk = false});
  ASSERT_EQ(Put(RunOf(1, 1, 7), Tier::kGpu), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 computed by 7", "gpu 1 computed by 7"}));
  const BlockRun run = RunOf(1, 1, 8);
  EXPECT_EQ(rig_->agent->index().Advise(run.keys, run.hint), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 advised by 8", "gpu 1 advised by 8"}));
  ASSERT_EQ(rig_->agent->gpus().EvictAll(), 1u);
  ASSERT_EQ(rig_->Run(Onboard(RunOf(1, 1, 9), Tier::kGpu))->blocks.size(), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"gpu 1 asked for by 9", "host 1 used by 9", "gpu 1 used by 9"}));
}

TEST_F(ReuseFactsTest, WhatMakesRoomInTheGpuPoolIsNoUse) {
  Start({.slots = 96, .gpu_slots = 64, .disk = false});
  for (uint64_t block = 1; block <= 62; ++block) {
    ASSERT_EQ(Put(RunOf(block, 1, 7), Tier::kGpu), 1u);
  }
  rig_->Pass(absl::Milliseconds(1));
  ASSERT_EQ(rig_->agent->evictor().EvictAll(), 62u);
  TakeTold();
  const auto reserved = rig_->agent->flows().putter.Reserve(RunOf(100, 1, 8), Tier::kGpu);
  rig_->Pass(absl::Milliseconds(10));
  const Texts told = TakeTold();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0], "host 1 prefetched by 0");
}

TEST_F(ReuseFactsTest, AdviceReachesABlockWhoseCommitIsToCome) {
  Start({.disk = false});
  const BlockRun run = RunOf(1, 1, 7);
  const std::vector<ReservationId> ids = {
      rig_->agent->flows().putter.Reserve(run, Tier::kHost)->blocks[0].id};
  const BlockRun ended = RunOf(1, 1, 9);
  EXPECT_EQ(rig_->agent->index().Advise(ended.keys, ended.hint), 0u);
  rig_->agent->sessions().reservations().Advise(ended.keys, ended.hint);
  ASSERT_EQ(rig_->Commit(rig_->session, ids), 1u);
  EXPECT_EQ(TakeTold(), (Texts{"host 1 computed by 7", "host 1 advised by 9"}));
}

TEST_F(ReuseFactsTest, AdviceEndsWithItsReservation) {
  Start({.disk = false});
  const BlockRun run = RunOf(1, 1, 7);
  const std::vector<ReservationId> ids = {
      rig_->agent->flows().putter.Reserve(run, Tier::kHost)->blocks[0].id};
  ReservationTable& reservations = rig_->agent->sessions().reservations();
  reservations.Advise(run.keys, run.hint);
  reservations.Audit();
  reservations.Release(rig_->session, ids);
  EXPECT_EQ(reservations.AdviceFor(run.keys[0]), std::nullopt);
  reservations.Advise(run.keys, run.hint);  // Nobody puts it: it is ignored.
  ASSERT_EQ(Put(run), 1u);
  EXPECT_EQ(TakeTold(), Texts{"host 1 computed by 7"});
}

TEST_F(ReuseFactsTest, ATicketsHintIsOfTheUseThatRedeemsIt) {
  Start({.disk = false});
  ASSERT_EQ(Put(RunOf(1, 1, 7)), 1u);
  TakeTold();
  TicketRequest request{.redemptions = 1, .lifetime = kLong};
  request.sequences.push_back({.run = RunOf(1, 1, 8), .deadline = rig_->executor.Now() + kLong});
  const TakenTicket ticket = *rig_->Run(rig_->agent->flows().tickets.Take(std::move(request)));
  EXPECT_TRUE(TakeTold().empty());
  const BlockRun any = RunOf(1, 1, 0);
  ASSERT_TRUE(rig_->agent->flows()
                  .tickets.Redeem(rig_->session, any.domain, ticket.id, 0, {any.space})
                  .ok());
  EXPECT_EQ(TakeTold(), Texts{"host 1 used by 8"});
}

}  // namespace
}  // namespace kvtier

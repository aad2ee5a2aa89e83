// Tests long calls that pause so that another tenant's calls run: what those find in a pause, and
// sessions that end in a pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/sessions/fair_turns.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;

constexpr size_t kBlocks = 4 * kKeysPerTurn - 1;  // Three pauses for each step of a call.

class PausesTest : public ::testing::Test {
 protected:
  // Begins calls of the other tenant, one after another, until `calling_` is false.
  void KeepCalling() {
    rig_.agent->turns().Run(
        FairTurns::kTurnCost, [] { return DomainId{1}; },
        [this] {
          ++others_;
          if (during_) during_(others_);
          if (calling_) KeepCalling();
        });
  }
  // Runs a call of the first tenant beside calls of the other tenant; returns its result.
  template <typename T>
  T RunBeside(Task<T> call) {
    KeepCalling();
    const auto value = rig_.Spawn(std::move(call));
    while (!value->has_value()) rig_.time.Step();
    calling_ = false;
    return *std::move(*value);
  }
  // Ends the first tenant's session during the n-th call of the other tenant.
  void EndSessionAt(size_t nth) {
    during_ = [this, nth](size_t call) {
      if (call == nth) rig_.agent->CloseSession(rig_.session);
    };
  }
  // Reports the end of the session's process, and checks that nothing of the session is left.
  void ExpectNothingLeft() {
    rig_.agent->sessions().ProcessGone(rig_.session);
    EXPECT_EQ(rig_.agent->sessions().leases().size(), 0u);
    EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
    EXPECT_EQ(rig_.agent->index().pinned_bytes(), 0u);
    rig_.agent->Audit();
  }
  std::vector<ReservationId> ReserveAll() { return rig_.Reserve(rig_.session, 1, kBlocks); }
  Task<absl::StatusOr<Reserved>> ReserveBy() {
    return rig_.agent->flows().putter.ReserveBy(rig_.NameRun(rig_.session, 1, kBlocks), Tier::kHost,
                                                rig_.executor.Now());
  }

  AgentRig rig_{{.slots = 1200, .eviction = {.host = EvictionPolicy::kLru}, .disk = false}};
  size_t others_ = 0;
  bool calling_ = true;
  std::function<void(size_t)> during_;
};

TEST_F(PausesTest, AnOnboardIsWholeAndOthersCallMeanwhile) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  const auto onboarded = RunBeside(rig_.Onboard(rig_.session, 1, kBlocks, absl::Milliseconds(100)));
  ASSERT_TRUE(onboarded.ok());
  ASSERT_EQ(onboarded->blocks.size(), kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) ASSERT_EQ(onboarded->blocks[i].index, i);
  // The other tenant's calls ran while this one looked up blocks, waited for them, leased them and
  // touched them.
  EXPECT_GE(others_, 12u);
  EXPECT_EQ(rig_.agent->sessions().leases().size(), kBlocks);
}

TEST_F(PausesTest, AnOnboardWhoseSessionEndsInAPauseLeavesNoLease) {
  for (size_t nth = 1; nth <= 12; ++nth) {
    SCOPED_TRACE(nth);
    if (nth > 1) rig_.session = rig_.Open(0);
    rig_.Put(rig_.session, 1, kBlocks);
    others_ = 0;
    calling_ = true;
    EndSessionAt(nth);
    const auto onboarded =
        RunBeside(rig_.Onboard(rig_.session, 1, kBlocks, absl::Milliseconds(100)));
    EXPECT_EQ(onboarded.status().code(), absl::StatusCode::kFailedPrecondition);
    ExpectNothingLeft();
  }
}

TEST_F(PausesTest, ThatTheHeadOfARunIsTheWarmestHoldsBehindPauses) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  ASSERT_TRUE(RunBeside(rig_.Onboard(rig_.session, 1, kBlocks, absl::Milliseconds(100))).ok());
  const BlockRun run = rig_.NameRun(rig_.session, 1, kBlocks);
  const EvictionOrder& order = rig_.agent->index().host_order(run.domain).order();
  for (size_t i = 1; i < kBlocks; ++i) {
    ASSERT_GT(order.LastUseOf(*order.Find(run.keys[i - 1])),
              order.LastUseOf(*order.Find(run.keys[i])))
        << i;
  }
}

TEST_F(PausesTest, AMatchSaysWhatOneWithoutPausesSays) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks - 10), kBlocks - 10);
  const auto match = [this] {
    std::vector<BlockRun> runs = {rig_.NameRun(rig_.session, 1, kBlocks)};
    return rig_.agent->flows().matcher.Match(std::move(runs), absl::ZeroDuration());
  };
  const std::vector<Matched> alone = rig_.Run(match());
  const std::vector<Matched> beside = RunBeside(match());
  EXPECT_EQ(alone[0].local_blocks, kBlocks - 10);
  EXPECT_EQ(beside[0].tiers, alone[0].tiers);
  EXPECT_GE(others_, 3u);
}

TEST_F(PausesTest, APutIsWholeAndOthersCallMeanwhile) {
  const auto reserved = RunBeside(ReserveBy());
  ASSERT_TRUE(reserved.ok());
  ASSERT_EQ(reserved->blocks.size(), kBlocks);
  EXPECT_GE(others_, 3u);
  calling_ = true;
  others_ = 0;
  std::vector<ReservationId> ids = rig_.Fill(rig_.session, 1, *reserved);
  for (const ReservationId id : ids) {
    rig_.agent->sessions().reservations().NoteSum(rig_.session, id, PayloadSum());
  }
  EXPECT_EQ(RunBeside(rig_.agent->flows().putter.Commit(rig_.session, std::move(ids))), kBlocks);
  EXPECT_GE(others_, 3u);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), kBlocks);
}

// Regression: each block of a run behind a hole asked the evictor for room, though a prefix is of
// no use behind its first hole.
TEST_F(PausesTest, BehindABlockWithoutRoomNoBlockOfARunAsks) {
  const auto reserved_of = [this](bool is_set) {
    constexpr size_t kAll = 1200;
    EXPECT_EQ(rig_.Put(rig_.session, 5000, kAll), kAll);
    const SessionId reader = rig_.Open(0);
    EXPECT_EQ(rig_.Run(rig_.Onboard(reader, 5000, kAll, absl::Seconds(1)))->blocks.size(), kAll);
    BlockRun run = rig_.NameRun(rig_.session, 1, kBlocks);
    run.is_set = is_set;
    calling_ = true;
    // Makes room again from the first pause on.
    during_ = [this, reader, before = others_](size_t call) {
      if (call == before + 2) rig_.agent->CloseSession(reader);
    };
    const auto reserved =
        RunBeside(rig_.agent->flows().putter.ReserveBy(run, Tier::kHost, rig_.executor.Now()));
    const size_t count = std::ranges::count(reserved->blocks, ReservedBlock::State::kReserved,
                                            &ReservedBlock::state);
    EXPECT_EQ(reserved->blocks.size(), kBlocks);
    EXPECT_EQ(rig_.Commit(rig_.session, rig_.Fill(rig_.session, 1, *reserved)), count);
    rig_.EvictHost();
    return count;
  };
  EXPECT_EQ(reserved_of(/*is_set=*/false), 0u);
  EXPECT_EQ(rig_.agent->stats().host.declined, kBlocks) << "each is counted";
  EXPECT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks) << "a later put finds the room";
  rig_.EvictHost();
  EXPECT_GT(reserved_of(/*is_set=*/true), 0u) << "a set has no order";
  rig_.agent->Audit();
}

TEST_F(PausesTest, APutWhoseSessionEndsInAPauseLeavesNoReservation) {
  for (size_t nth = 1; nth <= 3; ++nth) {
    SCOPED_TRACE(nth);
    if (nth > 1) rig_.session = rig_.Open(0);
    others_ = 0;
    calling_ = true;
    EndSessionAt(nth);
    EXPECT_EQ(RunBeside(ReserveBy()).status().code(), absl::StatusCode::kFailedPrecondition);
    ExpectNothingLeft();
    EXPECT_EQ(rig_.agent->host().used_bytes(), 0u);
  }
}

TEST_F(PausesTest, ACommitWhoseSessionEndsInAPauseIsOfWhatItHadReached) {
  std::vector<ReservationId> ids = ReserveAll();
  ASSERT_EQ(ids.size(), kBlocks);
  for (const ReservationId id : ids) {
    rig_.agent->sessions().reservations().NoteSum(rig_.session, id, PayloadSum());
  }
  during_ = [this](size_t /*others*/) {
    const bool is_reached = rig_.agent->index().blocks_in(Tier::kHost) >= 2 * kKeysPerTurn;
    if (is_reached) rig_.agent->CloseSession(rig_.session);
  };
  EXPECT_EQ(RunBeside(rig_.agent->flows().putter.Commit(rig_.session, std::move(ids))),
            2 * kKeysPerTurn);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), 2 * kKeysPerTurn);
  ExpectNothingLeft();
}

TEST_F(PausesTest, APrefixIsKeptWholeAndRenewedAndEndedAndOthersCallMeanwhile) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  constexpr size_t kQuarter = 1200 / 4;
  const BlockRun run = rig_.NameRun(rig_.session, 1, kBlocks);
  const auto keep = [&] {
    KeepRequest request{
        .sequences = {run}, .deadline = rig_.executor.Now(), .ttl = absl::Minutes(5)};
    return rig_.agent->flows().prefix_keeper.Keep(std::move(request));
  };
  const Kept first = *RunBeside(keep());
  EXPECT_EQ(first.sequences[0].indices.size(), kQuarter);
  EXPECT_GE(others_, 2u);
  calling_ = true;
  others_ = 0;
  const Kept again = *RunBeside(keep());
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.sequences[0].indices.size(), kQuarter);
  EXPECT_GE(others_, 3u);
  rig_.agent->Audit();
  calling_ = true;
  EXPECT_EQ(RunBeside(rig_.agent->flows().prefix_keeper.End(run.domain, first.id)), 1u);
  EXPECT_EQ(rig_.agent->flows().kept_prefixes.UseOf(run.domain), KeptPrefixes::Use());
  ExpectNothingLeft();
}

TEST_F(PausesTest, TwoThatKeepTheSamePrefixAtATimeKeepItOnce) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  const BlockRun run = rig_.NameRun(rig_.session, 1, kBlocks);
  const auto keep = [&] {
    return rig_.agent->flows().prefix_keeper.Keep({.sequences = {run},
                                                   .deadline = rig_.executor.Now() + absl::Hours(1),
                                                   .ttl = absl::Minutes(5)});
  };
  KeepCalling();
  const auto one = rig_.Spawn(keep());
  const auto two = rig_.Spawn(keep());
  while (!one->has_value() || !two->has_value()) rig_.time.Step();
  calling_ = false;
  EXPECT_EQ((**one)->id, (**two)->id);
  EXPECT_EQ((**one)->sequences[0].indices, (**two)->sequences[0].indices);
  EXPECT_EQ(rig_.agent->flows().kept_prefixes.UseOf(run.domain).prefixes, 1u);
  EXPECT_EQ(rig_.agent->flows().kept_prefixes.UseOf(run.domain).blocks, 300u);
  rig_.agent->Audit();
}

TEST_F(PausesTest, APrefixThatIsEndedWhileItIsKeptLeavesNothing) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, kBlocks), kBlocks);
  const BlockRun run = rig_.NameRun(rig_.session, 1, kBlocks);
  during_ = [&](size_t) { rig_.agent->flows().kept_prefixes.EndSome(run.domain, kMaxKeptBlocks); };
  const Kept kept = *RunBeside(rig_.agent->flows().prefix_keeper.Keep(
      {.sequences = {run}, .deadline = rig_.executor.Now(), .ttl = absl::Minutes(5)}));
  EXPECT_EQ(kept.id, KeptId{});
  EXPECT_TRUE(kept.sequences[0].indices.empty());
  EXPECT_EQ(rig_.agent->flows().kept_prefixes.UseOf(run.domain), KeptPrefixes::Use());
  ExpectNothingLeft();
}

}  // namespace
}  // namespace kvtier

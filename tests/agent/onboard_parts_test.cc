// Tests an onboard whose blocks are handed over in parts: blocks in host memory at once, the rest
// as they come.
#include "agent/flows/onboard_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "core/event.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {
namespace {

using Parts = Onboarder::Parts;
using Places = std::vector<size_t>;

constexpr absl::Duration kTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMoment = absl::Milliseconds(1);
constexpr uint64_t kOnDisk = 8;  // Blocks 1 to 8 are on disk.

class OnboardPartsTest : public ::testing::Test {
 protected:
  OnboardPartsTest() {
    EXPECT_EQ(rig_.PutOnDisk(rig_.session, 1, kOnDisk), kOnDisk);
    // Evicts blocks 1 to 8 from host memory.
    EXPECT_EQ(rig_.PutOnDisk(rig_.session, 100, 16), 16);
    EXPECT_EQ(rig_.agent->sessions().leases().size(), 0);
  }
  ~OnboardPartsTest() override { rig_.agent->Audit(); }

  // Brings the blocks to host memory, too.
  void Warm(uint64_t first, size_t count) {
    for (uint64_t key = first; key < first + count; ++key) {
      EXPECT_EQ(rig_.Hits(rig_.session, key, 1), 1);
    }
  }
  OnboardRequest Run(uint64_t first, size_t count) {
    return {.run = rig_.NameRun(rig_.session, first, count),
            .deadline = rig_.executor.Now() + kTimeout};
  }
  OnboardRequest Set(const std::vector<uint64_t>& numbers) {
    std::vector<EngineKey> keys;
    for (const uint64_t number : numbers) keys.push_back(TestEngineKey(number));
    BlockRun set = *rig_.agent->sessions().table().NameRun(rig_.session, 1, std::nullopt, keys);
    set.is_set = true;
    return {.run = std::move(set), .deadline = rig_.executor.Now() + kTimeout};
  }
  std::shared_ptr<Parts> Begin(std::vector<OnboardRequest> requests) {
    return *Parts::Begin(&rig_.agent->flows().onboarder, std::move(requests));
  }
  OnboardPart Next(Parts* parts) { return *rig_.Run(parts->Next()); }
  static Places PlacesOf(const OnboardPart& part, size_t sequence) {
    Places places;
    for (const OnboardPart::Sequence& of : part.sequences) {
      if (of.index != sequence) continue;
      for (const LeasedBlock& block : of.blocks) places.push_back(block.index);
    }
    return places;
  }

  AgentRig rig_;
};

TEST_F(OnboardPartsTest, WhatIsInHostMemoryComesAtOnceAndTheRestWhenItIsLoaded) {
  Warm(1, 2);
  rig_.disk.Stall();
  const absl::Time began = rig_.executor.Now();
  const auto parts = Begin({Run(1, 4)});
  const OnboardPart first = Next(parts.get());
  EXPECT_EQ(rig_.executor.Now(), began);
  EXPECT_EQ(PlacesOf(first, 0), (Places{0, 1}));
  EXPECT_TRUE(first.missed.empty());
  EXPECT_EQ(first.lease_deadline, began + kLeaseDuration);
  rig_.Pass(kMoment);
  rig_.disk.Resume();
  Places rest;
  for (OnboardPart part; part.missed.empty();) {
    part = Next(parts.get());
    EXPECT_EQ(part.lease_deadline, rig_.executor.Now() + kLeaseDuration);
    for (const size_t place : PlacesOf(part, 0)) rest.push_back(place);
    EXPECT_TRUE(part.missed.empty() || part.missed[0] == MissReason::kNone);
  }
  EXPECT_EQ(rest, (Places{2, 3}));
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 4);
}

TEST_F(OnboardPartsTest, AllThatIsInHostMemoryIsOnePartWhichIsTheLast) {
  Warm(1, 3);
  const OnboardPart only = Next(Begin({Run(1, 2), Set({3}), Run(500, 2)}).get());
  EXPECT_EQ(PlacesOf(only, 0), (Places{0, 1}));
  EXPECT_EQ(PlacesOf(only, 1), Places{0});
  EXPECT_EQ(PlacesOf(only, 2), Places{});
  EXPECT_EQ(only.sequences.size(), 2);
  EXPECT_EQ(only.missed,
            (std::vector<MissReason>{MissReason::kNone, MissReason::kNone, MissReason::kAbsent}));
}

TEST_F(OnboardPartsTest, NoBlockOfARunComesBeforeTheOnesAheadOfIt) {
  Warm(2, 2);
  rig_.disk.Stall();
  const auto parts = Begin({Run(1, 3)});
  const auto next = rig_.Spawn(parts->Next());
  rig_.Pass(kMoment);
  EXPECT_FALSE(next->has_value()) << "blocks 1 and 2 are ready, and behind a hole";
  rig_.disk.Resume();
  rig_.Pass(kMoment);
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ(PlacesOf(***next, 0), (Places{0, 1, 2}));
}

TEST_F(OnboardPartsTest, BlocksOfASetComeAsTheyAreReady) {
  Warm(3, 2);
  rig_.disk.Stall();
  const auto parts = Begin({Set({1, 4, 500, 3})});
  EXPECT_EQ(PlacesOf(Next(parts.get()), 0), (Places{1, 3}));
  rig_.disk.Resume();
  const OnboardPart last = Next(parts.get());
  EXPECT_EQ(PlacesOf(last, 0), Places{0});
  EXPECT_EQ(last.missed, std::vector<MissReason>{MissReason::kAbsent});
}

TEST_F(OnboardPartsTest, WhatBecomesReadyWhileNobodyAsksIsOnePart) {
  Warm(1, 1);
  const auto parts = Begin({Run(1, 4), Set({5, 6})});
  EXPECT_EQ(PlacesOf(Next(parts.get()), 0), Places{0});
  rig_.Pass(absl::Milliseconds(50));
  const OnboardPart rest = Next(parts.get());
  EXPECT_EQ(PlacesOf(rest, 0), (Places{1, 2, 3}));
  EXPECT_EQ(PlacesOf(rest, 1), (Places{0, 1}));
  EXPECT_EQ(rest.missed, (std::vector<MissReason>{MissReason::kNone, MissReason::kNone}));
}

TEST_F(OnboardPartsTest, WhatHasNotComeByTheDeadlineIsMissingAndStaysCachedWhenItComes) {
  Warm(1, 1);
  rig_.disk.Stall();
  const uint64_t missed_before = rig_.agent->stats().deadline_misses;
  const absl::Time began = rig_.executor.Now();
  const auto parts = Begin({Run(1, 3), Set({5, 100})});
  EXPECT_EQ(PlacesOf(Next(parts.get()), 0), Places{0});
  const OnboardPart last = Next(parts.get());
  EXPECT_EQ(rig_.executor.Now(), began + kTimeout);
  EXPECT_TRUE(last.sequences.empty());
  EXPECT_EQ(last.missed, (std::vector<MissReason>{MissReason::kDeadline, MissReason::kDeadline}));
  EXPECT_EQ(rig_.agent->stats().deadline_misses - missed_before, 3);
  rig_.disk.Resume();
  rig_.Pass(kMoment);
  EXPECT_TRUE(rig_.agent->index().In(Tier::kHost, rig_.NameRun(rig_.session, 2, 1).keys[0]));
}

TEST_F(OnboardPartsTest, ADeadlineThatIsNowTakesWhatIsHere) {
  Warm(1, 1);
  OnboardRequest request = Run(1, 2);
  request.deadline = rig_.executor.Now();
  const OnboardPart only = Next(Begin({std::move(request)}).get());
  EXPECT_EQ(PlacesOf(only, 0), Places{0});
  EXPECT_EQ(only.missed, std::vector<MissReason>{MissReason::kDeadline});
}

TEST_F(OnboardPartsTest, ABlockThatCannotBeReadEndsItsRunAndIsAHoleOfItsSet) {
  rig_.media.faults.read_error = 1;
  const auto parts = Begin({Run(1, 3), Set({4, 100})});
  EXPECT_EQ(PlacesOf(Next(parts.get()), 1), Places{1});
  const OnboardPart last = Next(parts.get());
  EXPECT_TRUE(last.sequences.empty());
  EXPECT_EQ(last.missed.size(), 2);
  for (const MissReason missed : last.missed) EXPECT_NE(missed, MissReason::kNone);
}

TEST_F(OnboardPartsTest, ACallerWhoIsGoneEndsItAndItsPinsGo) {
  Warm(2, 1);
  rig_.disk.Stall();
  auto parts = Begin({Run(1, 2)});
  const auto next = rig_.Spawn(parts->Next());
  rig_.Pass(kMoment);
  parts->Cancel();
  rig_.Pass(kMoment);
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((*next)->status().code(), absl::StatusCode::kCancelled);
  parts.reset();
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 0);
  rig_.disk.Resume();
  rig_.Pass(kMoment);
  EXPECT_TRUE(rig_.agent->index().In(Tier::kHost, rig_.NameRun(rig_.session, 1, 1).keys[0]))
      << "the load went on";
  EXPECT_EQ(rig_.PutOnDisk(rig_.session, 200, 16), 16);
  EXPECT_FALSE(rig_.agent->index().In(Tier::kHost, rig_.NameRun(rig_.session, 2, 1).keys[0]))
      << "nothing pins it";
}

TEST_F(OnboardPartsTest, APartThatTheCallerNeverGotIsTakenBack) {
  Warm(1, 2);
  const auto parts = Begin({Run(1, 4)});
  const OnboardPart first = Next(parts.get());
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 2);
  parts->TakeBack(first);
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 0);
}

TEST_F(OnboardPartsTest, TheEndOfItsSessionEndsItAtOnce) {
  Warm(2, 1);
  rig_.disk.Stall();
  const auto parts = Begin({Run(1, 2)});
  const auto next = rig_.Spawn(parts->Next());
  rig_.Pass(kMoment);
  rig_.agent->CloseSession(rig_.Open(0));
  rig_.Pass(kMoment);
  EXPECT_FALSE(next->has_value()) << "it was another one's";
  rig_.agent->CloseSession(rig_.session);
  rig_.Pass(kMoment);
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((*next)->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 0);
  rig_.disk.Resume();
}

TEST_F(OnboardPartsTest, AnAgentThatStopsAnswersAsAtTheDeadline) {
  Warm(1, 1);
  rig_.disk.Stall();
  const auto parts = Begin({Run(1, 2)});
  EXPECT_EQ(PlacesOf(Next(parts.get()), 0), Places{0});
  const auto next = rig_.Spawn(parts->Next());
  rig_.Pass(kMoment);
  rig_.agent->EndWaits();
  rig_.Pass(kMoment);
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((**next)->missed, std::vector<MissReason>{MissReason::kDeadline});
  rig_.disk.Resume();
}

TEST_F(OnboardPartsTest, WithoutALeaseNothingMoreIsHandedOver) {
  Warm(1, 3);
  const BlockKey key = rig_.NameRun(rig_.session, 1, 1).keys[0];
  for (size_t i = 0; i + 1 < kMaxLeasesPerSession; ++i) {
    ASSERT_TRUE(rig_.agent->sessions()
                    .leases()
                    .Grant(rig_.session, DomainId{0}, *rig_.agent->index().PinOf(key),
                           rig_.executor.Now() + kLeaseDuration)
                    .ok());
  }
  const auto parts = Begin({Run(1, 2), Set({3, 2, 4})});
  const OnboardPart only = Next(parts.get());
  EXPECT_EQ(PlacesOf(only, 0), Places{0});
  EXPECT_EQ(PlacesOf(only, 1), Places{});
  EXPECT_EQ(only.missed, (std::vector<MissReason>{MissReason::kNoRoom, MissReason::kNoRoom}));
}

TEST_F(OnboardPartsTest, TheGpuPoolIsRefusedByName) {
  OnboardRequest request = Run(1, 2);
  request.target = Tier::kGpu;
  const absl::Status refused =
      Parts::Begin(&rig_.agent->flows().onboarder, {std::move(request)}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("target"), absl::string_view::npos);
}

// A coordinator that answers no question in time.
class SilentCoordinator final : public CoordinatorLink {
 public:
  Executor* executor = nullptr;
  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time /*deadline*/) override {
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size()};
  }
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery /*query*/, absl::Time deadline) override {
    co_await SleepUntil(executor, deadline);
    co_return absl::DeadlineExceededError("silent");
  }
};

TEST(OnboardPartsAloneTest, WhatIsHereDoesNotWaitForTheCoordinatorsWordOnTheRest) {
  SilentCoordinator coordinator;
  AgentRig rig({.disk = false, .coordinator = &coordinator});
  coordinator.executor = &rig.executor;
  ASSERT_EQ(rig.Put(rig.session, 1, 2), 2);
  rig.Pass(absl::Seconds(2));  // The agent has heard from the coordinator.
  const absl::Time began = rig.executor.Now();
  BlockRun set = rig.NameRun(rig.session, 2, 2);
  set.is_set = true;
  const absl::Time deadline = began + kTimeout;
  const auto parts = *Parts::Begin(&rig.agent->flows().onboarder,
                                   {{.run = rig.NameRun(rig.session, 1, 4), .deadline = deadline},
                                    {.run = std::move(set), .deadline = deadline}});
  const OnboardPart first = *rig.Run(parts->Next());
  EXPECT_EQ(rig.executor.Now(), began);
  EXPECT_EQ(first.sequences.size(), 2);
  EXPECT_TRUE(first.missed.empty());
  const OnboardPart last = *rig.Run(parts->Next());
  EXPECT_GT(rig.executor.Now(), began);
  EXPECT_TRUE(last.sequences.empty());
  EXPECT_EQ(last.missed, (std::vector<MissReason>{MissReason::kAbsent, MissReason::kAbsent}));
}

// The parts of a request together equal one answer: no block comes twice, and runs come in order.
TEST_F(OnboardPartsTest, ThePartsTogetherAreWhatOneAnswerIs) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    Warm(1 + random() % kOnDisk, 1);
    for (int i = 0; i < 4; ++i) Warm(100 + random() % 16, 1);  // These evict others.
    std::vector<OnboardRequest> asked;
    for (size_t i = 0; i <= random() % 3; ++i) {
      const uint64_t first = 1 + random() % kOnDisk;
      asked.push_back(random() % 2 == 0
                          ? Run(first, 1 + random() % 4)
                          : Set({first, 500 + random() % 2, 1 + (first + 3) % kOnDisk}));
    }
    const auto parts = Begin(asked);
    std::vector<Places> came(asked.size());
    std::vector<MissReason> missed;
    std::vector<LeaseId> leases;
    while (missed.empty()) {
      if (random() % 2 == 0) rig_.Pass(absl::Microseconds(random() % 200));
      const OnboardPart part = Next(parts.get());
      EXPECT_TRUE(!part.sequences.empty() || !part.missed.empty());
      for (const OnboardPart::Sequence& sequence : part.sequences) {
        for (const LeasedBlock& block : sequence.blocks) {
          came[sequence.index].push_back(block.index);
          leases.push_back(block.lease);
        }
      }
      missed = part.missed;
    }
    for (OnboardRequest& request : asked) request.deadline = rig_.executor.Now() + kTimeout;
    const std::vector<Onboarded> whole = *rig_.Run(rig_.agent->flows().onboarder.OnboardAll(asked));
    for (size_t i = 0; i < asked.size(); ++i) {
      Places expected;
      for (const LeasedBlock& block : whole[i].blocks) {
        expected.push_back(block.index);
        leases.push_back(block.lease);
      }
      if (asked[i].run.is_set) std::ranges::sort(came[i]);
      EXPECT_EQ(came[i], expected);
      EXPECT_EQ(missed[i], whole[i].missed);
    }
    rig_.agent->sessions().leases().Release(rig_.session, leases);
  }
}

}  // namespace
}  // namespace kvtier::testing

// Tests DirectorySync against the real Coordinator, over a wire that the test plays.
#include "agent/peers/directory_sync.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "coordinator/coordinator.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedName;
using testing::SimExecutor;
using testing::SimRandom;
using testing::SimTime;

class DirectorySyncTest : public ::testing::Test {
 protected:
  void Add(uint64_t number) {
    held_.insert(number);
    sync_.Add({.kind = Delta::Kind::kAdd, .name = NumberedName(number)});
  }
  void Remove(uint64_t number) {
    held_.erase(number);
    sync_.Add({.kind = Delta::Kind::kRemove, .name = NumberedName(number)});
  }
  // Sends one report and takes its answer; returns false if that asks for a resync.
  bool Exchange() {
    const ReportReply reply = *coordinator_->OnReport(sync_.Next());
    sync_.OnReply(reply);
    return !reply.resync;
  }
  void Settle() {
    for (int i = 0; i < 200 && sync_.HasNews(); ++i) Exchange();
    ASSERT_FALSE(sync_.HasNews());
  }
  bool Knows(uint64_t number) { return !coordinator_->Lookup(NumberedName(number)).empty(); }
  void ExpectTruth(uint64_t numbers) {
    for (uint64_t number = 0; number < numbers; ++number) {
      ASSERT_EQ(Knows(number), held_.contains(number)) << "block " << number;
    }
  }
  void RestartCoordinator() { MakeCoordinator({coordinator_->epoch().value + 1}); }
  void MakeCoordinator(Epoch epoch) {
    coordinator_ = std::make_unique<Coordinator>(&executor_, epoch, CoordinatorOptions());
  }

  SimTime time_;
  SimExecutor executor_{&time_};
  std::set<uint64_t> held_;
  size_t part_ = SIZE_MAX;
  uint64_t next_ = 0;
  std::unique_ptr<Coordinator> coordinator_ =
      std::make_unique<Coordinator>(&executor_, Epoch{1}, CoordinatorOptions());
  // Takes a snapshot, `part_` blocks at a time, in the order of their numbers.
  DirectorySync sync_{
      *NodeId::FromString("node"), Epoch{5}, "node:7400",
      [this](bool is_first, std::vector<NamedDelta>* deltas) {
        if (is_first) next_ = 0;
        auto number = held_.lower_bound(next_);
        for (size_t i = 0; i < part_ && number != held_.end(); ++i, ++number) {
          deltas->push_back({.kind = Delta::Kind::kAdd, .name = NumberedName(*number)});
          next_ = *number + 1;
        }
        return number != held_.end();
      }};
};

TEST_F(DirectorySyncTest, StartsWithASnapshotThenSendsChanges) {
  Add(1);
  EXPECT_FALSE(sync_.synced());
  EXPECT_TRUE(Exchange());
  EXPECT_TRUE(sync_.synced());
  EXPECT_FALSE(sync_.HasNews());
  Add(2);
  Remove(1);
  EXPECT_TRUE(sync_.HasNews());
  EXPECT_TRUE(Exchange());
  ExpectTruth(4);
}

// A node with millions of blocks took them all in one turn, in which nobody else was served.
TEST_F(DirectorySyncTest, ASnapshotIsTakenInPartsAmongChanges) {
  for (uint64_t number = 0; number < 100; ++number) Add(number);
  part_ = 16;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Exchange());
    EXPECT_FALSE(sync_.synced());
    Remove(static_cast<uint64_t>(i));       // It was told.
    Remove(static_cast<uint64_t>(90 + i));  // Its turn has not come.
    Add(static_cast<uint64_t>(200 + i));
  }
  Settle();
  EXPECT_TRUE(sync_.synced());
  ExpectTruth(300);
  RestartCoordinator();
  Add(300);
  Settle();
  ExpectTruth(301);
}

TEST_F(DirectorySyncTest, ALostReportAndALostAnswerAreRepeated) {
  Settle();
  Add(1);
  const Report lost = sync_.Next();
  EXPECT_EQ(lost.deltas.size(), 1u);
  Add(2);
  ASSERT_TRUE(coordinator_->OnReport(sync_.Next()).ok());  // It arrives; its answer is lost.
  Add(3);
  EXPECT_TRUE(Exchange());
  EXPECT_FALSE(sync_.HasNews());
  ExpectTruth(5);
}

TEST_F(DirectorySyncTest, ARestartedCoordinatorIsToldEverythingAgain) {
  Add(1);
  Settle();
  RestartCoordinator();
  Add(2);
  EXPECT_FALSE(Exchange());
  EXPECT_FALSE(sync_.synced());
  Settle();
  ExpectTruth(4);
}

TEST_F(DirectorySyncTest, ALargeSnapshotComesInPieces) {
  for (uint64_t i = 0; i < kMaxDeltasPerMessage + 10; ++i) Add(i);
  const Report first = sync_.Next();
  EXPECT_EQ(first.deltas.size(), kMaxDeltasPerMessage);
  EXPECT_TRUE(first.snapshot_begin);
  EXPECT_FALSE(first.snapshot_end);
  EXPECT_TRUE(Exchange());
  EXPECT_FALSE(sync_.synced());
  const Report second = sync_.Next();
  EXPECT_FALSE(second.snapshot_begin);
  EXPECT_TRUE(second.snapshot_end);
  Settle();
  ExpectTruth(kMaxDeltasPerMessage + 20);
}

TEST_F(DirectorySyncTest, BeyondKMaxPendingDeltasASnapshotReplacesThem) {
  Settle();
  for (size_t i = 0; i < kMaxPendingDeltas; ++i) {
    if (i % 2 == 0) Add(1);
    if (i % 2 == 1) Remove(1);
  }
  EXPECT_TRUE(sync_.synced()) << "at the limit";
  Add(2);
  EXPECT_FALSE(sync_.synced()) << "one more";
  Settle();
  ExpectTruth(4);
}

// Regression: a node with more copies than the limit began its snapshot again at every change, and
// never finished it.
TEST_F(DirectorySyncTest, ASnapshotLargerThanTheLimitStillEndsWhileTheNodeChanges) {
  for (uint64_t i = 0; i < kMaxPendingDeltas + 10; ++i) held_.insert(i);
  uint64_t fresh = kMaxPendingDeltas + 10;
  int reports = 0;
  while (!sync_.synced() && reports < 100) {
    ASSERT_TRUE(Exchange());
    Add(fresh++);
    ++reports;
  }
  EXPECT_TRUE(sync_.synced());
  EXPECT_EQ(reports, static_cast<int>((kMaxPendingDeltas + 10) / kMaxDeltasPerMessage + 1));
}

// Regression: numbers were used again after a snapshot. The coordinator then took an old report
// that arrived late for a new one, and skipped the new deltas under the same numbers as repeats.
TEST_F(DirectorySyncTest, AnOldReportHeardAfterASnapshotDoesNotCorruptTheStream) {
  Settle();
  for (uint64_t i = 0; i < 10; ++i) Add(i);
  const Report late = sync_.Next();
  for (uint64_t i = 1; i < 10; ++i) Remove(i);
  // One block changes so often while no report arrives that a snapshot replaces all the changes.
  for (size_t i = 0; i < kMaxPendingDeltas; i += 2) {
    Add(45);
    Remove(45);
  }
  ASSERT_FALSE(sync_.synced());
  EXPECT_TRUE(Exchange());  // The snapshot has block 0 alone.
  ASSERT_TRUE(coordinator_->OnReport(late).ok());
  for (uint64_t i = 20; i < 40; ++i) Add(i);
  Settle();
  ExpectTruth(50);
}

// Reports and answers are lost, repeated and overtaken; coordinators restart.
TEST_F(DirectorySyncTest, OnceTheWireIsGoodTheDirectoryIsTheTruth) {
  SimRandom random(testing::TestSeed());
  std::vector<Report> old;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t number = random.Below(60);
    if (held_.contains(number)) {
      Remove(number);
    } else {
      Add(number);
    }
    if (random.Draw(0.01)) RestartCoordinator();
    if (random.Draw(0.4)) continue;
    Report report = sync_.Next();
    if (random.Draw(0.2)) old.push_back(report);
    if (random.Draw(0.2)) continue;  // Lost.
    const auto reply = coordinator_->OnReport(report);
    if (!random.Draw(0.2)) sync_.OnReply(*reply);
    if (!old.empty() && random.Draw(0.1)) {
      ASSERT_TRUE(coordinator_->OnReport(old[random.Below(old.size())]).ok());
    }
    coordinator_->Audit();
  }
  // A heartbeat finds out what a late report broke.
  Exchange();
  Settle();
  ExpectTruth(60);
}

}  // namespace
}  // namespace kvtier

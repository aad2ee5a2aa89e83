// Tests a worker killed with leases and reservations in its hands: all of them are back within a
// second, and the slots serve others. One that only hangs up may still write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kGivenBackWithin = absl::Seconds(1);

// A host tier of exactly 32 slots, all of which the doomed worker takes.
class DeadWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(worker_.Put({.first = 100, .count = 16}), 16);
    ASSERT_TRUE(agent_.AwaitOffloaded());
    absl::StatusOr<std::unique_ptr<ChildProcess>> doomed = ChildProcess::Start(
        {ProgramPath("kvtier-holding-worker"), agent_.socket_dir(), "100", "16", "200", "16"},
        absl::StrCat(cluster_.run_dir(), "/worker.log"));
    ASSERT_EQ(doomed.status(), absl::OkStatus());
    doomed_ = *std::move(doomed);
    ASSERT_TRUE(Await(absl::Seconds(10), [&] {
      const v1::AgentStatusResponse status = agent_.Status();
      return status.leases() == 16 && status.reservations() == 16;
    }));
  }
  bool NothingHeld() {
    const v1::AgentStatusResponse status = agent_.Status();
    return status.leases() == 0 && status.reservations() == 0 && status.sessions() == 1;
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", {{"host_bytes", "2MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  std::unique_ptr<ChildProcess> doomed_;
};

TEST_F(DeadWorkerTest, EverythingItHeldIsBackWithinASecondAndUsable) {
  // While the worker lives, no slot is free: all are leased, or promised to the disk.
  EXPECT_EQ(agent_.Status().sessions(), 2);
  EXPECT_EQ(worker_.Put({.first = 300, .count = 4}, {.timeout = absl::Milliseconds(250)}), 0);
  EXPECT_EQ(agent_.Status().offload().declined_behind(), 4);

  doomed_->Signal(SIGKILL);
  EXPECT_TRUE(Await(kGivenBackWithin, [&] { return NothingHeld(); }));
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).pinned_bytes(), 0);
  EXPECT_EQ(worker_.Put({.first = 400, .count = 16}), 16);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(worker_.Put({.first = 416, .count = 16}, {.parent = worker_.KeysOf({415, 1})[0]}), 16);
  EXPECT_THAT(worker_.Get({.first = 400, .count = 32}), ::testing::SizeIs(32));
}

TEST_F(DeadWorkerTest, TheBlocksItHadReservedCanBePutByAnother) {
  // A put must not be answered "present": the dead worker will never commit these blocks.
  doomed_->Kill();
  ASSERT_TRUE(Await(kGivenBackWithin, [&] { return NothingHeld(); }));
  EXPECT_EQ(worker_.Put({.first = 200, .count = 16}), 16);
  EXPECT_THAT(worker_.Get({.first = 200, .count = 16}), ::testing::SizeIs(16));
}

TEST_F(DeadWorkerTest, AWorkerThatHangsKeepsWhatItHolds) {
  doomed_->Signal(SIGSTOP);
  EXPECT_EQ(worker_.Put({.first = 300, .count = 4}, {.timeout = absl::Milliseconds(50)}), 0);
  EXPECT_EQ(agent_.Status().leases(), 16);
  doomed_->Kill();
  EXPECT_TRUE(Await(kGivenBackWithin, [&] { return NothingHeld(); }));
}

TEST_F(DeadWorkerTest, AnAgentKilledBetweenFindsNothingHeldWhenItIsBack) {
  agent_.Kill();
  doomed_->Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_TRUE(NothingHeld());
  EXPECT_THAT(worker_.Get({.first = 100, .count = 16}), ::testing::SizeIs(16));
}

class HungUpWorkerTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSlot = uint64_t{64} << 10;
  uint64_t late_bytes() { return agent_.TierStatus(Tier::kHost).late_bytes(); }

  ProcessCluster cluster_;
  // Nothing is promised to the disk, so that one put may have every slot.
  AgentProcess& agent_ =
      cluster_.StartAgent("node-a", {{"host_bytes", "2MiB"}, {"disk_write_moment", "eviction"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(HungUpWorkerTest, WhatItMayStillWriteIsFreeWhenItsProcessIsGone) {
  const auto started = ChildProcess::Start(
      {ProgramPath("kvtier-holding-worker"), agent_.socket_dir(), "100", "4", "200", "8", "hangup"},
      absl::StrCat(cluster_.run_dir(), "/worker.log"));
  ASSERT_EQ(started.status(), absl::OkStatus());
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return late_bytes() == 8 * kSlot; }));
  EXPECT_EQ(agent_.Status().sessions(), 1);
  EXPECT_EQ(worker_.Put({.first = 200, .count = 32}), 24);
  (*started)->Signal(SIGKILL);
  EXPECT_TRUE(Await(kGivenBackWithin, [&] { return late_bytes() == 0; }));
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(worker_.Put({.first = 300, .count = 32}), 32);
}

TEST_F(HungUpWorkerTest, AClientSaysWhenTheLastOfItsSlotsIsGivenUp) {
  auto leaving = std::make_unique<TestWorker>(TestWorkerOptions{.socket_dir = agent_.socket_dir()});
  absl::StatusOr<ReservedBlocks> one =
      leaving->client().Reserve(leaving->space(), leaving->KeysOf({.first = 200, .count = 2}));
  absl::StatusOr<ReservedBlocks> two =
      leaving->client().Reserve(leaving->space(), leaving->KeysOf({.first = 210, .count = 3}));
  ASSERT_EQ(one->reserved() + two->reserved(), 5);
  leaving.reset();
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return late_bytes() == 5 * kSlot; }));
  one->Release();
  EXPECT_EQ(late_bytes(), 5 * kSlot) << "a session speaks once, for all of them";
  two->Release();
  EXPECT_TRUE(Await(kGivenBackWithin, [&] { return late_bytes() == 0; }));
  EXPECT_EQ(agent_.Status().reservations(), 0);
}

}  // namespace
}  // namespace kvtier::testing

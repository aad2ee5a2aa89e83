// kill -9 of an agent at every named place of its GPU pool (core/kill_point.h), and again
// while the next one takes the pool back, beside a worker that lives: no byte is wrong, no
// slot is lost, and what was committed is served from its slots again.
//
// KVTIER_KILL_ROUNDS multiplies the kills, KVTIER_TEST_SEED replays the draws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kill_point.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::SizeIs;

constexpr uint64_t kKillsPerPlace = 2;
constexpr absl::Duration kReachedWithin = absl::Seconds(30);
constexpr absl::Duration kResizeWithin = absl::Seconds(1);

// Held in the pool through every death, and a block that is damaged while no agent runs.
constexpr Blocks kPrefix = {.first = 100, .count = 4};
constexpr Blocks kDamaged = {.first = 200, .count = 1};
// Of each round of work.
constexpr uint64_t kFirstOfRound = 10'000;
constexpr uint64_t kNumbersOfRound = 100;

constexpr uint64_t kSlotBytes = uint64_t{64} << 10;
constexpr uint64_t kSmallPool = uint64_t{2} << 20;  // One handle.
constexpr uint64_t kLargePool = 2 * kSmallPool;

uint64_t Kills() { return kKillsPerPlace * FromEnvironment("KVTIER_KILL_ROUNDS", 1); }

// Which hit of a place may be the last one. A start has few; slots come and go all the time.
uint64_t MostHits(std::string_view place) {
  if (place == "gpu.take_in_host" || place == "gpu.take_published") return kPrefix.count;
  if (place.starts_with("gpu.take_")) return 1;
  return place.starts_with("gpu.slot_") || place.starts_with("gpu.entry_") ? 100 : 3;
}

class GpuKillPointsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(agent_.Start().status(), absl::OkStatus()); }

  // Commits what is to survive, and ends the agent that did.
  void LeaveAPool();
  // An agent that takes the pool back and works until it dies at the nth hit of the place.
  void DieAt(const std::string& place, uint64_t nth);
  // The next agent: what it serves, and that all its slots are of use.
  void Verify();

  SimRandom random_{TestSeed()};

 private:
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kSlotBytes; }
  size_t ServedFromGpu(Blocks blocks) {
    const std::vector<BlockSource> sources = worker_.Get(blocks, to_gpu_);
    return static_cast<size_t>(std::count(sources.begin(), sources.end(), BlockSource::kGpu));
  }
  Blocks OfRound(uint64_t round) const {
    return {.first = kFirstOfRound + kNumbersOfRound * round, .count = 28};
  }
  // All that an agent does with its pool. It may die at any call, which is a miss then.
  void Work();

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.AddAgent("node-a", {{"gpu_bytes", "2MiB"},
                                                      {"gpu_max_bytes", "4MiB"},
                                                      {"gpu_block_bytes", "64KiB"},
                                                      {"device", "emulated"},
                                                      {"disk_dir", ""}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  const ReserveOptions through_gpu_ = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
  uint64_t round_ = 0;
  const std::string visitor_log_ = absl::StrCat(cluster_.run_dir(), "/visitor.log");
  std::unique_ptr<ChildProcess> visitor_;
};

void GpuKillPointsTest::LeaveAPool() {
  ASSERT_TRUE(worker_.AwaitConnected());
  ASSERT_EQ(worker_.Put(kPrefix, through_gpu_), kPrefix.count);
  ASSERT_EQ(worker_.Put(kDamaged, through_gpu_), kDamaged.count);
  const OnboardedBlocks damaged = worker_.Hold(kDamaged, to_gpu_);
  ASSERT_EQ(damaged.size(), kDamaged.count);
  agent_.Kill();
  const_cast<std::byte&>(damaged.bytes(0)[77]) ^= std::byte{1};
}

void GpuKillPointsTest::DieAt(const std::string& place, uint64_t nth) {
  agent_.RunAs({"/usr/bin/env", absl::StrCat("KVTIER_KILL_AT=", place, ":", nth),
                ProgramPath("kvtier-killable-agent")});
  ASSERT_EQ(agent_.Spawn(), absl::OkStatus());
  OnboardedBlocks held;
  const bool died = Await(kReachedWithin, [&] {
    if (!worker_.client().Stats().connected) return !agent_.process().Running();
    if (!held.valid()) held = worker_.Hold(kPrefix, to_gpu_);
    // Waits for the hold, which fails as long as the connection is that to the agent before: work
    // evicts what nobody holds.
    if (held.size() == kPrefix.count) Work();
    return !agent_.process().Running();
  });
  visitor_.reset();
  ASSERT_TRUE(died) << "hit " << nth << " was to end it";
  ASSERT_EQ(agent_.process().Wait(absl::ZeroDuration()), -SIGKILL);
}

void GpuKillPointsTest::Work() {
  const Blocks blocks = OfRound(++round_);
  const Blocks before = OfRound(round_ - 1);
  const auto pool = [](Blocks of, size_t count) { return Blocks{of.first, count}; };
  const std::array<std::function<void()>, 8> chores = {
      [&] { worker_.Put(pool(blocks, 6), through_gpu_); },
      // In again, from host memory.
      [&] { agent_.TryEvict(Tier::kGpu).IgnoreError(); },
      [&] { worker_.Get(pool(blocks, 6), to_gpu_); },
      // What only the pool has leaves it for more.
      [&] { agent_.TryEvict(Tier::kHost).IgnoreError(); },
      [&] {
        worker_.Put(blocks, through_gpu_);
        worker_.Get(before, to_gpu_);
      },
      [&] {
        auto memory = worker_.client().TakeSlots(worker_.space(), 4);
        if (memory.ok()) *memory = GrantedSlots();
      },
      // The one of the last round ends, whatever it had.
      [&] {
        visitor_ = *ChildProcess::Start({ProgramPath("kvtier-holding-worker"), agent_.socket_dir(),
                                         "100", "4", "0", "3", "gpu-memory"},
                                        visitor_log_);
      },
      [&] {
        for (const uint64_t bytes : {kLargePool, kSmallPool}) {
          agent_.ResizeGpu(bytes, kResizeWithin).IgnoreError();
        }
      }};
  for (const std::function<void()>& chore : chores) {
    if (!agent_.process().Running()) return;
    chore();
  }
}

void GpuKillPointsTest::Verify() {
  agent_.RunAs({ProgramPath("kvtier-agent")});
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_TRUE(Await(absl::Seconds(5), [&] {
    const v1::GpuReport pool = agent_.Status().gpus(0);
    return pool.earlier_workers() == 0 && pool.unproved_blocks() == 0 &&
           UsedSlots() == agent_.TierStatus(Tier::kGpu).blocks();
  })) << absl::StrCat(agent_.Status().gpus(0).earlier_workers(), " earlier workers");
  EXPECT_EQ(ServedFromGpu(kPrefix), kPrefix.count);
  // Every byte is looked at of what there is of these.
  worker_.Get(kDamaged, to_gpu_);
  for (uint64_t round = round_ < 3 ? 0 : round_ - 3; round <= round_; ++round) {
    worker_.Get(OfRound(round), to_gpu_);
  }
  agent_.Evict(Tier::kGpu);
  agent_.Evict(Tier::kHost);
  EXPECT_EQ(UsedSlots(), 0);
  const uint64_t bytes = agent_.GpuSize().bytes();
  EXPECT_TRUE(bytes == kSmallPool || bytes == kLargePool) << bytes;
  const Blocks all = {.first = 500, .count = bytes / kSlotBytes};
  EXPECT_EQ(worker_.Put(all, through_gpu_), all.count);
  EXPECT_THAT(worker_.Get(all, to_gpu_), SizeIs(all.count));
  agent_.Evict(Tier::kGpu);
  agent_.Evict(Tier::kHost);
  const absl::StatusOr<v1::GpuPoolSize> size = agent_.ResizeGpu(kSmallPool);
  ASSERT_EQ(size.status(), absl::OkStatus());
  EXPECT_EQ(size->bytes(), kSmallPool) << size->failure();
}

TEST_F(GpuKillPointsTest, WhatWasCommittedSurvivesAKillAtEachPlace) {
  size_t places = 0;
  for (const std::string_view point : kKillPoints) {
    if (!IsGpuKillPoint(point)) continue;
    const std::string place(point);
    for (uint64_t i = 0; i < Kills(); ++i) {
      const uint64_t nth = 1 + random_.Below(MostHits(place));
      SCOPED_TRACE(absl::StrCat(place, ", hit ", nth));
      LeaveAPool();
      if (!HasFatalFailure()) DieAt(place, nth);
      if (!HasFatalFailure()) Verify();
      if (HasFailure()) return;
    }
    ++places;
  }
  std::printf("%zu places, %llu kills each\n", places, static_cast<unsigned long long>(Kills()));
}

}  // namespace
}  // namespace kvtier::testing

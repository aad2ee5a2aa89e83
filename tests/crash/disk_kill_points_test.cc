// Kills (-9) at every named place of the disk tier (core/kill_point.h), again and again: everything
// that had been acknowledged is there and right afterwards, and nothing is wrong.
//
// KVTIER_KILL_ROUNDS multiplies the kills, KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kill_point.h"
#include "tests/crash/disk_kill_child.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_child.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kKillsPerPlace = 2;
// Steps of a child that must die while it works, and of one that must die while it opens the disk.
constexpr uint64_t kWorkSteps = 250;
constexpr uint64_t kOpenSteps = 40;
// Number of openings over which hits are counted, and number after which a child that was not
// killed ends: threads meet differently each time, so a hit may come late.
constexpr uint64_t kCountedOpens = 5;
constexpr uint64_t kMaxOpens = 30;

uint64_t Rounds() { return FromEnvironment("KVTIER_KILL_ROUNDS", 1); }

// Place where a child dies before another child dies opening the disk that it left.
constexpr std::string_view kBeforeOpening = "reclaim.before_commit";

enum class Phase { kWork, kOpen, kRenew };

Phase PhaseOf(std::string_view place) {
  if (place.starts_with("open.")) return Phase::kOpen;
  return place.starts_with("renew.") ? Phase::kRenew : Phase::kWork;
}

DiskIoKind IoKind(bool uring) { return uring ? DiskIoKind::kAuto : DiskIoKind::kPread; }

using Hits = std::array<uint64_t, kKillPoints.size()>;

// KilledDisk is a disk's directory, on which children work and die, and the blocks that must be
// there.
class KilledDisk {
 public:
  explicit KilledDisk(uint64_t seed) : random_(seed), directory_(FreshDirectory("kill-point")) {}
  ~KilledDisk() {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  // Lets a child work as in `phase` without a kill, and adds its hits of each place to `hits`.
  void Count(Phase phase, Hits* hits);
  // Lets a child work until it dies at the n-th hit of `place`; n is random, `most` at most.
  void Kill(std::string_view place, uint64_t most, DiskIoKind io);
  // Opens the disk twice and checks everything that is there.
  void Verify();

  uint64_t verified() const { return verified_; }

 private:
  KillPlan PlanFor(Phase phase);
  int Run(const KillPlan& plan, Hits* hits);
  void Look(DiskIoKind io, std::set<uint64_t>* found);

  SimRandom random_;
  const std::string directory_;
  DurableBlocks durable_;
  uint64_t verified_ = 0;
};

KillPlan KilledDisk::PlanFor(Phase phase) {
  return {.directory = directory_,
          .seed = random_.Next(),
          .opens = kMaxOpens,
          .steps = phase == Phase::kWork ? kWorkSteps : kOpenSteps,
          .renew = phase == Phase::kRenew};
}

int KilledDisk::Run(const KillPlan& plan, Hits* hits) {
  const auto child = DiskChild::Start(KillWords(plan));
  if (child == nullptr) return kDiskFailed;
  while (const std::optional<DiskReport> report = child->Next()) {
    durable_.Take(*report);
    if (report->what == DiskReport::What::kHits) (*hits)[report->number] += report->count;
  }
  return child->Wait();
}

void KilledDisk::Count(Phase phase, Hits* hits) {
  KillPlan plan = PlanFor(phase);
  plan.opens = kCountedOpens;
  ASSERT_EQ(Run(plan, hits), 0);
}

void KilledDisk::Kill(std::string_view place, uint64_t most, DiskIoKind io) {
  KillPlan plan = PlanFor(PhaseOf(place));
  plan.io = io;
  plan.place = std::string(place);
  plan.nth = 1 + random_.Below(most);
  Hits hits = {};
  ASSERT_EQ(Run(plan, &hits), -SIGKILL)
      << "reached " << hits[KillPointNumber(place)] << " times, hit " << plan.nth
      << " was to end it (a positive status is the child's own: disk_kill_child.h)";
}

void KilledDisk::Look(DiskIoKind io, std::set<uint64_t>* found) {
  ThreadExecutor executor("test-executor");
  BytePool pool(&executor, "test-bytes", 1);
  const auto disk = OpenDisk(&executor, KillLayout(directory_), io);
  ASSERT_TRUE(disk.ok()) << disk.status();
  DiskTier tier(&executor, &pool, disk->disk.get(), disk->manifest.get(),
                [](DiskTier::Change change, const BlockKey& key, TenantTag) {
                  EXPECT_EQ(change, DiskTier::Change::kAdded)
                      << "damaged: block " << KillBlockNumber(key);
                });
  const auto opened = RunTask(&executor, tier.Open());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->dropped_corrupt + opened->dropped_misfit + opened->dropped_stale, 0u);
  tier.Audit();
  for (const BlockKey& key : tier.Keys()) found->insert(KillBlockNumber(key));
  for (const uint64_t number : durable_.numbers()) {
    EXPECT_TRUE(found->contains(number)) << "block " << number << " was acknowledged and is lost";
  }
  EXPECT_EQ(RunTask(&executor, ReadBlocks(&tier, *found, &KillBlockLength)), absl::OkStatus());
  tier.Audit();
  verified_ += found->size();
}

void KilledDisk::Verify() {
  std::set<uint64_t> first;
  Look(DiskIoKind::kAuto, &first);
  if (::testing::Test::HasFatalFailure()) return;
  std::set<uint64_t> second;
  Look(DiskIoKind::kPread, &second);
  EXPECT_EQ(first, second) << "another reopening finds other blocks";
}

class KillPointsTest : public ::testing::Test {
 protected:
  // Returns how often an unharmed child reaches each place, in each phase.
  Hits Counted(Phase phase) {
    Hits hits = {};
    KilledDisk disk(random_.Next());
    disk.Count(phase, &hits);
    return hits;
  }
  SimRandom random_{TestSeed()};
};

TEST_F(KillPointsTest, WhatWasAcknowledgedSurvivesAKillAtEachPlace) {
  const std::array<Hits, 3> counted = {Counted(Phase::kWork), Counted(Phase::kOpen),
                                       Counted(Phase::kRenew)};
  const Hits& work = counted[static_cast<size_t>(Phase::kWork)];
  ASSERT_FALSE(HasFatalFailure());
  std::printf("%-28s %8s %6s %16s\n", "place", "reached", "kills", "blocks verified");
  size_t places = 0;
  uint64_t kills = 0;
  uint64_t verified = 0;
  for (size_t place = 0; place < kKillPoints.size(); ++place) {
    const std::string name(kKillPoints[place]);
    if (IsResidencyKillPoint(name)) continue;
    SCOPED_TRACE(name);
    const Phase phase = PhaseOf(name);
    const uint64_t reached = counted[static_cast<size_t>(phase)][place];
    EXPECT_GT(reached, 0u) << "no code reaches this place; if its file is new among those with "
                              "kill points, CMake has to look for them again";
    if (reached == 0) continue;
    KilledDisk disk(random_.Next());
    const uint64_t wanted = kKillsPerPlace * Rounds();
    for (uint64_t i = 0; i < wanted; ++i) {
      const bool uring = i % 2 == 0;
      if (phase != Phase::kWork && i > 0) {
        // An opening must meet the state that a kill left, not one that Verify() repaired. A disk
        // made again is empty: blocks put on it next must not be mixed up with earlier ones.
        disk.Kill(kBeforeOpening, work[KillPointNumber(kBeforeOpening)], IoKind(!uring));
        if (phase == Phase::kRenew) disk.Verify();
      }
      disk.Kill(name, reached, IoKind(uring));
      if (HasFatalFailure()) return;
      disk.Verify();
      if (HasFailure()) return;
    }
    std::printf("%-28s %8llu %6llu %16llu\n", name.c_str(),
                static_cast<unsigned long long>(reached), static_cast<unsigned long long>(wanted),
                static_cast<unsigned long long>(disk.verified()));
    ++places;
    kills += wanted;
    verified += disk.verified();
  }
  std::printf("%zu places, %llu kills, %llu blocks read and right\n", places,
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(verified));
}

}  // namespace
}  // namespace kvtier::testing

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--child") {
    return kvtier::testing::RunKillChild(kvtier::testing::ParseKillWords(words));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

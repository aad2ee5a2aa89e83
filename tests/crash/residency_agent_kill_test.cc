// Kills (-9) a real agent at each place of an update of its residency table that a few thousand
// blocks reach (residency_kill_points_test.cc reaches all of them, without an agent), beside a
// worker that reads the table. Each look ends, and the next agent's table has what its disk has.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kReachedWithin = absl::Seconds(30);
constexpr Blocks kDurable = {.first = 0, .count = 100};  // On disk before the first death.
constexpr Blocks kNever = {.first = 1'000'000, .count = 1000};
constexpr size_t kRun = 1000;  // Blocks of one round of work: the table doubles in the fourth.

struct Place {
  const char* name;
  uint64_t most_hits;  // Largest n for a kill at the n-th hit.
};
constexpr std::array<Place, 6> kPlaces = {{{"residency.word_written", 300},
                                           {"residency.word_changed", 300},
                                           {"residency.next_made", 1},
                                           {"residency.buckets_taken_over", 1},
                                           {"residency.replaced", 1},
                                           {"residency.retired", 1}}};

int Kills() { return static_cast<int>(FromEnvironment("KVTIER_KILL_ROUNDS", 1)); }

class ResidencyAgentKillTest : public ::testing::Test {
 protected:
  // Starts an agent with an empty disk and its worker, and puts `kDurable` on the disk.
  void Begin(const std::string& name);
  void DieAt(const Place& place);
  void Verify();

  size_t Count(Blocks blocks, Residence residence) {
    std::vector<Residence> said(blocks.count);
    EXPECT_EQ(worker_->client().Residences(worker_->space(), worker_->KeysOf(blocks), said),
              absl::OkStatus());
    return static_cast<size_t>(std::count(said.begin(), said.end(), residence));
  }

  SimRandom random_{TestSeed()};
  ProcessCluster cluster_;
  AgentProcess* agent_ = nullptr;
  std::unique_ptr<TestWorker> worker_;
  uint64_t next_ = 0;  // First block of the next round.
};

void ResidencyAgentKillTest::Begin(const std::string& name) {
  agent_ = &cluster_.StartAgent(
      name, {{"host_bytes", "64MiB"}, {"disk_bytes", "256MiB"}, {"segment_bytes", "16MiB"}});
  worker_ = std::make_unique<TestWorker>(
      TestWorkerOptions{.socket_dir = agent_->socket_dir(), .block_bytes = 4096});
  ASSERT_EQ(worker_->Put(kDurable), kDurable.count);
  ASSERT_TRUE(agent_->AwaitOffloaded());
  next_ = kDurable.count;
}

void ResidencyAgentKillTest::DieAt(const Place& place) {
  agent_->Kill();
  const uint64_t nth = 1 + random_.Below(place.most_hits);
  agent_->RunAs({"/usr/bin/env", absl::StrCat("KVTIER_KILL_AT=", place.name, ":", nth),
                 ProgramPath("kvtier-killable-agent")});
  ASSERT_EQ(agent_->Spawn(), absl::OkStatus());
  std::atomic<bool> stopping = false;
  std::atomic<uint64_t> looks = 0;
  std::thread reader([&] {
    while (!stopping) {
      // Without an agent all are absent. With one, the table has them; a table that is being
      // replaced says "perhaps".
      const size_t absent = Count(kDurable, Residence::kAbsent);
      EXPECT_TRUE(absent == 0 || absent == kDurable.count) << absent;
      EXPECT_EQ(Count(kNever, Residence::kHost) + Count(kNever, Residence::kDisk), 0);
      ++looks;
    }
  });
  const bool died = Await(kReachedWithin, [&] {
    if (worker_->client().Stats().connected) {
      worker_->Put({.first = next_, .count = kRun});
      agent_->TryEvict(Tier::kHost).IgnoreError();
      worker_->Get({.first = next_, .count = 100});
      next_ += kRun;
    }
    return !agent_->process().Running();
  });
  EXPECT_TRUE(died) << "hit " << nth << " was to end it";
  const uint64_t before = looks;
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return looks > before + 10; }));
  stopping = true;
  reader.join();
}

void ResidencyAgentKillTest::Verify() {
  agent_->RunAs({ProgramPath("kvtier-agent")});
  ASSERT_EQ(agent_->Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_->AwaitConnected());
  EXPECT_EQ(Count(kDurable, Residence::kDisk), kDurable.count);
  EXPECT_EQ(Count(kNever, Residence::kDisk) + Count(kNever, Residence::kHost), 0);
  size_t said = 0;
  for (uint64_t first = 0; first < next_; first += kRun) {
    said +=
        Count({.first = first, .count = std::min<size_t>(kRun, next_ - first)}, Residence::kDisk);
  }
  EXPECT_NEAR(said, agent_->TierStatus(Tier::kDisk).blocks(), 20) << "but for what is perhaps";
  EXPECT_EQ(worker_->Get(kDurable).size(), kDurable.count);
}

TEST_F(ResidencyAgentKillTest, TheNextAgentsTableHasWhatTheDiskHasAfterADeathAtEachPlace) {
  for (const Place& place : kPlaces) {
    for (int i = 0; i < Kills(); ++i) {
      SCOPED_TRACE(absl::StrCat(place.name, ", ", i));
      Begin(absl::StrCat("node-", place.name + sizeof("residency"), "-", i));
      if (HasFatalFailure()) return;
      DieAt(place);
      if (HasFailure()) return;
      Verify();
      if (HasFailure()) return;
      agent_->Kill();
    }
  }
}

}  // namespace
}  // namespace kvtier::testing

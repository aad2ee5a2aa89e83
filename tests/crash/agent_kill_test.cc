// Kills (-9) a real agent at random moments under mixed load, again and again, with the same two
// workers: never a wrong byte, and no block unreadable that was seen on disk.
//
// KVTIER_CRASH_ROUNDS sets the number of kills, KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"
#include "tier_disk/log/record.h"

namespace kvtier::testing {
namespace {

constexpr int kDefaultRounds = 30;
constexpr int kRoundsThatFill = 50;  // Number of rounds after which the disk has been full.
// Ten times the promised time, for machines that do other things as well; `bench disk` measures.
constexpr absl::Duration kReadyWithin = absl::Seconds(30);

constexpr uint64_t kRuns = 100;          // Number of prefixes from which the load draws.
constexpr uint64_t kRunBlocks = 8;       // Number of blocks of the longest prefix.
constexpr uint64_t kProbes = 1'000'000;  // First number of single blocks, which are put once.

// Host memory holds 64 blocks of 64 KiB, and the disk has sixteen segments of 4 MiB: every round
// evicts, and reclaims once it has written for a while.
const Flags kSmallTiers = {{"host_bytes", "4MiB"},
                           {"slab_bytes", "1MiB"},
                           {"disk_bytes", "64MiB"},
                           {"segment_bytes", "4MiB"}};
// A probe is a root without children, so reclaim drops it with its own segment and not earlier.
// Segments are reclaimed in the order of their age, and thirteen of sixteen must be written before
// the probe's own turn comes: 52 MiB. Reclaim re-appends no more than it frees, so that is at least
// 26 MiB of puts; 4 MiB of those may have waited in host memory when the probe was seen on disk.
constexpr uint64_t kSafeBytes = uint64_t{20} << 20;

int Rounds() { return static_cast<int>(FromEnvironment("KVTIER_CRASH_ROUNDS", kDefaultRounds)); }

// A probe that was seen on disk, and the bytes that the workers had given the agent by then.
struct Durable {
  uint64_t number = 0;
  uint64_t bytes_put = 0;
};

class AgentKillTest : public ::testing::Test {
 protected:
  // Runs one worker's life until `stopping_`: puts, onboards, prefetches, evictions and puts that
  // are broken off. The worker is told nothing of the kills.
  void Load(TestWorker* worker, uint64_t seed);
  void PutRun(TestWorker* worker, SimRandom* random);
  void PutProbe(TestWorker* worker);
  void ReserveAndDrop(TestWorker* worker, SimRandom* random);
  // Notes which of the oldest unseen probes are on disk, again and again until the agent is killed.
  void SeeProbes(absl::Time until);
  void KillAndRestart();
  void CheckDurable();
  // Returns the bytes of all records that the agent was ever given to write.
  uint64_t BytesPut() const {
    return large_.given_blocks() * RecordBytes(large_.spec().block_bytes) +
           small_.given_blocks() * RecordBytes(small_.spec().block_bytes);
  }

  const uint64_t seed_ = TestSeed();
  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", kSmallTiers);
  TestWorker large_{{.socket_dir = agent_.socket_dir(), .block_bytes = uint64_t{64} << 10}};
  TestWorker small_{{.socket_dir = agent_.socket_dir(), .block_bytes = uint64_t{16} << 10}};

  // Every call of the load holds it for reading; the test holds it for writing while it checks.
  absl::Mutex calls_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> puts_ = 0;
  std::atomic<uint64_t> next_probe_ = kProbes;

  absl::Mutex mu_;
  std::deque<uint64_t> unseen_ ABSL_GUARDED_BY(mu_);  // Probes put and not yet seen on disk.
  std::vector<Durable> durable_;                      // Test thread only.
  uint64_t checked_ = 0;
  uint64_t reclaimed_ = 0;  // Number of blocks dropped with their segments.
  uint64_t worn_ = 0;       // Number of probes that may have been reclaimed before the kill.
};

void AgentKillTest::Load(TestWorker* worker, uint64_t seed) {
  SimRandom random(seed);
  while (!stopping_) {
    if (!worker->client().connected()) {
      absl::SleepFor(absl::Milliseconds(1));  // There is nothing to load meanwhile.
      continue;
    }
    absl::ReaderMutexLock lock(&calls_);
    const Blocks run = {.first = random.Below(kRuns) * kRunBlocks,
                        .count = 1 + random.Below(kRunBlocks)};
    const absl::Duration timeout = absl::Milliseconds(2 + random.Below(200));
    switch (random.Below(8)) {
      case 0:
      case 1:
        PutRun(worker, &random);
        break;
      case 2:
        PutProbe(worker);
        break;
      case 3:
        ReserveAndDrop(worker, &random);
        break;
      case 4:
        EXPECT_TRUE(worker->client().Prefetch(worker->space(), worker->KeysOf(run)).ok());
        break;
      default:
        worker->Get(run, {.timeout = timeout});
    }
  }
}

void AgentKillTest::PutRun(TestWorker* worker, SimRandom* random) {
  const Blocks run = {.first = random->Below(kRuns) * kRunBlocks,
                      .count = 1 + random->Below(kRunBlocks)};
  puts_ += worker->Put(run);
}

void AgentKillTest::PutProbe(TestWorker* worker) {
  if (worker != &large_) return;
  const uint64_t number = next_probe_++;
  if (worker->Put({.first = number, .count = 1}) == 0) return;
  ++puts_;
  absl::MutexLock lock(&mu_);
  unseen_.push_back(number);
}

void AgentKillTest::ReserveAndDrop(TestWorker* worker, SimRandom* random) {
  const Blocks run = {.first = random->Below(kRuns) * kRunBlocks, .count = kRunBlocks};
  const auto reserved = worker->client().Reserve(worker->space(), worker->KeysOf(run));
  EXPECT_TRUE(reserved.ok());
}

void AgentKillTest::SeeProbes(absl::Time until) {
  while (absl::Now() < until) {
    std::optional<uint64_t> number;
    {
      absl::MutexLock lock(&mu_);
      if (!unseen_.empty()) {
        number = unseen_.front();
        unseen_.pop_front();
      }
    }
    if (!number.has_value()) {
      absl::SleepFor(absl::Milliseconds(1));  // The load has put none since.
      continue;
    }
    const uint64_t bytes_put = BytesPut();  // The value is read first; later puts only increase it.
    if (agent_.Holds(Tier::kDisk, large_.KeyOf(*number))) {
      durable_.push_back({.number = *number, .bytes_put = bytes_put});
    } else if (agent_.Holds(Tier::kHost, large_.KeyOf(*number))) {
      absl::MutexLock lock(&mu_);
      unseen_.push_back(*number);  // The block is still being written.
    }
  }
}

void AgentKillTest::KillAndRestart() {
  reclaimed_ += agent_.TierStatus(Tier::kDisk).evictions();
  agent_.Kill();
  const uint64_t bytes_put = BytesPut();
  std::erase_if(durable_, [&](const Durable& probe) {
    const bool worn = bytes_put - probe.bytes_put > kSafeBytes;
    worn_ += worn ? 1 : 0;
    return worn;
  });
  const absl::StatusOr<absl::Duration> ready = agent_.Start();
  ASSERT_EQ(ready.status(), absl::OkStatus());
  EXPECT_LE(*ready, Patience(kReadyWithin));
}

void AgentKillTest::CheckDurable() {
  ASSERT_TRUE(large_.AwaitConnected());
  ASSERT_TRUE(small_.AwaitConnected());
  for (const Durable& probe : durable_) {
    ASSERT_EQ(large_.Get({.first = probe.number, .count = 1}).size(), 1)
        << "block " << probe.number << " was on disk before the kill and is unreadable";
    ++checked_;
  }
  durable_.clear();
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).verify_failures(), 0);
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).io_errors(), 0);
}

TEST_F(AgentKillTest, NoWrongBytesAndNoDurableBlockLostOverManyKills) {
  SimRandom random(seed_);
  std::thread one([&, seed = random.Next()] { Load(&large_, seed); });
  std::thread two([&, seed = random.Next()] { Load(&small_, seed); });
  const int rounds = Rounds();
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    // The load runs for a random time; every few rounds the host tier is emptied meanwhile.
    const absl::Time kill =
        absl::Now() + random.Between(absl::Milliseconds(50), absl::Milliseconds(1000));
    if (random.Below(4) == 0) agent_.EvictUnheld(Tier::kHost);
    SeeProbes(kill);
    KillAndRestart();
    absl::MutexLock lock(&calls_);
    {
      absl::MutexLock unseen(&mu_);
      unseen_.clear();  // Lost with host memory, or on disk without our knowing.
    }
    if (!HasFatalFailure()) CheckDurable();
  }
  stopping_ = true;
  one.join();
  two.join();
  const std::string told =
      absl::StrCat(rounds, " kills; ", puts_.load(), " blocks put, ", reclaimed_, " reclaimed, ",
                   large_.verified_blocks() + small_.verified_blocks(), " read and right; ",
                   checked_, " seen on disk and there after the kill, ", worn_, " too old to say");
  std::printf("%s\n", told.c_str());
  EXPECT_GT(puts_, 0);
  EXPECT_GT(checked_, 0);
  EXPECT_TRUE(reclaimed_ > 0 || rounds < kRoundsThatFill) << "the disk never filled";
}

}  // namespace
}  // namespace kvtier::testing

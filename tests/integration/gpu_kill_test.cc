// Tests two processes that share a GPU pool by descriptor: a worker and its agent. Each of them is
// killed ahead of every station of the worker's life: nothing leaks, no byte is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/stepping_worker.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::SizeIs;

constexpr size_t kSlots = 16;
constexpr uint64_t kSlotBytes = uint64_t{64} << 10;

// Returns whether a worker that is ahead of station number `next` has passed this one.
bool Passed(size_t next, Station station) { return next > static_cast<size_t>(station); }
// Number of kills after which the agent has mapped all memory that it keeps until it ends.
constexpr size_t kFirstKills = 3;

// Counts `name` unless it is a file in a folder: memory, sockets, events, rings, processes count.
void CountUnlessFile(const std::string& how, std::string name,
                     std::map<std::string, size_t>* counts) {
  if (name.empty() || name.front() == '[') return;
  if (name.front() == '/' && !absl::StartsWith(name, "/memfd:")) return;
  std::erase_if(name, absl::ascii_isdigit);
  ++(*counts)[absl::StrCat(how, " ", name)];
}

// Returns whether no name's count in `held` exceeds its count in `allowed`.
bool IsNoMore(const std::map<std::string, size_t>& held,
              const std::map<std::string, size_t>& allowed) {
  return std::ranges::all_of(held, [&](const auto& counted) {
    const auto found = allowed.find(counted.first);
    return found != allowed.end() && counted.second <= found->second;
  });
}

class GpuKillTest : public ::testing::Test {
 protected:
  // Starts a worker, and waits until it has stopped ahead of the station.
  std::unique_ptr<ChildProcess> StartWorker(size_t station) {
    const std::string log = absl::StrCat(cluster_.run_dir(), "/worker-", station, ".log");
    auto worker = ChildProcess::Start(
        {ProgramPath("kvtier-stepping-worker"), agent_.socket_dir(), absl::StrCat(station)}, log);
    EXPECT_EQ(worker.status(), absl::OkStatus());
    const std::string there = absl::StrCat("ahead of station ", station, " of ", kStations);
    EXPECT_TRUE(Await(absl::Seconds(60), [&] {
      return FileTail(log, 200).find(there) != std::string::npos;
    })) << there;
    return *std::move(worker);
  }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kSlotBytes; }
  // Counts by name what workers bring into the agent's process: descriptors, and mappings that are
  // not its allocator's or its threads'.
  std::map<std::string, size_t> HeldByAgent() {
    std::map<std::string, size_t> held;
    const std::string process = absl::StrCat("/proc/", agent_.process().pid());
    std::error_code gone;  // A descriptor may be closed while we look.
    for (const auto& entry : std::filesystem::directory_iterator(process + "/fd")) {
      CountUnlessFile("open", std::filesystem::read_symlink(entry.path(), gone).string(), &held);
    }
    std::ifstream maps(process + "/maps");
    for (std::string line; std::getline(maps, line);) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() > 5) CountUnlessFile("mapped", words[5], &held);
    }
    return held;
  }
  // Waits until every used slot is a block's.
  void AwaitQuiet(size_t station) {
    EXPECT_TRUE(Await(absl::Seconds(20), [&] {
      return UsedSlots() == agent_.TierStatus(Tier::kGpu).blocks();
    })) << station;
  }
  // Returns how many of the blocks that the worker put are served, with every byte proved.
  size_t Served(Blocks blocks) { return worker_.Get(blocks, to_gpu_).size(); }
  // Expects that all slots can be used again.
  void ExpectWhole(size_t station) {
    EXPECT_THAT(worker_.Get({.first = 500, .count = 4}), SizeIs(4)) << station;
    agent_.Evict(Tier::kGpu);
    EXPECT_EQ(UsedSlots(), 0) << station;
    const Blocks all = {.first = 1000 * (station + 1), .count = kSlots};
    EXPECT_EQ(worker_.Put(all, {.target = OnboardTarget::kGpu}), kSlots) << station;
    EXPECT_THAT(worker_.Get(all, to_gpu_), SizeIs(kSlots)) << station;
    agent_.Evict(Tier::kGpu);
    agent_.Evict(Tier::kHost);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
};

TEST_F(GpuKillTest, AWorkerKilledAnywhereLeavesAWholePool) {
  std::map<std::string, size_t> held_before;
  for (size_t station = 0; station < kStations; ++station) {
    worker_.Put({.first = 500, .count = 4});
    const auto doomed = StartWorker(station);
    EXPECT_NE(HeldByAgent(), held_before) << "one that lives can be seen";
    doomed->Kill();
    AwaitQuiet(station);
    // Committed blocks stay, and no other block is served.
    EXPECT_EQ(Served(kPrefix), Passed(station, Station::kCommit) ? kPrefix.count : 0) << station;
    ExpectWhole(station);
    if (station < kFirstKills) {
      held_before = HeldByAgent();
    } else {
      // `held_before` may count a connection that has ended since. Later counts may be lower, but
      // never higher.
      Await(absl::Seconds(20), [&] { return IsNoMore(HeldByAgent(), held_before); });
      std::map<std::string, size_t> held = HeldByAgent();
      ASSERT_TRUE(IsNoMore(held, held_before))
          << station << ": " << ::testing::PrintToString(held) << ", not more than "
          << ::testing::PrintToString(held_before);
      held_before = std::move(held);
    }
  }
}

TEST_F(GpuKillTest, AnAgentKilledAnywhereLeavesAWorkerThatBelievesNothingWrong) {
  for (size_t station = 0; station < kStations; ++station) {
    const auto worker = StartWorker(station);
    agent_.Kill();
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
    worker->Signal(SIGCONT);
    EXPECT_EQ(worker->Wait(Patience(absl::Seconds(30))), 0) << station;
    ASSERT_TRUE(worker_.AwaitConnected());
    AwaitQuiet(station);
    const size_t served = Served(kPrefix);
    // The worker may reserve and commit with the new agent.
    if (!Passed(station, Station::kReserve)) {
      EXPECT_TRUE(served == 0 || served == kPrefix.count) << station << ": " << served;
    } else if (!Passed(station, Station::kCommit)) {
      EXPECT_EQ(served, 0) << station;
    }  // Committed blocks are served as far as they came to disk.
    worker_.Put({.first = 500, .count = 4});
    ExpectWhole(station);
  }
}

}  // namespace
}  // namespace kvtier::testing

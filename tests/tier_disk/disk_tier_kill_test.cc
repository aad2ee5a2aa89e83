// kill -9 of a process that puts blocks, at random moments: whatever it had told
// its parent is durable is readable afterwards, and right.
//
// The program runs itself with --child DIRECTORY FIRST; the child writes one record
// a report to its stdout: 'A' block acknowledged, 'D' block dropped (before it is).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

constexpr int kKills = 10;
constexpr uint64_t kStreams = 8;  // Concurrent puts of the child.
constexpr uint64_t kNumbersPerLife = 1000000;

struct Report {
  char what = 0;
  char pad[7] = {};
  uint64_t number = 0;
};
static_assert(sizeof(Report) == 16);  // Below PIPE_BUF: one write is never torn.

DiskLayout Layout(const std::string& directory) {
  return {.directory = directory, .segment_bytes = uint64_t{4} << 20, .segment_count = 6};
}
uint64_t LengthOf(uint64_t number) { return 4096 * (1 + number % 32); }

void Tell(char what, uint64_t number) {
  const Report report{.what = what, .number = number};
  if (write(STDOUT_FILENO, &report, sizeof(report)) != sizeof(report)) _exit(3);
}

Task<void> PutForEver(DiskTier* tier, uint64_t number, std::map<BlockKey, uint64_t>* numbers) {
  for (;; number += kStreams) {
    PageBuffer slot = testing::DiskPayload(number, LengthOf(number));
    const BlockMeta block = testing::MakeDiskBlock(number, LengthOf(number));
    (*numbers)[block.key] = number;
    const absl::Status status = co_await tier->Put(block, slot.bytes());
    if (status.ok() && tier->Find(block.key)) Tell('A', number);
  }
}

// Runs until it is killed.
int RunChild(const std::string& directory, uint64_t first) {
  ThreadExecutor executor("child-executor");
  BytePool pool(&executor, "child-bytes", 1);
  auto disk = OpenDisk(&executor, Layout(directory), DiskIoKind::kAuto);
  if (!disk.ok()) {
    std::fprintf(stderr, "child: %s\n", disk.status().ToString().c_str());
    return 2;
  }
  std::map<BlockKey, uint64_t> numbers;
  DiskTier tier(&executor, &pool, disk->disk.get(), disk->manifest.get(),
                [&](DiskTier::Change change, const BlockKey& key) {
                  if (change == DiskTier::Change::kAdded) return;
                  const auto number = numbers.find(key);
                  Tell('D', number == numbers.end() ? 0 : number->second);
                });
  if (!testing::RunTask(&executor, tier.Open()).ok()) return 2;
  // Drops of blocks of earlier lives are told by number too.
  for (uint64_t life = 0; life * kNumbersPerLife < first; ++life) {
    for (uint64_t i = 0; i < 20000; ++i) {
      const uint64_t number = 1 + life * kNumbersPerLife + i;
      if (const BlockKey key = testing::DiskKey(number); tier.Find(key)) numbers[key] = number;
    }
  }
  const auto put_all = [&]() -> Task<bool> {
    TaskScope scope(&executor);
    for (uint64_t i = 0; i < kStreams; ++i) scope.Spawn(PutForEver(&tier, first + i, &numbers));
    co_return co_await scope.Idle(absl::InfiniteFuture());
  };
  testing::RunTask(&executor, put_all());
  return 0;
}

class KillTest : public ::testing::Test {
 protected:
  KillTest() : directory_(testing::FreshDirectory("kill")) {}
  ~KillTest() override {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  // Lets a child run for `reports` reports and some random while, then kills it.
  void RunAndKill(uint64_t first, uint64_t reports, useconds_t then_us);
  void Take(const Report& report) {
    if (report.what == 'A') durable_.insert(report.number);
    if (report.what == 'D') durable_.erase(report.number);
  }

  const std::string directory_;
  std::set<uint64_t> durable_;
};

void KillTest::RunAndKill(uint64_t first, uint64_t reports, useconds_t then_us) {
  std::array<int, 2> pipe_ends;
  ASSERT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::string self = "/proc/self/exe";
  std::string mode = "--child";
  std::string directory = directory_;
  std::string start = std::to_string(first);
  char* arguments[] = {self.data(), mode.data(), directory.data(), start.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, self.c_str(), &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);

  Report report;
  uint64_t seen = 0;
  while (seen < reports && read(pipe_ends[0], &report, sizeof(report)) == sizeof(report)) {
    Take(report);
    ++seen;
  }
  EXPECT_EQ(seen, reports) << "the child ended by itself";
  usleep(then_us);  // Not a wait for something: the moment of the kill is random.
  kill(child, SIGKILL);
  while (read(pipe_ends[0], &report, sizeof(report)) == sizeof(report)) Take(report);
  close(pipe_ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(KillTest, WhatWasAcknowledgedIsThereAfterKill9) {
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  uint64_t verified = 0;
  for (int life = 0; life < kKills; ++life) {
    SCOPED_TRACE(life);
    const uint64_t first = 1 + static_cast<uint64_t>(life) * kNumbersPerLife;
    RunAndKill(first, 1 + random() % 400, static_cast<useconds_t>(random() % 20000));
    if (HasFatalFailure()) return;

    ThreadExecutor executor("test-executor");
    BytePool pool(&executor, "test-bytes", 1);
    auto disk = OpenDisk(&executor, Layout(directory_), DiskIoKind::kAuto);
    ASSERT_TRUE(disk.ok()) << disk.status();
    DiskTier tier(&executor, &pool, disk->disk.get(), disk->manifest.get(),
                  [](DiskTier::Change change, const BlockKey& key) {
                    EXPECT_EQ(change, DiskTier::Change::kAdded) << "damaged: " << key.ToHex();
                  });
    ASSERT_TRUE(testing::RunTask(&executor, tier.Open()).ok());
    tier.Audit();
    for (const uint64_t number : durable_) {
      PageBuffer slot(LengthOf(number));
      const auto got =
          testing::RunTask(&executor, tier.Get(testing::DiskKey(number), slot.bytes()));
      ASSERT_TRUE(got.ok()) << number << ": " << got.status();
      ASSERT_TRUE(testing::HoldsDiskBlock(number, LengthOf(number), &slot)) << number;
      ++verified;
    }
  }
  std::printf("%d kills, %llu acknowledged blocks read and right\n", kKills,
              static_cast<unsigned long long>(verified));
  EXPECT_GT(verified, 0);
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--child") == 0) {
    return kvtier::RunChild(argv[2], std::strtoull(argv[3], nullptr, 10));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

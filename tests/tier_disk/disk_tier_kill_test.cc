// Kills (-9) a process that puts blocks, at random moments: every block that it reported to its
// parent as durable is readable afterwards, and right.
//
// The program runs itself with --child DIRECTORY FIRST.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_child.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

constexpr int kKills = 10;
constexpr uint64_t kStreams = 8;  // Number of concurrent puts of the child.
constexpr uint64_t kNumbersPerLife = 1000000;

using testing::DiskChild;
using testing::DiskReport;
using testing::DurableBlocks;
using testing::TellParent;

DiskLayout Layout(const std::string& directory) {
  return {.directory = directory, .segment_bytes = uint64_t{4} << 20, .segment_count = 6};
}
uint64_t LengthOf(uint64_t number) { return 4096 * (1 + number % 32); }

Task<void> PutForEver(DiskTier* tier, uint64_t number, std::map<BlockKey, uint64_t>* numbers) {
  for (;; number += kStreams) {
    PageBuffer slot = testing::DiskPayload(number, LengthOf(number));
    const BlockMeta block = testing::MakeDiskBlock(number, LengthOf(number));
    (*numbers)[block.key] = number;
    const absl::Status status = co_await tier->Put(block, slot.bytes());
    if (status.ok() && tier->Find(block.key)) {
      TellParent({.what = DiskReport::What::kDurable, .number = number});
    }
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
                [&](DiskTier::Change change, const BlockKey& key, TenantTag) {
                  if (change == DiskTier::Change::kAdded) return;
                  const auto number = numbers.find(key);
                  TellParent({.what = DiskReport::What::kDropped,
                              .number = number == numbers.end() ? 0 : number->second});
                });
  if (!testing::RunTask(&executor, tier.Open()).ok()) return 2;
  // Blocks of earlier lives get their numbers too, so that their drops can be reported.
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
  // Lets a child run for `reports` reports and a random time more, then kills it.
  void RunAndKill(uint64_t first, uint64_t reports, useconds_t then_us);

  const std::string directory_;
  DurableBlocks durable_;
};

void KillTest::RunAndKill(uint64_t first, uint64_t reports, useconds_t then_us) {
  const auto child = DiskChild::Start({"--child", directory_, std::to_string(first)});
  ASSERT_NE(child, nullptr);
  std::optional<DiskReport> report;
  uint64_t seen = 0;
  while (seen < reports && (report = child->Next()).has_value()) {
    durable_.Take(*report);
    ++seen;
  }
  EXPECT_EQ(seen, reports) << "the child ended by itself";
  usleep(then_us);  // Waits for no event: the moment of the kill is random.
  child->Kill();
  while ((report = child->Next()).has_value()) durable_.Take(*report);
  ASSERT_LT(child->Wait(), 0) << "no signal ended it";
}

TEST_F(KillTest, WhatWasAcknowledgedIsThereAfterKill9) {
  std::mt19937_64 random(testing::TestSeed());
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
                  [](DiskTier::Change change, const BlockKey& key, TenantTag) {
                    EXPECT_EQ(change, DiskTier::Change::kAdded) << "damaged: " << key.ToHex();
                  });
    ASSERT_TRUE(testing::RunTask(&executor, tier.Open()).ok());
    tier.Audit();
    ASSERT_EQ(
        testing::RunTask(&executor, testing::ReadBlocks(&tier, durable_.numbers(), &LengthOf)),
        absl::OkStatus());
    verified += durable_.numbers().size();
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

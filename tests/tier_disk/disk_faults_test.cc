// Tests a disk that fails in one way at a time, under the tier and under an agent: nothing wrong is
// served, a request with a deadline is answered by it, and when the fault goes the hits are back.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/patience.h"
#include "tests/testing/short_disk.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;
using testing::FreshDirectory;
using testing::SimDiskFaults;
using testing::SimRandom;

// Rates of input and output errors: of a dying disk, and of one with occasional errors.
constexpr double kOften = 1.0 / 32;
constexpr double kRarely = 1.0 / 1000;
constexpr uint64_t kNumbers = 300;

uint64_t LengthOf(uint64_t number) { return 4096 * (1 + number % 8) - number % 3; }
std::optional<uint64_t> ParentOf(uint64_t number) {
  return number % 8 == 0 ? std::nullopt : std::optional(number - 1);
}

// FaultyTier runs random puts, gets and erases on a simulated disk, and lists the blocks on it.
class FaultyTier {
 public:
  explicit FaultyTier(uint64_t seed)
      : random_(seed),
        rig(DiskForm::kSim, {.segments = 5, .segment_bytes = uint64_t{1} << 20, .seed = seed}, "",
            [this](const BlockKey& key) { here_.erase(numbers_.at(key)); }) {
    for (uint64_t i = 0; i < kNumbers; ++i) numbers_[DiskKey(i)] = i;
    EXPECT_EQ(rig.Open(), absl::OkStatus());
  }
  void Step();
  // Checks, after the fault is gone, that all listed blocks are there and any block can be put.
  void CheckRecovered();

 private:
  SimRandom random_;
  std::map<BlockKey, uint64_t> numbers_;
  std::set<uint64_t> here_;

 public:
  DiskRig rig;
};

void FaultyTier::Step() {
  const uint64_t number = random_.Below(kNumbers);
  const uint64_t roll = random_.Below(10);
  if (roll < 5) {
    const absl::Status put = rig.Put(number, LengthOf(number), ParentOf(number));
    EXPECT_TRUE(put.ok() || absl::IsUnavailable(put) || absl::IsResourceExhausted(put)) << put;
    if (put.ok()) here_.insert(number);
  } else if (roll < 9) {
    const absl::Status got = rig.Get(number, LengthOf(number));
    if (here_.contains(number)) {
      EXPECT_TRUE(got.ok() || absl::IsUnavailable(got)) << got;
    } else {
      EXPECT_TRUE(absl::IsNotFound(got)) << got;
    }
  } else {
    EXPECT_EQ(rig.Erase(number), absl::OkStatus());
  }
}

void FaultyTier::CheckRecovered() {
  rig.disk_media.faults = {};
  EXPECT_EQ(rig.tier->block_count(), here_.size());
  for (const uint64_t number : here_)
    EXPECT_EQ(rig.Get(number, LengthOf(number)), absl::OkStatus());
  for (uint64_t i = 0; i < kNumbers; ++i) {
    ASSERT_EQ(rig.Put(i, LengthOf(i), ParentOf(i)), absl::OkStatus());
    ASSERT_EQ(rig.Get(i, LengthOf(i)), absl::OkStatus());
    here_.insert(i);
  }
  rig.tier->Audit();
}

TEST(TierFaultsTest, FailedReadsAndWritesLoseNothingThatWasThere) {
  for (const double rate : {kOften, kRarely}) {
    SCOPED_TRACE(rate);
    FaultyTier faulty(testing::TestSeed());
    faulty.rig.disk_media.faults = {.read_error = rate, .write_error = rate};
    // At the low rate all these steps can pass without a failed I/O; then more steps follow.
    constexpr int kSteps = testing::kSanitized ? 4000 : 12000;
    const uint64_t& errors = faulty.rig.disk_media.counts.errors;
    for (int i = 0; i < kSteps || (errors == 0 && i < 100 * kSteps); ++i) faulty.Step();
    EXPECT_GT(errors, 0u);
    EXPECT_EQ(faulty.rig.tier->stats().io_errors, errors);
    EXPECT_EQ(faulty.rig.tier->stats().verify_failures, 0u);
    faulty.CheckRecovered();
  }
}

TEST(TierFaultsTest, AFullDiskDeclinesPutsAndServesGets) {
  for (const double rate : {0.25, 1.0}) {
    SCOPED_TRACE(rate);
    FaultyTier faulty(testing::TestSeed());
    for (int i = 0; i < 200; ++i) faulty.Step();
    faulty.rig.disk_media.faults = {.full = rate};
    for (int i = 0; i < 2000; ++i) faulty.Step();
    EXPECT_GT(faulty.rig.tier->stats().declined, 0u);
    EXPECT_EQ(faulty.rig.tier->stats().io_errors, 0u) << "full is not broken";
    faulty.CheckRecovered();
  }
}

TEST(TierFaultsTest, ShortTransfersChangeNothing) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  testing::InlineByteThreads byte_threads;
  testing::SimDiskMedia media(4, uint64_t{1} << 20, testing::TestSeed());
  testing::SimManifestMedia rows(1);
  testing::SimManifest manifest(&executor, &rows);
  testing::ShortDisk disk(&executor, &media);
  DiskTier tier(&executor, &byte_threads, &disk, &manifest,
                [](DiskTier::Change, const BlockKey&, TenantTag) {});
  ASSERT_TRUE(testing::RunTask(&time, &executor, tier.Open()).ok());
  for (uint64_t i = 0; i < 2 * kNumbers; ++i) {
    PageBuffer slot = testing::DiskPayload(i, LengthOf(i));
    const BlockMeta block = testing::MakeDiskBlock(i, LengthOf(i), ParentOf(i));
    ASSERT_EQ(testing::RunTask(&time, &executor, tier.Put(block, slot.bytes())), absl::OkStatus());
    PageBuffer back(LengthOf(i));
    ASSERT_TRUE(testing::RunTask(&time, &executor, tier.Get(block.key, back.bytes())).ok());
    ASSERT_TRUE(testing::HoldsDiskBlock(i, LengthOf(i), &back));
  }
  EXPECT_GT(disk.shorts(), kNumbers);
  EXPECT_GT(tier.stats().evictions, 0u) << "survivors were copied through it too";
  EXPECT_EQ(tier.stats().io_errors + tier.stats().verify_failures, 0u);
}

// Fault of an agent's disk, and how long its I/Os hang.
struct AgentFault {
  std::string name;
  SimDiskFaults faults;
  absl::Duration stall = absl::ZeroDuration();
};

SimDiskFaults SlowedBy(double factor) {
  SimDiskFaults slow;
  slow.latency *= factor;
  slow.bytes_per_second /= factor;
  return slow;
}

constexpr uint64_t kRuns = 40;
constexpr size_t kRunBlocks = 6;

class AgentFaultsTest : public ::testing::TestWithParam<AgentFault> {
 protected:
  static uint64_t FirstOf(uint64_t run) { return 1 + 10 * run; }
  // Onboards a run; checks that the bytes are right (the rig does it) and in time.
  size_t HitsInTime(uint64_t run, absl::Duration timeout) {
    const absl::Time began = rig_.executor.Now();
    const size_t hits = rig_.Hits(rig_.session, FirstOf(run), kRunBlocks, timeout);
    EXPECT_LE(rig_.executor.Now() - began, timeout);
    return hits;
  }
  void PutAll() {
    for (uint64_t run = 0; run < kRuns; ++run) {
      ASSERT_EQ(rig_.PutOnDisk(rig_.session, FirstOf(run), kRunBlocks), kRunBlocks);
      rig_.EvictHost();
    }
  }
  AgentRig rig_{{.slots = 256, .segments = 128}};
};

// Requests of every kind go on while the fault lasts.
TEST_P(AgentFaultsTest, RequestsEndByTheirDeadlinesAndHitsReturn) {
  SimRandom random(testing::TestSeed());
  PutAll();
  rig_.media.faults = GetParam().faults;
  if (GetParam().stall > absl::ZeroDuration()) rig_.disk.Stall();
  const absl::Time until = rig_.executor.Now() + GetParam().stall;
  for (int i = 0; i < 200 || rig_.executor.Now() < until; ++i) {
    const uint64_t run = random.Below(kRuns);
    HitsInTime(run, absl::Milliseconds(1 + random.Below(100)));
    const std::vector<BlockKey> keys =
        rig_.NameRun(rig_.session, FirstOf(random.Below(kRuns)), 1).keys;
    const absl::Time deadline = rig_.executor.Now() + absl::Milliseconds(20);
    rig_.Run(rig_.agent->flows().peer_server.Serve(DomainId{}, keys[0], deadline));
    EXPECT_LE(rig_.executor.Now(), deadline);
    rig_.Run(rig_.agent->flows().onboarder.Prefetch(
        rig_.NameRun(rig_.session, FirstOf(random.Below(kRuns)), kRunBlocks), true));
    const absl::Time began = rig_.executor.Now();
    rig_.Put(rig_.session, 1'000'000 + 10 * static_cast<uint64_t>(i), 1);
    EXPECT_LE(rig_.executor.Now() - began, kCommitTimeout);
    if (i % 8 == 0) rig_.EvictHost();
  }
  rig_.media.faults = {};
  rig_.disk.Resume();
  rig_.Pass(absl::Seconds(2));
  rig_.EvictHost();
  for (uint64_t run = 0; run < kRuns; ++run)
    EXPECT_EQ(HitsInTime(run, kMaxRequestTimeout), kRunBlocks);
  EXPECT_EQ(rig_.agent->disks().set()->stats().verify_failures, 0u);
  rig_.agent->disks().set()->Audit();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, AgentFaultsTest,
    ::testing::Values(AgentFault{"ErrorsOften", {.read_error = kOften, .write_error = kOften}},
                      AgentFault{"ErrorsRarely", {.read_error = kRarely, .write_error = kRarely}},
                      AgentFault{"Full", {.full = 1}}, AgentFault{"TenTimesSlower", SlowedBy(10)},
                      AgentFault{"AHundredTimesSlower", SlowedBy(100)},
                      AgentFault{"StallOf5Seconds", {}, absl::Seconds(5)}),
    [](const auto& fault) { return fault.param.name; });

TEST(AgentStallTest, ADiskThatNeverAnswersAgainCostsEachRequestItsDeadlineAndNoMore) {
  AgentRig rig({.slots = 256});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 6), 6u);
  rig.EvictHost();
  rig.disk.Stall();
  absl::Time now = rig.executor.Now();
  for (const absl::Duration timeout : {absl::Milliseconds(1), absl::Seconds(30), absl::Hours(1)}) {
    EXPECT_EQ(rig.Hits(rig.session, 1, 6, timeout), 0u);
    EXPECT_EQ(rig.executor.Now() - now, std::min(timeout, kMaxRequestTimeout));
    now = rig.executor.Now();
  }
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(rig.Put(rig.session, 1000 + 10 * i, 6), 6u);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(rig.Hits(rig.session, 1000 + 10 * i, 6), 6u);
  EXPECT_EQ(rig.executor.Now(), now) << "what is in host memory does not wait for the disk";
}

// The file system under a running disk fills up: the segments have their room, but the manifest
// cannot grow. Its log once stayed broken after that, even when the space was back, and no put
// succeeded until a restart.
class FullFileSystemTest : public ::testing::Test {
 protected:
  FullFileSystemTest() : mount_point_(FreshDirectory("full")) {
    std::filesystem::create_directory(mount_point_);
    mounted_ = mount("tmpfs", mount_point_.c_str(), "tmpfs", 0, "size=160m") == 0;
  }
  ~FullFileSystemTest() override {
    std::error_code error;
    if (mounted_) umount2(mount_point_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(mount_point_, error);
  }
  // Takes all free space, so that less is left than the manifest keeps free and RocksDB needs.
  void TakeAllSpace() {
    const int filler =
        open((mount_point_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct statvfs system = {};
    ASSERT_EQ(fstatvfs(filler, &system), 0);
    const auto left = static_cast<off_t>(system.f_bavail * system.f_frsize);
    ASSERT_EQ(posix_fallocate(filler, 0, left), 0);
    close(filler);
  }
  void GiveSpaceBack() { std::filesystem::remove(mount_point_ + "/filler"); }

  const std::string mount_point_;
  bool mounted_ = false;
};

TEST_F(FullFileSystemTest, PutsAreDeclinedUntilThereIsSpaceAndGetsGoOn) {
  if (!mounted_) GTEST_SKIP() << "SKIPPED, NOT PROVEN: mounting a tmpfs needs root";
  std::set<uint64_t> here;
  std::map<BlockKey, uint64_t> numbers;
  DiskRig rig(DiskForm::kPread, {.segments = 6, .segment_bytes = uint64_t{1} << 20},
              mount_point_ + "/disk", [&](const BlockKey& key) { here.erase(numbers.at(key)); });
  const absl::Status opened = rig.Open();
  if (absl::IsFailedPrecondition(opened)) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << opened;
  ASSERT_EQ(opened, absl::OkStatus());
  uint64_t next = 0;
  const auto put = [&] {
    numbers[DiskKey(next)] = next;
    const absl::Status status = rig.Put(next, LengthOf(next));
    if (status.ok()) here.insert(next);
    ++next;
    return status;
  };
  const auto expect_all_hit = [&] {
    for (const uint64_t number : here)
      ASSERT_EQ(rig.Get(number, LengthOf(number)), absl::OkStatus());
  };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(put(), absl::OkStatus());
  TakeAllSpace();
  for (int i = 0; i < 20; ++i) {
    const absl::Status declined = put();
    EXPECT_TRUE(absl::IsResourceExhausted(declined)) << declined;
    expect_all_hit();
  }
  EXPECT_EQ(rig.tier->stats().declined, 20u);
  EXPECT_EQ(rig.Erase(*here.begin()), absl::OkStatus()) << "small changes go through";
  GiveSpaceBack();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(put(), absl::OkStatus());
  expect_all_hit();
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  expect_all_hit();
  rig.tier->Audit();
}

}  // namespace
}  // namespace kvtier

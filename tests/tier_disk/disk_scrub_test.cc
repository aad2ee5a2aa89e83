// Tests DiskTier's scrub over the simulated disk: it finds all damage, and nothing else, whatever
// else happens on the disk meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskPayload;
using testing::DiskRig;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 12000;
constexpr uint64_t kFast = uint64_t{1} << 30;

class DiskScrubTest : public ::testing::Test {
 protected:
  DiskScrubTest()
      : rig_(DiskForm::kSim, DiskRig::Shape{}, "",
             [this](const BlockKey& key) { dropped_.push_back(key); }) {
    Open(0);
  }
  ~DiskScrubTest() override {
    rig_.tier->Audit();
    scope_.reset();
  }
  // Opens the disk, again as after kill -9, and scrubs it at this rate.
  void Open(uint64_t bytes_per_second) {
    scope_.reset();
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    scope_.emplace(rig_.sim_executor.get());
    scope_->Spawn(rig_.tier->RunScrub(bytes_per_second));
  }
  void PutMany(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(rig_.Put(i, kLength), absl::OkStatus());
  }
  static DiskAddress Nth(uint64_t n) { return {SegmentId{0}, n * RecordBytes(kLength)}; }
  // Runs one requested pass to its end.
  ScrubPass Verify(uint64_t bytes_per_second = kFast) {
    EXPECT_EQ(rig_.tier->VerifyAll(bytes_per_second), absl::OkStatus());
    while (rig_.tier->scrub().pass.running()) EXPECT_TRUE(rig_.sim_time.Step());
    return rig_.tier->scrub().pass;
  }

  std::vector<BlockKey> dropped_;
  DiskRig rig_;
  std::optional<TaskScope> scope_;
};

TEST_F(DiskScrubTest, ACleanDiskIsVerifiedWhole) {
  PutMany(200);
  const ScrubPass pass = Verify();
  EXPECT_EQ(pass.counts, (ScrubCounts{.records = 200, .bytes = rig_.tier->used_bytes()}));
  EXPECT_EQ(pass.segments_done, rig_.disk_media.segment_count());
  EXPECT_EQ(rig_.tier->stats().verified, 200);
  EXPECT_EQ(rig_.tier->stats().hits, 0);  // Nothing was served.
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(DiskScrubTest, ADamagedRecordIsDroppedAsADamagedGetDropsIt) {
  PutMany(10);
  rig_.disk_media.FlipBit(Nth(3), kRecordHeaderBytes * 8 + 12345);
  const ScrubPass pass = Verify();
  EXPECT_EQ(pass.counts.damaged, 1);
  EXPECT_EQ(pass.counts.records, 10);
  EXPECT_EQ(rig_.tier->stats().verify_failures, 1);
  EXPECT_EQ(dropped_, std::vector{DiskKey(3)});
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(3, kLength)));
  Open(0);
  EXPECT_EQ(rig_.recovery.recovered_blocks, 9);  // The manifest dropped it, too.
  EXPECT_EQ(Verify().counts, (ScrubCounts{.records = 9, .bytes = rig_.tier->used_bytes()}));
}

TEST_F(DiskScrubTest, OnePassFindsEveryFlippedRecordAndNoOther) {
  const uint64_t seed = testing::TestSeed();
  std::mt19937_64 random(seed);
  PutMany(250);
  const uint64_t per_segment = rig_.disk_media.segment_bytes() / RecordBytes(kLength);
  std::vector<BlockKey> flipped;
  for (uint64_t i = 0; i < 250; ++i) {
    if (random() % 5 != 0) continue;
    const DiskAddress at{SegmentId{static_cast<uint32_t>(i / per_segment)},
                         i % per_segment * RecordBytes(kLength)};
    rig_.disk_media.FlipBit(at, random() % ((kRecordHeaderBytes + kLength) * 8));
    flipped.push_back(DiskKey(i));
  }
  EXPECT_EQ(Verify().counts.damaged, flipped.size());
  std::sort(flipped.begin(), flipped.end());
  std::sort(dropped_.begin(), dropped_.end());
  EXPECT_EQ(dropped_, flipped);
  EXPECT_EQ(Verify().counts.damaged, 0);
}

TEST_F(DiskScrubTest, ADiskThatFailsReadsEndsItsPassAndKeepsItsRecords) {
  PutMany(50);
  rig_.disk_media.faults.read_error = 1;
  const ScrubPass pass = Verify();
  EXPECT_EQ(pass.counts.errors, 50);
  EXPECT_EQ(pass.counts.damaged, 0);
  EXPECT_EQ(rig_.tier->stats().io_errors, 50);
  EXPECT_TRUE(dropped_.empty());
  rig_.disk_media.faults.read_error = 0;
  EXPECT_EQ(Verify().counts.errors, 0);
  EXPECT_EQ(rig_.tier->block_count(), 50);
}

TEST_F(DiskScrubTest, APassTakesAsLongAsItsRateSays) {
  PutMany(100);
  constexpr uint64_t kRate = 256 << 10;
  const ScrubPass pass = Verify(kRate);
  const double seconds = absl::ToDoubleSeconds(pass.ended - pass.began);
  const double bytes = static_cast<double>(pass.counts.bytes);
  const double burst = absl::ToDoubleSeconds(kScrubBurst) * kRate;
  EXPECT_GE(seconds * kRate, bytes - burst - RecordBytes(kLength));
  EXPECT_LE(seconds * kRate, bytes + burst);
}

TEST_F(DiskScrubTest, PassesComeByThemselvesAtTheRateOfTheDisk) {
  PutMany(20);
  Open(kScrubBytesPerSecond);
  rig_.disk_media.FlipBit(Nth(7), 8);
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + kFirstScrubAfter - absl::Seconds(1));
  EXPECT_EQ(rig_.tier->scrub().pass.number, 0);
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + absl::Seconds(2));
  EXPECT_EQ(rig_.tier->scrub().passes, 1);
  EXPECT_EQ(dropped_, std::vector{DiskKey(7)});
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + kScrubRest);
  EXPECT_EQ(rig_.tier->scrub().passes, 2);
  EXPECT_EQ(rig_.tier->scrub().total.records, 39);
}

TEST_F(DiskScrubTest, ASecondAskIsRefusedWhileThePassRuns) {
  PutMany(5);
  ASSERT_EQ(rig_.tier->VerifyAll(1), absl::OkStatus());
  EXPECT_TRUE(absl::IsAlreadyExists(rig_.tier->VerifyAll(kFast)));
  rig_.tier->StopScrub();
  EXPECT_TRUE(absl::IsFailedPrecondition(rig_.tier->VerifyAll(kFast)));
  while (scope_->running() > 0) ASSERT_TRUE(rig_.sim_time.Step());
}

TEST_F(DiskScrubTest, StoppingEndsARestAndWhatWasNotBegun) {
  rig_.tier->StopScrub();
  const absl::Time before = rig_.sim_time.Now();
  while (scope_->running() > 0) ASSERT_TRUE(rig_.sim_time.Step());
  EXPECT_EQ(rig_.sim_time.Now(), before);
}

TEST_F(DiskScrubTest, AStalledScrubReadHoldsUpNoGetPutOrErase) {
  PutMany(5);
  rig_.disk_media.faults.latency = absl::Seconds(5);
  ASSERT_EQ(rig_.tier->VerifyAll(kFast), absl::OkStatus());
  for (int i = 0; i < 3; ++i) rig_.sim_time.Step();  // The read of the scrub is in flight.
  rig_.disk_media.faults.latency = absl::Microseconds(80);
  const absl::Time before = rig_.sim_time.Now();
  EXPECT_EQ(rig_.Get(0, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.Put(100, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.Erase(1), absl::OkStatus());
  EXPECT_LT(rig_.sim_time.Now() - before, absl::Seconds(1));
  while (rig_.tier->scrub().pass.running()) ASSERT_TRUE(rig_.sim_time.Step());
  EXPECT_EQ(rig_.tier->scrub().pass.counts.damaged, 0);
}

// Runs puts, gets and erases on a disk so small that it reclaims all the time, with one pass after
// another and with crashes: a clean disk has no damaged record.
void RunUnderLoad(uint64_t seed, uint64_t* verified, uint64_t* reclaimed) {
  constexpr uint64_t kNumbers = 300;
  std::mt19937_64 random(seed);
  const auto length = [](uint64_t number) { return 1 + number * 7919 % 90000; };
  DiskRig rig(DiskForm::kSim, {.segments = 4, .seed = seed}, "", [](const BlockKey&) {});
  rig.disk_media.faults.spike = 0.05;
  const auto put = [&](uint64_t number) -> Task<void> {
    PageBuffer slot = DiskPayload(number, length(number));
    std::optional<uint64_t> parent;
    if (number % 4 != 0) parent = number - 1;
    const BlockMeta block = MakeDiskBlock(number, length(number), parent);
    (co_await rig.tier->Put(block, slot.bytes())).IgnoreError();  // May be declined under load.
  };
  const auto get = [&](uint64_t number) -> Task<void> {
    PageBuffer slot(length(number));
    const auto got = co_await rig.tier->Get(DiskKey(number), slot.bytes());
    EXPECT_FALSE(absl::IsDataLoss(got.status())) << got.status();
  };
  const auto erase = [&](uint64_t number) -> Task<void> {
    EXPECT_EQ(co_await rig.tier->Erase(DiskKey(number)), absl::OkStatus());
  };
  for (int life = 0; life < 3; ++life) {
    ASSERT_EQ(rig.Open(), absl::OkStatus());
    auto process = std::make_unique<TaskScope>(rig.sim_executor.get());
    process->Spawn(rig.tier->RunScrub(0));
    for (int i = 0; i < 600; ++i) {
      const uint64_t number = random() % kNumbers;
      const uint64_t roll = random() % 10;
      process->Spawn(roll < 6 ? put(number) : roll < 9 ? get(number) : erase(number));
      rig.tier->VerifyAll(kFast).IgnoreError();  // A pass usually runs already.
      for (uint64_t steps = random() % 12; steps > 0; --steps) rig.sim_time.Step();
    }
    rig.tier->Audit();
    const ScrubCounts& found = rig.tier->scrub().total;
    EXPECT_EQ(found.damaged, 0);
    EXPECT_EQ(found.errors, 0);
    EXPECT_EQ(rig.tier->stats().verify_failures, 0);
    *verified += found.records;
    *reclaimed += rig.tier->stats().evictions;
    process.reset();  // Simulates a crash.
  }
}

TEST(DiskScrubModelTest, ACleanDiskRaisesNoAlarmUnderPutsReclaimsErasesAndCrashes) {
  // 15 seeds take ThreadSanitizer two minutes.
  constexpr uint64_t kSeeds = testing::kSanitized ? 2 : 15;
  const uint64_t first = testing::TestSeed();
  uint64_t verified = 0;
  uint64_t reclaimed = 0;
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RunUnderLoad(seed, &verified, &reclaimed);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(verified, 333 * kSeeds);
  EXPECT_GT(reclaimed, 33 * kSeeds);
}

}  // namespace
}  // namespace kvtier

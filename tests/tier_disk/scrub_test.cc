// Tests the decisions of the scrub: what it reads next, when, and what it counts.
#include "tier_disk/scrub.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/tier_disk/disk_blocks.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::DiskKey;
using Outcome = Scrub::Outcome;

constexpr uint32_t kSegments = 4;
constexpr uint64_t kLength = 4096;
constexpr uint64_t kRate = 1 << 20;
const absl::Time kStart = absl::UnixEpoch() + absl::Seconds(1000);

class ScrubTest : public ::testing::Test {
 protected:
  ScrubTest() : index_(kSegments) {}
  // Inserts block `number` as the record `slot` of its segment.
  void Insert(uint64_t number, uint32_t segment, uint64_t slot) {
    index_.Insert({.key = DiskKey(number), .length = kLength},
                  {.segment = SegmentId{segment}, .offset = slot * RecordBytes(kLength)});
  }
  // Returns the keys of one pass, read as fast as the pacer permits.
  std::vector<BlockKey> RunPass(Scrub* scrub, Outcome outcome = Outcome::kVerified) {
    std::vector<BlockKey> keys;
    while (true) {
      now_ = std::max(now_, scrub->due());
      const std::optional<DiskEntry> entry = scrub->Next(index_, now_);
      if (!entry) return keys;
      keys.push_back(entry->block.key);
      scrub->Done(*entry, outcome, now_);
    }
  }

  RecordIndex index_;
  absl::Time now_ = kStart;
};

TEST_F(ScrubTest, APassGoesOnceAroundTheDiskByPlace) {
  Insert(1, 2, 0);
  Insert(2, 0, 0);
  Insert(3, 0, 1);
  Insert(4, 3, 5);
  Scrub scrub({.segments = kSegments, .first_segment = 2}, now_);
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  EXPECT_EQ(RunPass(&scrub), (std::vector{DiskKey(1), DiskKey(4), DiskKey(2), DiskKey(3)}));
  const ScrubReport& report = scrub.report();
  EXPECT_EQ(report.pass.counts, (ScrubCounts{.records = 4, .bytes = 4 * RecordBytes(kLength)}));
  EXPECT_EQ(report.pass.segments_done, kSegments);
  EXPECT_EQ(report.passes, 1);
  EXPECT_EQ(report.pass.began, kStart);
  EXPECT_EQ(report.pass.ended, now_);
  EXPECT_FALSE(report.pass.running());
}

TEST_F(ScrubTest, AnEmptyDiskIsAPassWithoutRecords) {
  Scrub scrub({.segments = kSegments}, now_);
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  EXPECT_TRUE(RunPass(&scrub).empty());
  EXPECT_EQ(scrub.report().passes, 1);
}

TEST_F(ScrubTest, WhatLeftOrMovedBeforeItsTurnIsPassedOver) {
  for (uint64_t i = 0; i < 3; ++i) Insert(i, 1, i);
  Scrub scrub({.segments = kSegments, .first_segment = 1}, now_);
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  const std::optional<DiskEntry> first = scrub.Next(index_, now_);
  ASSERT_TRUE(first.has_value());
  scrub.Done(*first, Outcome::kVerified, now_);
  index_.Erase(DiskKey(1));
  index_.Move(DiskKey(2), {.segment = SegmentId{3}, .offset = 0});
  // The pass meets the moved record at its new place.
  EXPECT_EQ(RunPass(&scrub), std::vector{DiskKey(2)});
}

TEST_F(ScrubTest, OutcomesAreCountedAndABusyDiskIsAskedAgain) {
  for (uint64_t i = 0; i < 4; ++i) Insert(i, 0, i);
  Scrub scrub({.segments = kSegments}, now_);
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  std::vector<Outcome> outcomes = {Outcome::kBusy, Outcome::kDamaged, Outcome::kUnreadable,
                                   Outcome::kGone, Outcome::kVerified};
  std::vector<BlockKey> keys;
  for (const Outcome outcome : outcomes) {
    now_ = std::max(now_, scrub.due());
    const DiskEntry entry = *scrub.Next(index_, now_);
    keys.push_back(entry.block.key);
    scrub.Done(entry, outcome, now_);
    if (outcome == Outcome::kBusy) {
      EXPECT_GE(scrub.due(), now_ + kScrubRetryAfter);
    }
  }
  EXPECT_EQ(keys, (std::vector{DiskKey(0), DiskKey(0), DiskKey(1), DiskKey(2), DiskKey(3)}));
  EXPECT_EQ(
      scrub.report().pass.counts,
      (ScrubCounts{.records = 3, .bytes = 3 * RecordBytes(kLength), .damaged = 1, .errors = 1}));
}

TEST_F(ScrubTest, PassesComeByThemselvesAndRestInBetween) {
  Insert(1, 0, 0);
  Scrub scrub({.segments = kSegments, .bytes_per_second = kRate}, now_);
  EXPECT_EQ(scrub.due(), kStart + kFirstScrubAfter);
  RunPass(&scrub);
  EXPECT_FALSE(scrub.report().pass.asked);
  EXPECT_EQ(scrub.due(), scrub.report().pass.ended + kScrubRest);
  RunPass(&scrub);
  EXPECT_EQ(scrub.report().passes, 2);
  EXPECT_EQ(scrub.report().total.records, 2);
}

TEST_F(ScrubTest, WithoutARateNoPassComesByItself) {
  Scrub scrub({.segments = kSegments}, now_);
  EXPECT_EQ(scrub.due(), absl::InfiniteFuture());
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  RunPass(&scrub);
  EXPECT_EQ(scrub.due(), absl::InfiniteFuture());
}

TEST_F(ScrubTest, AnAskedPassBreaksOffOneThatCameByItselfAndNoOther) {
  for (uint64_t i = 0; i < 3; ++i) Insert(i, 0, i);
  Scrub scrub({.segments = kSegments, .bytes_per_second = kRate}, now_);
  now_ = scrub.due();
  const DiskEntry under_way = *scrub.Next(index_, now_);
  ASSERT_TRUE(scrub.RequestPass(kRate, now_));
  EXPECT_FALSE(scrub.RequestPass(kRate, now_));
  // The record was read for the previous pass: it is counted in the total, and read again for this
  // pass.
  scrub.Done(under_way, Outcome::kVerified, now_);
  EXPECT_EQ(RunPass(&scrub).size(), 3);
  EXPECT_EQ(scrub.report().pass.counts.records, 3);
  EXPECT_EQ(scrub.report().total.records, 4);
  EXPECT_EQ(scrub.report().passes, 1);
  EXPECT_TRUE(scrub.RequestPass(kRate, now_));
}

// Over every stretch of time, the pacer permits the rate, one burst and one record. Reads are late
// at random, as a busy disk makes them.
TEST(ScrubPacerTest, NeverExceedsItsRateAndUsesItWhenNothingIsLate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    ScrubPacer pacer;
    absl::Time now = kStart;
    pacer.SetRate(kRate, now);
    struct Read {
      absl::Time at;
      uint64_t bytes;
    };
    std::vector<Read> reads;
    uint64_t largest = 0;
    const bool is_late = seed % 2 == 0;
    for (int i = 0; i < 300; ++i) {
      now = std::max(now, pacer.ready());
      if (is_late) now += absl::Milliseconds(random() % 700);
      const uint64_t bytes = 4096 * (1 + random() % 200);
      largest = std::max(largest, bytes);
      pacer.Spend(bytes, now);
      reads.push_back({now, bytes});
    }
    const double burst = absl::ToDoubleSeconds(kScrubBurst) * kRate + static_cast<double>(largest);
    for (size_t from = 0; from < reads.size(); ++from) {
      double sum = 0;
      for (size_t to = from; to < reads.size(); ++to) {
        sum += static_cast<double>(reads[to].bytes);
        const double span = absl::ToDoubleSeconds(reads[to].at - reads[from].at);
        ASSERT_LE(sum, span * kRate + burst + 1) << "seed " << seed;
      }
    }
    if (is_late) continue;
    double sum = 0;
    for (const Read& read : reads) sum += static_cast<double>(read.bytes);
    EXPECT_GE(sum, absl::ToDoubleSeconds(now - kStart) * kRate);
  }
}

}  // namespace
}  // namespace kvtier

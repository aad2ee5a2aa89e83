#include "tier_disk/io/disk_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <random>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr absl::Duration kUsual = absl::Milliseconds(4);
constexpr uint64_t kBytes = 65536;

class DiskHealthTest : public ::testing::Test {
 protected:
  // Records one I/O after another.
  void Record(IoOutcome outcome, absl::Duration latency = kUsual, uint64_t backlog = kBytes) {
    now_ += latency;
    const IoReport report{
        .outcome = outcome, .latency = latency, .bytes = kBytes, .backlog_bytes = backlog};
    health_.Record(report, now_);
  }
  void RecordMany(int ios, IoOutcome outcome, absl::Duration latency = kUsual) {
    for (int i = 0; i < ios; ++i) Record(outcome, latency);
  }
  // Records enough I/Os to make kUsual the disk's usual latency.
  void Live() { RecordMany(kHistoryMinIos, IoOutcome::kOk); }
  void Quarantine() {
    RecordMany(kErrorsTooMany, IoOutcome::kError);
    ASSERT_EQ(health_.state(), DiskState::kQuarantined);
  }
  void Probe(IoOutcome outcome, absl::Duration latency = kUsual) {
    now_ = std::max(now_, health_.next_probe());
    health_.BeginProbe(now_);
    EXPECT_EQ(health_.state(), DiskState::kProbing);
    now_ += latency;
    const IoReport report{
        .outcome = outcome, .latency = latency, .bytes = kBytes, .backlog_bytes = kBytes};
    health_.RecordProbe(report, now_);
  }
  void Readmit() {
    for (int i = 0; i < kProbesToReadmit; ++i) Probe(IoOutcome::kOk);
    ASSERT_TRUE(health_.healthy());
  }

  DiskHealth health_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(DiskHealthTest, ADiskBeginsHealthy) {
  EXPECT_TRUE(health_.healthy());
  EXPECT_EQ(health_.Describe(), "healthy");
  EXPECT_EQ(health_.next_probe(), absl::InfiniteFuture());
  EXPECT_EQ(health_.quarantines(), 0);
}

// Errors.

TEST_F(DiskHealthTest, TheLastErrorOfABurstQuarantines) {
  RecordMany(kErrorsTooMany - 1, IoOutcome::kError);
  EXPECT_TRUE(health_.healthy());
  Record(IoOutcome::kError);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_EQ(health_.quarantines(), 1);
  EXPECT_EQ(health_.Describe(),
            "quarantined: 16 of the last 64 I/Os failed; probes: 0 good in a row, 0 bad");
}

TEST_F(DiskHealthTest, ErrorsLeaveTheWindow) {
  RecordMany(kErrorsTooMany - 1, IoOutcome::kError);
  RecordMany(kErrorWindow - kErrorsTooMany + 1, IoOutcome::kOk);
  Record(IoOutcome::kError);  // The first error of the burst has just left the window.
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, ErrorsInsideTheWindowAddUp) {
  RecordMany(kErrorsTooMany - 1, IoOutcome::kError);
  RecordMany(kErrorWindow - kErrorsTooMany, IoOutcome::kOk);
  Record(IoOutcome::kError);
  EXPECT_FALSE(health_.healthy());
}

// Returns how often the disk is quarantined in `ios` I/Os that fail independently with probability
// `p`.
uint64_t QuarantinesAt(double p, int ios, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution fails(p);
  DiskHealth health;
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < ios; ++i) {
    now += absl::Milliseconds(1);
    const IoOutcome outcome = fails(random) ? IoOutcome::kError : IoOutcome::kOk;
    const IoReport report{
        .outcome = outcome, .latency = kUsual, .bytes = kBytes, .backlog_bytes = kBytes};
    if (health.healthy()) {
      health.Record(report, now);
    } else if (health.next_probe() <= now) {
      health.BeginProbe(now);
      health.RecordProbe(report, now);
    }
  }
  return health.quarantines();
}

// One window of 64 has 16 errors by chance with probability 5e-34 and 1e-10. A million I/Os have
// some 1e5 windows that differ enough to count.
TEST_F(DiskHealthTest, OneErrorInAThousandOrIn32NeverQuarantines) {
  const uint64_t seed = testing::TestSeed();
  EXPECT_EQ(QuarantinesAt(1.0 / 1000, 1'000'000, seed), 0);
  EXPECT_LE(QuarantinesAt(1.0 / 32, 1'000'000, seed), 1);
}

TEST_F(DiskHealthTest, OneErrorInTwoQuarantines) {
  EXPECT_GE(QuarantinesAt(1.0 / 2, 1000, testing::TestSeed()), 1);
}

TEST_F(DiskHealthTest, AFullDiskIsHealthy) {
  Live();
  RecordMany(10 * kErrorWindow, IoOutcome::kFull, absl::Seconds(5));
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, WhatIsFullDoesNotThinTheErrors) {
  for (int i = 0; i < kErrorsTooMany; ++i) {
    RecordMany(kErrorWindow, IoOutcome::kFull);
    Record(IoOutcome::kError);
  }
  EXPECT_FALSE(health_.healthy());
}

// Latency.

TEST_F(DiskHealthTest, AMedianFarAboveTheUsualQuarantines) {
  Live();
  RecordMany(kSlowTooMany - 1, IoOutcome::kOk, 100 * kUsual);
  EXPECT_TRUE(health_.healthy());
  Record(IoOutcome::kOk, 100 * kUsual);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_THAT(health_.Describe(), ::testing::HasSubstr("17 of the last 32 I/Os were slow, the "
                                                       "latest: 65536 bytes in 400ms"));
}

// With many I/Os in flight, one pause of the device, or of the machine, is in the latency of all of
// them.
TEST_F(DiskHealthTest, APauseThatManyIosSawCountsOnce) {
  RecordMany(1000, IoOutcome::kOk);
  for (int pause = 0; pause < kSlowTooMany - 1; ++pause) {
    now_ += absl::Milliseconds(400);
    for (int i = 0; i < 8; ++i) {
      health_.Record({.outcome = IoOutcome::kOk,
                      .latency = absl::Milliseconds(400),
                      .bytes = kBytes,
                      .backlog_bytes = kBytes},
                     now_);
    }
  }
  EXPECT_TRUE(health_.healthy());
  Record(IoOutcome::kOk, 100 * kUsual);
  EXPECT_FALSE(health_.healthy());
}

TEST_F(DiskHealthTest, HalfSlowIsNotAMedian) {
  Live();
  for (int i = 0; i < 1000; ++i) {
    Record(IoOutcome::kOk, i % 2 == 0 ? 100 * kUsual : kUsual);
  }
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, SlowIOsLeaveTheWindow) {
  Live();
  RecordMany(kSlowTooMany - 1, IoOutcome::kOk, 100 * kUsual);
  RecordMany(kSlowWindow - kSlowTooMany + 1, IoOutcome::kOk);
  Record(IoOutcome::kOk, 100 * kUsual);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, TwentyTimesTheUsualIsBearable) {
  Live();
  RecordMany(10 * kSlowWindow, IoOutcome::kOk, kUsual * kSlowFactor);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, BelowTheFloorNothingIsSlow) {
  RecordMany(kHistoryMinIos, IoOutcome::kOk, absl::Microseconds(80));
  RecordMany(10 * kSlowWindow, IoOutcome::kOk, kSlowFloor);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, AQueueExplainsALatency) {
  Live();
  const uint64_t backlog = uint64_t{256} << 20;  // 2.7 s at the slowest.
  for (int i = 0; i < 10 * kSlowWindow; ++i) Record(IoOutcome::kOk, absl::Seconds(2), backlog);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, AQueueExplainsOnlySoMuch) {
  Live();
  const uint64_t backlog = uint64_t{16} << 20;  // 0.17 s.
  for (int i = 0; i < kSlowTooMany; ++i) Record(IoOutcome::kOk, absl::Seconds(2), backlog);
  EXPECT_FALSE(health_.healthy());
}

TEST_F(DiskHealthTest, WithoutAPastNothingIsSlow) {
  RecordMany(10 * kSlowWindow, IoOutcome::kOk, absl::Seconds(1));
  EXPECT_TRUE(health_.healthy());
}

// Stalls.

TEST_F(DiskHealthTest, SilenceWhileAnIoIsUnderWayQuarantines) {
  const absl::Time started = now_;
  health_.Outstanding(started, started + kSilenceLimit - absl::Nanoseconds(1));
  EXPECT_TRUE(health_.healthy());
  health_.Outstanding(started, started + kSilenceLimit);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_THAT(health_.Describe(), ::testing::HasSubstr("no I/O ended for 2s"));
}

TEST_F(DiskHealthTest, IoOutcomesOfAnyKindBreakTheSilence) {
  const absl::Time started = now_;
  for (const IoOutcome outcome : {IoOutcome::kOk, IoOutcome::kError, IoOutcome::kFull}) {
    now_ += kSilenceLimit - absl::Milliseconds(2);
    Record(outcome);
    health_.Outstanding(started, now_ + absl::Milliseconds(500));
    EXPECT_TRUE(health_.healthy());
  }
}

TEST_F(DiskHealthTest, OneIoThatNeverEndsQuarantinesAlthoughOthersEnd) {
  const absl::Time started = now_;
  while (now_ + kUsual - started < kStallLimit) {
    Record(IoOutcome::kOk);
    health_.Outstanding(started, now_);
    ASSERT_TRUE(health_.healthy()) << now_ - started;
  }
  Record(IoOutcome::kOk);
  health_.Outstanding(started, now_);
  EXPECT_FALSE(health_.healthy());
  EXPECT_THAT(health_.Describe(), ::testing::HasSubstr("an I/O did not end for 15s"));
}

TEST_F(DiskHealthTest, AStallThatGoesOnIsOneQuarantineAndLeavesTheProbeTime) {
  const absl::Time started = now_;
  health_.Outstanding(started, started + kSilenceLimit);
  const absl::Time next = health_.next_probe();
  for (int i = 1; i < 1000; ++i) health_.Outstanding(started, started + i * kSilenceLimit);
  EXPECT_EQ(health_.quarantines(), 1);
  EXPECT_EQ(health_.next_probe(), next);
}

// Probes.

TEST_F(DiskHealthTest, TheFirstProbeComesSoonAfterTheQuarantine) {
  Quarantine();
  EXPECT_EQ(health_.next_probe(), now_ + kFirstProbeAfter);
}

TEST_F(DiskHealthTest, EnoughGoodProbesInARowReadmit) {
  Quarantine();
  for (int i = 1; i < kProbesToReadmit; ++i) {
    Probe(IoOutcome::kOk);
    EXPECT_EQ(health_.state(), DiskState::kProbing);
    EXPECT_EQ(health_.next_probe(), now_ + kProbeSpacing);
  }
  Probe(IoOutcome::kOk);
  EXPECT_TRUE(health_.healthy());
  EXPECT_EQ(health_.next_probe(), absl::InfiniteFuture());
}

TEST_F(DiskHealthTest, ABadProbeStartsTheCountAnew) {
  Quarantine();
  for (int i = 1; i < kProbesToReadmit; ++i) Probe(IoOutcome::kOk);
  Probe(IoOutcome::kError);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_THAT(health_.Describe(), ::testing::HasSubstr("0 good in a row, 1 bad"));
  for (int i = 1; i < kProbesToReadmit; ++i) Probe(IoOutcome::kOk);
  EXPECT_FALSE(health_.healthy());
  Probe(IoOutcome::kOk);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, BadProbesDoubleTheIntervalUpToACap) {
  Quarantine();
  absl::Duration expected = kFirstProbeAfter;
  for (int i = 0; i < 20; ++i) {
    Probe(IoOutcome::kError);
    expected = std::min(expected * 2, kMaxProbeInterval);
    EXPECT_EQ(health_.next_probe(), now_ + expected);
  }
  EXPECT_EQ(expected, kMaxProbeInterval);
}

TEST_F(DiskHealthTest, ASlowProbeIsBad) {
  Live();
  Quarantine();
  Probe(IoOutcome::kOk, 100 * kUsual);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
}

TEST_F(DiskHealthTest, WithoutAPastAProbeAboveTheFloorIsBad) {
  Quarantine();
  Probe(IoOutcome::kOk, kSlowFloor * 2);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
}

TEST_F(DiskHealthTest, AProbeThatFindsNoRoomIsNeitherGoodNorBad) {
  Quarantine();
  Probe(IoOutcome::kOk);
  Probe(IoOutcome::kFull);
  EXPECT_EQ(health_.state(), DiskState::kProbing);
  EXPECT_EQ(health_.next_probe(), now_ + kProbeSpacing);
  for (int i = 1; i < kProbesToReadmit; ++i) Probe(IoOutcome::kOk);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, AProbeThatDoesNotEndIsBadAndItsEndIsIgnored) {
  Quarantine();
  now_ = health_.next_probe();
  health_.BeginProbe(now_);
  health_.Outstanding(now_, now_ + kSilenceLimit);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_EQ(health_.next_probe(), now_ + kSilenceLimit + 2 * kFirstProbeAfter);
  now_ += absl::Hours(1);
  health_.RecordProbe({.bytes = kBytes, .backlog_bytes = kBytes}, now_);
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_THAT(health_.Describe(), ::testing::HasSubstr("0 good in a row, 1 bad"));
}

TEST_F(DiskHealthTest, WhatBeganBeforeTheQuarantineChangesNothing) {
  Quarantine();
  const absl::Time next = health_.next_probe();
  RecordMany(1000, IoOutcome::kError);
  RecordMany(1000, IoOutcome::kOk, absl::Seconds(30));
  EXPECT_EQ(health_.state(), DiskState::kQuarantined);
  EXPECT_EQ(health_.next_probe(), next);
  Readmit();
}

TEST_F(DiskHealthTest, AReadmittedDiskStartsWithAnEmptyRecord) {
  Quarantine();
  Readmit();
  RecordMany(kErrorsTooMany - 1, IoOutcome::kError);
  EXPECT_TRUE(health_.healthy());
}

TEST_F(DiskHealthTest, ARelapseWaitsTwiceAsLong) {
  Quarantine();
  Readmit();
  Quarantine();
  EXPECT_EQ(health_.next_probe(), now_ + 2 * kFirstProbeAfter);
  Readmit();
  Quarantine();
  EXPECT_EQ(health_.next_probe(), now_ + 4 * kFirstProbeAfter);
  EXPECT_EQ(health_.quarantines(), 3);
}

TEST_F(DiskHealthTest, RelapsesWaitNoLongerThanTheCap) {
  for (int i = 0; i < 20; ++i) {
    Quarantine();
    EXPECT_LE(health_.next_probe(), now_ + kMaxProbeInterval);
    Readmit();
  }
}

TEST_F(DiskHealthTest, AfterAGoodWhileTheIntervalStartsOver) {
  Quarantine();
  Probe(IoOutcome::kError);
  Readmit();
  now_ += kTrustAfter;
  Quarantine();
  EXPECT_EQ(health_.next_probe(), now_ + kFirstProbeAfter);
}

// Compares with a plain model: lists of the last outcomes.
TEST_F(DiskHealthTest, RandomIosAreJudgedAsByAListOfThem) {
  std::mt19937_64 random(testing::TestSeed());
  uint64_t quarantines = 0;
  for (int life = 0; life < 300; ++life) {
    health_ = DiskHealth();
    Live();
    std::deque<int> failed(kErrorWindow, 0);
    std::deque<int> slow(kSlowWindow, 0);
    const double error_share = static_cast<double>(random() % 30) / 100;
    const double slow_share = static_cast<double>(random() % 60) / 100;
    // There are so few I/Os that slow latencies do not become the usual ones.
    for (int i = 0; i < 60 && health_.healthy(); ++i) {
      const bool fails = std::bernoulli_distribution(error_share)(random);
      const bool slows = std::bernoulli_distribution(slow_share)(random);
      Record(fails ? IoOutcome::kError : IoOutcome::kOk, slows ? 100 * kUsual : kUsual);
      failed.push_back(fails ? 1 : 0);
      failed.pop_front();
      if (!fails) {
        slow.push_back(slows ? 1 : 0);
        slow.pop_front();
      }
      const bool bad = std::accumulate(failed.begin(), failed.end(), 0) >= kErrorsTooMany ||
                       std::accumulate(slow.begin(), slow.end(), 0) >= kSlowTooMany;
      ASSERT_EQ(health_.healthy(), !bad) << "life " << life << " I/O " << i;
    }
    quarantines += health_.quarantines();
  }
  EXPECT_GT(quarantines, 10);
  EXPECT_LT(quarantines, 290);
}

}  // namespace
}  // namespace kvtier

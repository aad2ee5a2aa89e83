// Tests the tables of a node's domains, and how they grow.
#include "agent/index/residency.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "proto/residency_words.h"
#include "tests/agent/residency_rig.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

using testing::NumberedKey;
using testing::ViewOf;

constexpr DomainId kFirst{0};
constexpr DomainId kSecond{1};
constexpr uint64_t kFull = kResidencyLoad << kMinResidencyLog2Buckets;  // Blocks.

class ResidencyTest : public ::testing::Test {
 protected:
  ~ResidencyTest() override { residency_->Audit(); }
  void AddBlocks(uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      residency_->Add(kFirst, Tier::kHost, NumberedKey(first + i));
    }
  }
  uint32_t log2_buckets(DomainId domain = kFirst) const {
    return residency_->table(domain)->log2_buckets();
  }
  void Pass(absl::Duration span = absl::Milliseconds(1)) { time_.RunUntil(time_.Now() + span); }
  std::unique_ptr<Residency> Make(uint32_t max_log2_buckets = kMaxResidencyLog2Buckets) {
    return std::make_unique<Residency>(
        Residency::Parts{
            .executor = &executor_, .scope = &scope_, .tenants = &tenants_, .changes = &changes_},
        max_log2_buckets);
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  const TenantTable tenants_ = *TenantTable::Create(
      {{.name = "default"}, {.name = "acme", .secret = "sixteen bytes or more"}});
  BlockChanges changes_;
  std::unique_ptr<Residency> residency_;
  TaskScope scope_{&executor_};
};

TEST_F(ResidencyTest, EachDomainHasATableOfItsOwn) {
  residency_ = Make();
  residency_->Add(kFirst, Tier::kHost, NumberedKey(1));
  residency_->Add(kSecond, Tier::kDisk, NumberedKey(2));
  const auto first = ViewOf(*residency_->table(kFirst));
  const auto second = ViewOf(*residency_->table(kSecond));
  EXPECT_EQ(first->Look(NumberedKey(1)), Residence::kHost);
  EXPECT_EQ(first->Look(NumberedKey(2)), Residence::kAbsent);
  EXPECT_EQ(second->Look(NumberedKey(1)), Residence::kAbsent);
  EXPECT_EQ(second->Look(NumberedKey(2)), Residence::kDisk);
}

TEST_F(ResidencyTest, AFullTableIsReplacedByOneOfTwiceTheSize) {
  residency_ = Make();
  const auto old = ViewOf(*residency_->table(kFirst));
  AddBlocks(0, kFull);
  Pass();
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets) << "it is full, not more than full";
  AddBlocks(kFull, 1);
  Pass();
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets + 1);
  EXPECT_EQ(log2_buckets(kSecond), kMinResidencyLog2Buckets);
  EXPECT_TRUE(old->retired());
  const auto view = ViewOf(*residency_->table(kFirst));
  EXPECT_FALSE(view->retired());
  for (uint64_t i = 0; i <= kFull; ++i) {
    EXPECT_EQ(view->Look(NumberedKey(i)), Residence::kHost) << i;
  }
  EXPECT_EQ(residency_->blocks_in(Tier::kHost), kFull + 1);
}

// The memory comes back even while a worker that no longer looks at the table maps it.
TEST_F(ResidencyTest, AReplacedTableGivesItsMemoryBackAndStaysRetired) {
  residency_ = Make();
  const auto old = ViewOf(*residency_->table(kFirst));
  const int fd = dup(residency_->table(kFirst)->memory().read_only_fd());
  const auto kept_bytes = [&] {
    struct stat info{};
    EXPECT_EQ(fstat(fd, &info), 0);
    return info.st_blocks * 512;
  };
  EXPECT_EQ(kept_bytes(), wire::ResidencyBytes(kMinResidencyLog2Buckets));
  AddBlocks(0, kFull + 1);
  Pass();
  EXPECT_EQ(kept_bytes(), wire::kResidencyHeaderBytes);
  EXPECT_EQ(old->Look(NumberedKey(0)), Residence::kAbsent);
  EXPECT_TRUE(old->retired());
  close(fd);
}

// A turn of the executor moves a bounded number of buckets, and what changes between two turns
// changes in both tables.
TEST_F(ResidencyTest, BlocksComeAndGoWhileATableIsFilled) {
  residency_ = Make();
  constexpr uint32_t kLarger = kMinResidencyLog2Buckets + 2;
  const uint64_t full = kResidencyLoad << kLarger;
  residency_->Expect(kFirst, full);
  ASSERT_EQ(log2_buckets(), kLarger);
  AddBlocks(0, full + 1);
  uint64_t turns = 0;
  uint64_t number = full + 1;
  while (log2_buckets() == kLarger) {
    ASSERT_TRUE(time_.Step());
    ++turns;
    for (int i = 0; i < 100; ++i, ++number) {
      residency_->Add(kFirst, Tier::kDisk, NumberedKey(number));
      residency_->Remove(kFirst, Tier::kHost, NumberedKey(number - full));
    }
    residency_->Audit();
  }
  EXPECT_GE(turns, (uint64_t{1} << kLarger) / kBucketsTakenOverPerTurn);
  for (uint64_t i = 0; i < number; ++i) {
    const bool gone = i >= full + 1 - full && i + full < number && i > 0;
    EXPECT_EQ(residency_->table(kFirst)->Has(NumberedKey(i), Tier::kHost), i <= full && !gone) << i;
    EXPECT_EQ(residency_->table(kFirst)->Has(NumberedKey(i), Tier::kDisk), i > full) << i;
  }
}

TEST_F(ResidencyTest, ATableStopsGrowingAtItsLimitAndSaysPerhaps) {
  residency_ = Make(kMinResidencyLog2Buckets + 1);
  AddBlocks(0, 10 * kFull);
  Pass();
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets + 1);
  const auto view = ViewOf(*residency_->table(kFirst));
  EXPECT_GT(residency_->table(kFirst)->overflowed(), 0);
  for (uint64_t i = 0; i < 10 * kFull; ++i) {
    EXPECT_NE(view->Look(NumberedKey(i)), Residence::kAbsent) << i;
  }
}

TEST_F(ResidencyTest, TheLargestTableIsAsLargeAsTheLimit) {
  EXPECT_LE(wire::ResidencyBytes(kMaxResidencyLog2Buckets), (uint64_t{256} << 20) + 4096);
  EXPECT_EQ(wire::ResidencyBytes(kMinResidencyLog2Buckets), (uint64_t{64} << 10) + 4096);
  residency_ = Make(kMinResidencyLog2Buckets + 2);
  residency_->Expect(kFirst, 1'000'000'000);
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets + 2);
}

TEST_F(ResidencyTest, WhatIsExpectedFitsAtOnce) {
  residency_ = Make();
  residency_->Expect(kFirst, kFull);
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets);
  residency_->Expect(kFirst, 4 * kFull);
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets + 2);
  const uint64_t bytes = residency_->memory_bytes();
  AddBlocks(0, 4 * kFull);
  Pass();
  EXPECT_EQ(residency_->memory_bytes(), bytes);
}

// NoSharedMemory limits files to one page, so that no shared memory can be made.
class NoSharedMemory {
 public:
  NoSharedMemory() : signal_before_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit page = before_;
    page.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &page);
  }
  ~NoSharedMemory() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, signal_before_);
  }

 private:
  rlimit before_{};
  const sighandler_t signal_before_;
};

TEST_F(ResidencyTest, WithoutMemoryATableStaysAsItIsAndIsTriedAgainLater) {
  residency_ = Make();
  {
    const NoSharedMemory none;
    AddBlocks(0, 2 * kFull);
    Pass();
    EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets);
  }
  AddBlocks(2 * kFull, 1);
  Pass();
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets);
  Pass(kResidencyRetryInterval);
  AddBlocks(2 * kFull + 1, 1);
  Pass();
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets + 2);
  EXPECT_EQ(residency_->blocks_in(Tier::kHost), 2 * kFull + 2);
}

TEST_F(ResidencyTest, ADomainWhoseTableCouldNotBeMadeHasNone) {
  {
    const NoSharedMemory none;
    residency_ = Make();
  }
  EXPECT_EQ(residency_->table(kFirst), nullptr);
  AddBlocks(0, 2 * kFull);
  residency_->Remove(kFirst, Tier::kHost, NumberedKey(0));
  residency_->Expect(kFirst, kFull);
  EXPECT_EQ(residency_->memory_bytes(), 0);
}

TEST_F(ResidencyTest, AStopGivesUpATableThatIsBeingFilled) {
  residency_ = Make();
  AddBlocks(0, kFull + 1);
  const uint64_t bytes = residency_->memory_bytes();
  residency_->Stop();
  Pass();
  EXPECT_EQ(scope_.running(), 0);
  EXPECT_LT(residency_->memory_bytes(), bytes);
  EXPECT_EQ(log2_buckets(), kMinResidencyLog2Buckets);
}

}  // namespace
}  // namespace kvtier

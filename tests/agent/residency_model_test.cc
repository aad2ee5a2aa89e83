// Runs readers beside a writer that never rests. A block that is there all the time is never said
// to be absent, and a block that never was there is never said to be there, while others come,
// leave, change their tier or move to a larger table.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bitset>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "agent/index/residency.h"
#include "tests/agent/residency_rig.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr DomainId kDomain{0};
constexpr size_t kReaders = 3;
constexpr uint64_t kKept = 2000;           // Keys 0..: there throughout.
constexpr uint64_t kChanging = 40000;      // Keys after those: they come and go.
constexpr uint64_t kNever = 10'000'000;    // Keys from here on are never there.
constexpr uint64_t kLooksOfAnAnswer = 64;  // Lookups between two looks at `retired`.

class ResidencyModelTest : public ::testing::Test {
 protected:
  // Adds the first `before` of the changing keys before the kept ones.
  explicit ResidencyModelTest(uint32_t max_log2_buckets = kMaxResidencyLog2Buckets,
                              uint64_t before = 0)
      : before_(before),
        residency_(
            {.executor = &executor_, .scope = &scope_, .tenants = &tenants_, .changes = &changes_},
            max_log2_buckets) {
    for (uint64_t i = 0; i < before; ++i) {
      residency_.Add(kDomain, Tier::kHost, NumberedKey(kKept + i));
    }
    while (time_.Step()) continue;
    for (uint64_t i = 0; i < kKept; ++i) residency_.Add(kDomain, Tier::kHost, NumberedKey(i));
    HandOut();
  }

  // Runs the writer: `changes` random changes, with turns of the executor in between. The number of
  // blocks grows with the changes made.
  void Write(uint64_t changes);
  // Runs a reader until the writer has ended.
  void Read(uint64_t seed);
  // Hands the current table out to the readers.
  void HandOut() {
    const ResidencyTable* const table = residency_.table(kDomain);
    if (table == handed_out_) return;
    handed_out_ = table;
    const absl::MutexLock lock(&mu_);
    view_ = testing::ViewOf(*table);
    ++tables_;
  }
  std::shared_ptr<const ResidencyView> view() {
    const absl::MutexLock lock(&mu_);
    return view_;
  }
  // Runs the writer and the readers at the same time.
  void Run(uint64_t changes) {
    std::vector<std::thread> readers;
    for (size_t i = 0; i < kReaders; ++i) {
      readers.emplace_back([this, seed = random_.Next()] { Read(seed); });
    }
    Write(changes);
    stopping_ = true;
    for (std::thread& reader : readers) reader.join();
    residency_.Audit();
  }

  const uint64_t before_;
  testing::SimRandom random_{testing::TestSeed()};
  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  const TenantTable tenants_ = *TenantTable::Create({{.name = "default"}});
  BlockChanges changes_;
  Residency residency_;
  TaskScope scope_{&executor_};
  const ResidencyTable* handed_out_ = nullptr;
  int tables_ = 0;
  absl::Mutex mu_;
  std::shared_ptr<const ResidencyView> view_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> looks_ = 0;
  std::atomic<uint64_t> perhaps_ = 0;  // Answers "perhaps" for keys that never were there.
  std::atomic<uint64_t> nevers_ = 0;
};

void ResidencyModelTest::Write(uint64_t changes) {
  std::vector<std::bitset<kTierCount>> tiers(kKept + kChanging);
  for (uint64_t i = 0; i < kKept + before_; ++i) tiers[i].set(TierIndex(Tier::kHost));
  size_t present = kKept + before_;
  for (uint64_t i = 0; i < changes; ++i) {
    const uint64_t range = kKept + before_ + 1 + (kChanging - before_) * (i + 1) / (changes + 1);
    const uint64_t number = random_.Below(range);
    const Tier tier = kAllTiers[random_.Below(kTierCount)];
    std::bitset<kTierCount>& now = tiers[number];
    const std::bitset<kTierCount> only = std::bitset<kTierCount>().set(TierIndex(tier));
    present -= now.any() ? 1 : 0;
    // A kept block never loses its last tier.
    if ((now & only).any() && (number >= kKept || now != only)) {
      now &= ~only;
      residency_.Remove(kDomain, tier, NumberedKey(number));
    } else {
      now |= only;
      residency_.Add(kDomain, tier, NumberedKey(number));
    }
    present += now.any() ? 1 : 0;
    if (i % 16 == 0) time_.Step();
    HandOut();
    if (i % 10000 == 0) residency_.Audit();
  }
  EXPECT_EQ(residency_.table(kDomain)->blocks(), present);
  for (uint64_t i = 0; i < tiers.size(); ++i) {
    for (const Tier tier : kAllTiers) {
      ASSERT_EQ(residency_.table(kDomain)->Has(NumberedKey(i), tier), tiers[i][TierIndex(tier)]);
    }
  }
}

void ResidencyModelTest::Read(uint64_t seed) {
  testing::SimRandom random(seed);
  while (!stopping_) {
    const std::shared_ptr<const ResidencyView> view = this->view();
    std::array<Residence, kLooksOfAnAnswer> kept{};
    uint64_t perhaps = 0;
    for (Residence& said : kept) {
      said = view->Look(NumberedKey(random.Below(kKept)));
      const Residence never = view->Look(NumberedKey(kNever + random.Below(kNever)));
      ASSERT_TRUE(never == Residence::kAbsent || never == Residence::kPerhaps);
      perhaps += never == Residence::kPerhaps ? 1 : 0;
    }
    if (view->retired()) continue;
    for (const Residence said : kept) ASSERT_NE(said, Residence::kAbsent);
    looks_ += kept.size();
    nevers_ += kept.size();
    perhaps_ += perhaps;
  }
}

uint64_t Changes() {
  return testing::FromEnvironment("KVTIER_RESIDENCY_CHANGES",
                                  testing::kSanitized ? 100'000 : 300'000);
}

TEST_F(ResidencyModelTest, ReadersOfAGrowingTableMissNothing) {
  Run(Changes());
  EXPECT_GE(tables_, 4);
  EXPECT_GT(looks_, 0);
  // The bound that docs/design/residency.md states for tables that grow.
  EXPECT_LE(static_cast<double>(perhaps_), 1e-3 * static_cast<double>(nevers_) + 100);
}

class FullResidencyModelTest : public ResidencyModelTest {
 protected:
  // Takes 14 of 15 entries before the kept keys are added, so many kept keys find no room at first.
  FullResidencyModelTest() : ResidencyModelTest(kMinResidencyLog2Buckets + 1, 14'000) {}
};

TEST_F(FullResidencyModelTest, ReadersOfATableWithoutRoomMissNothing) {
  ASSERT_GT(residency_.table(kDomain)->overflowed(), kKept / 4);
  Run(Changes());
  EXPECT_GT(looks_, 0);
  EXPECT_GT(perhaps_, 0);
}

}  // namespace
}  // namespace kvtier

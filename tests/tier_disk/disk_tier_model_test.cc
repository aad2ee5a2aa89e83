// Compares random operations with a map, over all three forms of the disk: the same operations give
// the same answers, and those are the map's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;
using testing::FormName;
using testing::FreshDirectory;

constexpr uint64_t kNumbers = 300;  // Number of different blocks.
constexpr uint64_t kSeeds = testing::kSanitized ? 5 : 15;

// A block's length and parent are functions of its number, as its content is.
uint64_t LengthOf(uint64_t number) {
  constexpr uint64_t kLengths[] = {4096, 1, 100000, 65536, 8192, 200001, 40000};
  return kLengths[number % std::size(kLengths)];
}
std::optional<uint64_t> ParentOf(uint64_t number) {
  if (number % 8 == 0) return std::nullopt;
  return number - 1;
}

// Payloads says whether payloads are in the clear.
enum class Payloads { kClear, kSealed };

std::shared_ptr<const MasterSecret> SecretFor(Payloads payloads) {
  return payloads == Payloads::kSealed ? testing::TestSecret(1) : nullptr;
}

class Model {
 public:
  Model(DiskForm form, uint64_t seed, Payloads payloads)
      : random_(seed),
        rig_(form,
             {.segments = 6,
              .segment_bytes = uint64_t{1} << 20,
              .seed = seed,
              .secret = SecretFor(payloads)},
             FreshDirectory("model"), [this](const BlockKey& key) { Dropped(key); }) {
    for (uint64_t i = 0; i < kNumbers; ++i) numbers_[DiskKey(i)] = i;
  }
  absl::Status Open() { return rig_.Open(); }
  void Step();
  void CheckAll();
  // Returns a log of one character or word for each operation: equal for equal seeds.
  const std::string& answers() const { return answers_; }
  uint64_t drops() const { return drops_; }

 private:
  void Dropped(const BlockKey& key) {
    const uint64_t number = numbers_.at(key);
    // The model erases this block itself, and may do so before its children.
    if (number == erasing_) return;
    EXPECT_EQ(here_.erase(number), 1) << number;
    for (const auto& [other, length] : here_) {
      EXPECT_NE(ParentOf(other), number) << "dropped before its child " << other;
    }
    absl::StrAppend(&answers_, "x", number);
    ++drops_;
  }

  std::mt19937_64 random_;
  std::map<BlockKey, uint64_t> numbers_;
  std::map<uint64_t, uint64_t> here_;  // Number to length.
  std::optional<uint64_t> erasing_;
  std::string answers_;
  uint64_t drops_ = 0;
  DiskRig rig_;
};

void Model::Step() {
  const uint64_t number = random_() % kNumbers;
  const uint64_t roll = random_() % 100;
  if (roll < 55) {
    const absl::Status put = rig_.Put(number, LengthOf(number), ParentOf(number));
    ASSERT_EQ(put, absl::OkStatus());
    here_[number] = LengthOf(number);
    absl::StrAppend(&answers_, "p", number);
  } else if (roll < 90) {
    const absl::Status got = rig_.Get(number, LengthOf(number));
    if (here_.contains(number)) {
      ASSERT_EQ(got, absl::OkStatus()) << number;
    } else {
      ASSERT_TRUE(absl::IsNotFound(got)) << number << ": " << got;
    }
    absl::StrAppend(&answers_, got.ok() ? "h" : "m", number);
  } else if (roll < 98) {
    erasing_ = number;
    ASSERT_EQ(rig_.Erase(number), absl::OkStatus());
    erasing_.reset();
    here_.erase(number);
    absl::StrAppend(&answers_, "e", number);
  } else {
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    ASSERT_EQ(rig_.recovery.recovered_blocks, here_.size());
    absl::StrAppend(&answers_, "o", here_.size());
  }
}

void Model::CheckAll() {
  rig_.tier->Audit();
  ASSERT_EQ(rig_.tier->block_count(), here_.size());
  for (uint64_t number = 0; number < kNumbers; ++number) {
    const absl::Status got = rig_.Get(number, LengthOf(number));
    ASSERT_EQ(got.ok(), here_.contains(number)) << number << ": " << got;
  }
}

std::string RunModel(DiskForm form, uint64_t seed, int steps,
                     Payloads payloads = Payloads::kClear) {
  Model model(form, seed, payloads);
  const absl::Status opened = model.Open();
  EXPECT_EQ(opened, absl::OkStatus());
  for (int i = 0; opened.ok() && i < steps && !::testing::Test::HasFatalFailure(); ++i) {
    model.Step();
  }
  if (opened.ok()) model.CheckAll();
  EXPECT_GT(model.drops(), 0U);  // The disk was small enough for reclaim.
  return model.answers();
}

TEST(DiskTierModelTest, SimulatedDiskAnswersAsTheMap) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RunModel(DiskForm::kSim, seed, 600);
    if (HasFatalFailure()) return;
  }
}

TEST(DiskTierModelTest, SealedBlocksAnswerAsTheMapAndAsBlocksInTheClear) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EXPECT_EQ(RunModel(DiskForm::kSim, seed, 600, Payloads::kSealed),
              RunModel(DiskForm::kSim, seed, 600));
    if (HasFatalFailure()) return;
  }
}

class DiskFormsTest : public ::testing::TestWithParam<DiskForm> {};

TEST_P(DiskFormsTest, AnswersAsTheMapAndAsTheSimulatedDisk) {
  const std::string directory = FreshDirectory("probe");
  DiskRig probe(GetParam(), {.segments = 2}, directory, [](const BlockKey&) {});
  if (const absl::Status usable = probe.Open(); !usable.ok()) {
    GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << usable;
  }
  for (const uint64_t seed : {101, 102, 103}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EXPECT_EQ(RunModel(GetParam(), seed, 400), RunModel(DiskForm::kSim, seed, 400));
    EXPECT_EQ(RunModel(GetParam(), seed, 400, Payloads::kSealed),
              RunModel(DiskForm::kSim, seed, 400));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Real, DiskFormsTest, ::testing::Values(DiskForm::kUring, DiskForm::kPread),
                         [](const auto& form) { return FormName(form.param); });

// Runs concurrent puts, gets and erases with crashes. Answers depend on timing, so the oracle is
// the law: right bytes, and nothing acknowledged is lost unless its drop was reported.
void RunStorm(uint64_t seed, Payloads payloads, uint64_t* restarts) {
  std::mt19937_64 random(seed);
  std::map<BlockKey, uint64_t> numbers;
  for (uint64_t i = 0; i < kNumbers; ++i) numbers[DiskKey(i)] = i;
  std::map<uint64_t, bool> durable;  // Acknowledged and not dropped since.
  DiskRig rig(DiskForm::kSim,
              {.segments = 5,
               .segment_bytes = uint64_t{1} << 20,
               .seed = seed,
               .secret = SecretFor(payloads)},
              "", [&](const BlockKey& key) { durable.erase(numbers.at(key)); });
  rig.disk_media.faults.spike = 0.05;
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  const auto put = [&](uint64_t number) -> Task<void> {
    PageBuffer slot = testing::DiskPayload(number, LengthOf(number));
    const BlockMeta block = testing::MakeDiskBlock(number, LengthOf(number), ParentOf(number));
    const absl::Status status = co_await rig.tier->Put(block, slot.bytes());
    if (status.ok() && rig.tier->Find(block.key)) durable[number] = true;
  };
  const auto get = [&](uint64_t number) -> Task<void> {
    PageBuffer slot(LengthOf(number));
    const auto got = co_await rig.tier->Get(DiskKey(number), slot.bytes());
    const absl::Status& status = got.status();
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    if (!status.ok()) co_return;
    EXPECT_TRUE(testing::HoldsDiskBlock(number, LengthOf(number), &slot));
  };
  for (int life = 0; life < 6; ++life) {
    auto process = std::make_unique<TaskScope>(rig.sim_executor.get());
    for (int i = 0; i < 300; ++i) {
      const uint64_t number = random() % kNumbers;
      process->Spawn(random() % 3 != 0 ? put(number) : get(number));
      for (uint64_t steps = random() % 8; steps > 0; --steps) rig.sim_time.Step();
    }
    rig.tier->Audit();
    process.reset();  // Simulates a crash.
    ASSERT_EQ(rig.Open(), absl::OkStatus());
    ++*restarts;
    rig.tier->Audit();
    for (const auto& [number, yes] : std::map<uint64_t, bool>(durable)) {
      ASSERT_EQ(rig.Get(number, LengthOf(number)), absl::OkStatus()) << number;
    }
  }
}

TEST(DiskTierModelTest, NothingAcknowledgedIsLostInAStormOfCrashes) {
  uint64_t restarts = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RunStorm(seed, seed % 2 == 0 ? Payloads::kSealed : Payloads::kClear, &restarts);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(restarts, kSeeds * 6U);
}

// With every fault at once, wrong bytes are never served, and a damaged block is a miss.
TEST(DiskTierModelTest, ADamagingDiskNeverServesWrongBytes) {
  uint64_t detected = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const Payloads payloads = seed % 2 == 0 ? Payloads::kSealed : Payloads::kClear;
    DiskRig rig(DiskForm::kSim, {.segments = 5, .seed = seed, .secret = SecretFor(payloads)}, "",
                [](const BlockKey&) {});
    ASSERT_EQ(rig.Open(), absl::OkStatus());
    rig.disk_media.faults.flip = 0.05;
    rig.disk_media.faults.misdirect = 0.05;
    rig.disk_media.faults.lost = 0.05;
    rig.disk_media.faults.read_error = 1.0 / 32;
    rig.disk_media.faults.write_error = 1.0 / 32;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 400; ++i) {
      const uint64_t number = random() % kNumbers;
      if (random() % 2 == 0) {
        // May fail because of faults.
        rig.Put(number, LengthOf(number), ParentOf(number)).IgnoreError();
      } else {
        const absl::Status got = rig.Get(number, LengthOf(number));
        ASSERT_FALSE(absl::IsInternal(got)) << got;
      }
    }
    rig.tier->Audit();
    detected += rig.tier->stats().verify_failures;
  }
  EXPECT_GT(detected, 2 * kSeeds);  // The faults were real.
}

TEST(DiskTierModelTest, OneSeedIsOneHistory) {
  EXPECT_EQ(RunModel(DiskForm::kSim, 5, 500), RunModel(DiskForm::kSim, 5, 500));
}

}  // namespace
}  // namespace kvtier

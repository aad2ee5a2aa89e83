// Runs random operations on a DiskSet whose disks fail, hang, slow down, fill up and recover, and
// compares it with the owner's view.
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

using testing::DiskKey;
using testing::DiskSetRig;

constexpr uint64_t kNumbers = 150;

struct Seen {
  uint64_t quarantines = 0;
  uint64_t hits = 0;
};

void ChangeFaults(DiskSetRig* rig, std::mt19937_64* random) {
  for (const auto& disk : rig->disks) {
    disk->media.faults = {};
    disk->rows.faults = {};
    if (disk->sim != nullptr) disk->sim->Resume();
  }
  testing::DiskSetRig::Disk& disk = *rig->disks[(*random)() % rig->disks.size()];
  switch ((*random)() % 7) {
    case 0:
      disk.media.faults.read_error = disk.media.faults.write_error = 1;
      break;
    case 1:
      disk.media.faults.read_error = 1.0 / 32;
      break;
    case 2:
      disk.media.faults.latency = absl::Milliseconds(300);
      break;
    case 3:
      disk.media.faults.full = 1;
      break;
    case 4:
      disk.sim->Stall();
      break;
    case 5:
      disk.rows.faults.commit_error = 0.5;
      break;
    default:
      break;  // Does nothing.
  }
}

void HealAndCompare(DiskSetRig* rig) {
  for (const auto& disk : rig->disks) {
    disk->media.faults = {};
    disk->rows.faults = {};
    disk->sim->Resume();
  }
  rig->Pass(3 * kMaxProbeInterval);
  rig->set->Audit();
  for (const DiskSet::DiskStatus& status : rig->set->Statuses()) {
    ASSERT_TRUE(status.serving) << status.health;
  }
  ASSERT_EQ(rig->set->stuck().puts + rig->set->stuck().gets, 0U);
  ASSERT_EQ(rig->set->block_count(), rig->known.size());
  for (const BlockKey& key : rig->set->Keys()) ASSERT_TRUE(rig->known.contains(key));
  for (uint64_t number = 0; number < kNumbers; ++number) {
    if (!rig->known.contains(DiskKey(number))) continue;
    ASSERT_EQ(rig->Get(number), absl::OkStatus()) << number;
  }
}

void RunStorm(uint64_t seed, Seen* seen) {
  std::mt19937_64 random(seed);
  DiskSetRig rig({3, 4, 3}, seed);
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  for (int life = 0; life < 2; ++life) {
    for (int i = 0; i < 600; ++i) {
      if (i % 100 == 0) ChangeFaults(&rig, &random);
      const uint64_t number = random() % kNumbers;
      const uint64_t what = random() % 10;
      Task<absl::Status> task = what < 4   ? rig.PutTask(number)
                                : what < 9 ? rig.GetTask(number)
                                           : rig.EraseTask(number);
      const auto timeout = absl::Milliseconds(static_cast<int64_t>(random() % 400));
      const absl::Status status = rig.By(timeout, std::move(task));
      ASSERT_FALSE(absl::IsInternal(status)) << status;
      seen->hits += what >= 4 && what < 9 && status.ok() ? 1 : 0;
      rig.set->Audit();
    }
    HealAndCompare(&rig);
    if (::testing::Test::HasFatalFailure()) return;
    for (const auto& status : rig.set->Statuses()) seen->quarantines += status.quarantines;
    ASSERT_EQ(rig.Open(), absl::OkStatus());  // Simulates a crash at rest.
    rig.Pass(absl::Seconds(1));
    rig.set->Audit();
  }
}

TEST(DiskSetModelTest, DisksComeAndGoAndTheOwnersViewIsRightInTheEnd) {
  const uint64_t first = testing::TestSeed();
  constexpr uint64_t kSeeds = testing::kSanitized ? 3 : 20;
  Seen seen;
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RunStorm(seed, &seen);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(seen.quarantines, kSeeds / 4);  // Usually some two a seed.
  EXPECT_GT(seen.hits, 50 * kSeeds);
}

}  // namespace
}  // namespace kvtier

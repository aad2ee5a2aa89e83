// Tests the argument of docs/design/disk_encryption.md that no nonce is used twice under one key,
// on the real SegmentLog and Recover(): random puts, reclaims, crashes, power cuts that lose the
// manifest's last rows, and lost manifests.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "core/space.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tier_disk/cipher/record_cipher.h"
#include "tier_disk/log/record.h"
#include "tier_disk/log/segment_log.h"
#include "tier_disk/manifest/recovery.h"

namespace kvtier {
namespace {

constexpr uint32_t kSegments = 5;
constexpr uint64_t kSegmentBytes = 16 * kBlockAlignment;

// NonceModel is a disk whose records are only nonces. The manifest is its history, of which a power
// cut loses the end.
class NonceModel {
 public:
  explicit NonceModel(uint64_t seed) : random_(seed) { Open(); }

  void Step() {
    const uint64_t dice = random_.Below(100);
    if (dice < 80) {
      Put();
    } else if (dice < 94) {
      Reclaim();
    } else if (dice < 97) {
      Open();  // kill -9: everything that was committed is there.
    } else if (dice < 99) {
      // A power cut.
      history_.resize(history_.size() - random_.Below(history_.size() / 4 + 1));
      Open();
    } else {
      history_.clear();  // The manifest is lost.
      Open();
    }
  }

  // Return how many nonces were used twice: with `opening` as part of the key, and without it.
  size_t repeats_under_one_key() const { return sealed_ - with_opening_.size(); }
  size_t repeats_without_openings() const { return sealed_ - without_.size(); }
  size_t sealed() const { return sealed_; }

 private:
  void Open() {
    ++opening_;
    const RecoveredDisk disk = Recover(Replay(), kSegments, kSegmentBytes);
    history_.push_back(disk.repair);
    log_.emplace(disk.segments, kSegmentBytes);
  }

  // Returns the present content of the manifest. Erases name keys; each key is put once.
  ManifestImage Replay() const {
    ManifestImage image;
    std::set<BlockKey> erased;
    for (const ManifestBatch& batch : history_) {
      erased.insert(batch.erases.begin(), batch.erases.end());
      for (const auto& generation : batch.generations) image.generations.push_back(generation);
    }
    for (const ManifestBatch& batch : history_) {
      for (const DiskEntry& entry : batch.puts) {
        if (!erased.contains(entry.block.key)) image.entries.push_back(entry);
      }
    }
    return image;
  }

  void Put() {
    const uint64_t length = (1 + random_.Below(4)) * kBlockAlignment;
    const auto place = log_->Reserve(RecordBytes(length), SegmentLog::Use::kPut);
    if (!place) return Reclaim();
    const auto nonce = RecordNonce(*place);
    ASSERT_TRUE(nonce.has_value());
    ++sealed_;
    with_opening_.emplace(opening_, *nonce);
    without_.insert(*nonce);
    log_->EndWrite(*place);
    if (random_.Below(10) == 0) return;  // The write failed, or the process died before the row.
    ManifestBatch batch;
    batch.puts.push_back(
        {.block = {.key = testing::NumberedKey(++last_key_), .length = length}, .place = *place});
    history_.push_back(std::move(batch));
  }

  void Reclaim() {
    const std::vector<SegmentId> sealed = log_->Reclaimable();
    if (sealed.empty()) return;
    const SegmentId victim = sealed.front();
    log_->BeginReclaim(victim);
    const uint64_t generation = log_->NextGeneration();
    if (random_.Below(10) == 0) return log_->PutBack(victim);  // The batch was not stored.
    ManifestBatch batch;
    for (const DiskEntry& entry : Replay().entries) {
      if (entry.place.segment == victim) batch.erases.push_back(entry.block.key);
    }
    batch.generations.push_back({.segment = victim, .generation = generation});
    history_.push_back(std::move(batch));
    log_->Free(victim, generation);
  }

  testing::SimRandom random_;
  std::vector<ManifestBatch> history_;
  std::optional<SegmentLog> log_;
  uint64_t opening_ = 0;  // Stands for 128 random bits.
  uint64_t last_key_ = 0;
  size_t sealed_ = 0;
  std::set<std::pair<uint64_t, GcmNonce>> with_opening_;
  std::set<GcmNonce> without_;
};

TEST(NonceModelTest, NoNonceComesTwiceUnderOneKey) {
  NonceModel model(testing::TestSeed());
  for (int step = 0; step < 5000; ++step) model.Step();
  EXPECT_GT(model.sealed(), 1000);
  EXPECT_EQ(model.repeats_under_one_key(), 0);
}

// Shows that the model finds repeated nonces, and that the opening is needed: the generations that
// the disk remembers are not enough.
TEST(NonceModelTest, WithoutOpeningsAPowerCutRepeatsNonces) {
  NonceModel model(testing::TestSeed());
  for (int step = 0; step < 5000; ++step) model.Step();
  std::printf("%zu sealed, %zu nonces twice without openings\n", model.sealed(),
              model.repeats_without_openings());
  EXPECT_GT(model.repeats_without_openings(), 0);
}

}  // namespace
}  // namespace kvtier

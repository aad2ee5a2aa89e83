#include "tier_host/slot_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlab = 16 * kPage;

// Size of a slot in pages, and the number of such slots in a slab of 16 pages. The boundary cases
// are one page, sizes that leave a rest, just over half, and the whole slab.
constexpr std::array<std::pair<uint64_t, uint64_t>, 7> kSlotsOfSlab = {
    {{1, 16}, {2, 8}, {3, 5}, {8, 2}, {9, 1}, {15, 1}, {16, 1}}};

TEST(SlotPoolTest, ASlabHoldsAsManySlotsAsFit) {
  for (const auto& [pages, slots] : kSlotsOfSlab) {
    SlotPool pool(kSlab, kSlab);
    for (uint64_t i = 0; i < slots; ++i) {
      EXPECT_TRUE(pool.Allocate(pages * kPage).ok()) << pages << " pages, slot " << i;
    }
    const auto more = pool.Allocate(pages * kPage);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted) << pages << " pages";
    EXPECT_EQ(pool.used_bytes(), slots * pages * kPage);
    pool.Audit();
  }
}

TEST(SlotPoolTest, ASlotLargerThanASlabIsInvalid) {
  SlotPool pool(2 * kSlab, kSlab);
  EXPECT_EQ(pool.Allocate(kSlab + kPage).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SlotPoolTest, APoolOfNoSlabsIsAlwaysExhausted) {
  SlotPool pool(0, kSlab);
  EXPECT_EQ(pool.Allocate(kPage).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SlotPoolTest, AFreedSlotIsTheNextOneTaken) {
  SlotPool pool(2 * kSlab, kSlab);
  ASSERT_TRUE(pool.Allocate(kPage).ok());
  const SlotOffset warm = *pool.Allocate(kPage);
  ASSERT_TRUE(pool.Allocate(kPage).ok());
  pool.Free(warm);
  EXPECT_EQ(*pool.Allocate(kPage), warm);
}

TEST(SlotPoolTest, ASlabThatEmptiesServesAnotherSize) {
  SlotPool pool(kSlab, kSlab);
  const SlotOffset first = *pool.Allocate(kPage);
  const SlotOffset second = *pool.Allocate(kPage);
  EXPECT_FALSE(pool.Allocate(kSlab).ok());
  pool.Free(first);
  EXPECT_FALSE(pool.Allocate(kSlab).ok()) << "one slot of the other size is still used";
  pool.Free(second);
  EXPECT_TRUE(pool.Allocate(kSlab).ok());
  pool.Audit();
}

TEST(SlotPoolTest, SaysHowEachSlabIsUsed) {
  SlotPool pool(2 * kSlab, kSlab);
  ASSERT_EQ(pool.slab_count(), 2u);
  const SlotOffset slot = *pool.Allocate(3 * kPage);
  ASSERT_TRUE(pool.Allocate(3 * kPage).ok());
  EXPECT_EQ(pool.SlabOf(slot), 0u);
  EXPECT_EQ(pool.UseOf(0).slot_bytes, 3 * kPage);
  EXPECT_EQ(pool.UseOf(0).used, 2u);
  EXPECT_EQ(pool.UseOf(1).slot_bytes, 0u);
  EXPECT_EQ(pool.SlabOf(SlotOffset{kSlab}), 1u);
}

TEST(SlotPoolTest, OneSizeNeverTakesASlotInsideAnothersSlab) {
  SlotPool pool(2 * kSlab, kSlab);
  const SlotOffset small = *pool.Allocate(kPage);
  const SlotOffset large = *pool.Allocate(2 * kPage);
  EXPECT_NE(small.value / kSlab, large.value / kSlab);
}

TEST(SlotPoolTest, APoolOfAbsentSlabsHandsOutSlotsOfThoseThatWereAdded) {
  SlotPool pool(3 * kSlab, kSlab, SlotPool::Slabs::kAbsent);
  EXPECT_EQ(pool.Allocate(kPage).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.capacity_bytes(), 0u);
  EXPECT_EQ(*pool.absent_slabs().begin(), 0u);
  pool.Add(1);
  EXPECT_EQ(pool.capacity_bytes(), kSlab);
  EXPECT_EQ(pool.free_slab_bytes(), kSlab);
  EXPECT_EQ(pool.SlabOf(*pool.Allocate(kPage)), 1u);
  EXPECT_EQ(*pool.absent_slabs().begin(), 0u);
  EXPECT_TRUE(pool.IsPresent(1));
  EXPECT_FALSE(pool.IsPresent(2));
  EXPECT_EQ(pool.slab_count(), 3u);
  pool.Audit();
}

TEST(SlotPoolTest, AClosedSlabHandsOutNothingAndGoesWhenItsSlotsAreFree) {
  SlotPool pool(2 * kSlab, kSlab);
  const SlotOffset kept = *pool.Allocate(kPage);
  pool.Close(0);
  EXPECT_EQ(pool.SlabOf(*pool.Allocate(kPage)), 1u);
  pool.Free(kept);
  EXPECT_EQ(pool.SlabOf(*pool.Allocate(kPage)), 1u) << "the freed slot is of a closed slab";
  EXPECT_FALSE(pool.Allocate(kSlab).ok()) << "so is the whole slab";
  pool.Audit();
  pool.Remove(0);
  EXPECT_EQ(pool.capacity_bytes(), kSlab);
  pool.Audit();
  pool.Add(0);
  EXPECT_TRUE(pool.Allocate(kSlab).ok());
}

TEST(SlotPoolTest, AReopenedSlabIsAsItWas) {
  SlotPool pool(kSlab, kSlab);
  const SlotOffset kept = *pool.Allocate(kPage);
  pool.Close(0);
  pool.Reopen(0);
  EXPECT_TRUE(pool.Allocate(kPage).ok());
  pool.Close(0);
  pool.Free(kept);
  pool.Free(SlotOffset{kPage});
  pool.Reopen(0);
  EXPECT_EQ(pool.LastFree(), 0u);
  EXPECT_TRUE(pool.Allocate(kSlab).ok());
  pool.Audit();
}

TEST(SlotPoolDeathTest, RemovingASlabWithSlotsOrOneThatIsOpenAborts) {
  SlotPool pool(2 * kSlab, kSlab);
  ASSERT_TRUE(pool.Allocate(kPage).ok());
  EXPECT_DEATH(pool.Remove(1), "CHECK failed") << "it is not closed";
  pool.Close(0);
  EXPECT_DEATH(pool.Remove(0), "CHECK failed") << "a slot of it is used";
  EXPECT_DEATH(pool.Close(0), "CHECK failed");
  EXPECT_DEATH(pool.Add(1), "CHECK failed") << "it is there";
}

TEST(SlotPoolDeathTest, FreeingTwiceAborts) {
  SlotPool pool(kSlab, kSlab);
  const SlotOffset kept = *pool.Allocate(kPage);
  const SlotOffset freed = *pool.Allocate(kPage);
  pool.Free(freed);
  EXPECT_DEATH(pool.Free(freed), "CHECK failed");
  pool.Free(kept);
  EXPECT_DEATH(pool.Free(kept), "CHECK failed") << "the slab itself is free by now";
}

TEST(SlotPoolDeathTest, FreeingWhatWasNeverHandedOutAborts) {
  SlotPool pool(kSlab, kSlab);
  const SlotOffset slot = *pool.Allocate(3 * kPage);
  EXPECT_DEATH(pool.Free(SlotOffset{slot.value + kPage}), "CHECK failed");
  EXPECT_DEATH(pool.Free(SlotOffset{15 * kPage}), "CHECK failed") << "the rest of the slab";
  EXPECT_DEATH(pool.Free(SlotOffset{kSlab}), "CHECK failed") << "past the pool";
}

TEST(SlotPoolDeathTest, ASizeThatIsNoWholePageAborts) {
  SlotPool pool(kSlab, kSlab);
  EXPECT_DEATH((void)pool.Allocate(0), "CHECK failed");
  EXPECT_DEATH((void)pool.Allocate(kPage + 1), "CHECK failed");
}

// Model is the reference: it knows which bytes are used, and the size of each slab's slots. A pool
// may refuse exactly when the reference has no room either.
class Model {
 public:
  explicit Model(uint64_t slabs) : slab_size_(slabs, 0), slab_used_(slabs, 0), closed_(slabs) {}

  bool HasRoom(uint64_t bytes) const {
    for (size_t i = 0; i < slab_size_.size(); ++i) {
      if (closed_[i]) continue;
      if (slab_used_[i] == 0) return true;
      if (slab_size_[i] == bytes && slab_used_[i] < kSlab / bytes) return true;
    }
    return false;
  }
  void Add(SlotOffset offset, uint64_t bytes) {
    const auto next = used_.lower_bound(offset.value);
    ASSERT_TRUE(next == used_.end() || offset.value + bytes <= next->first) << "overlaps";
    if (next != used_.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second, offset.value) << "overlaps";
    }
    const size_t slab = offset.value / kSlab;
    ASSERT_EQ((offset.value + bytes - 1) / kSlab, slab) << "crosses a slab";
    ASSERT_TRUE(slab_used_[slab] == 0 || slab_size_[slab] == bytes) << "mixes sizes";
    used_[offset.value] = bytes;
    slab_size_[slab] = bytes;
    ++slab_used_[slab];
    used_bytes_ += bytes;
  }
  SlotOffset TakeOne(uint64_t pick) {
    const auto it = std::next(used_.begin(), static_cast<ptrdiff_t>(pick % used_.size()));
    const SlotOffset offset{it->first};
    --slab_used_[offset.value / kSlab];
    used_bytes_ -= it->second;
    used_.erase(it);
    return offset;
  }
  bool empty() const { return used_.empty(); }
  uint64_t used_bytes() const { return used_bytes_; }
  // Closes an open slab, or opens one; returns whether it is closed now.
  bool Switch(uint32_t slab) { return closed_[slab] = !closed_[slab]; }
  bool IsEmpty(uint32_t slab) const { return slab_used_[slab] == 0; }

 private:
  std::map<uint64_t, uint64_t> used_;  // Length by offset.
  std::vector<uint64_t> slab_size_;
  std::vector<uint64_t> slab_used_;
  std::vector<bool> closed_;  // Closed or absent slabs.
  uint64_t used_bytes_ = 0;
};

// Closes the slab, and removes it if nothing is in it; or makes it hand out slots again.
void MoveSlab(uint32_t slab, SlotPool* pool, Model* model) {
  if (model->Switch(slab)) {
    pool->Close(slab);
    if (model->IsEmpty(slab)) pool->Remove(slab);
  } else if (pool->IsPresent(slab)) {
    pool->Reopen(slab);
  } else {
    pool->Add(slab);
  }
}

TEST(SlotPoolModelTest, MatchesTheReferenceUnderRandomMixedSizes) {
  std::mt19937_64 random(testing::TestSeed());
  constexpr uint64_t kSlabs = 12;
  SlotPool pool(kSlabs * kSlab, kSlab);
  Model model(kSlabs);
  for (int step = 0; step < 50'000; ++step) {
    // Drifts between filling up and draining, so that slabs change size often.
    const bool filling = (step / 500) % 2 == 0;
    if (model.empty() || random() % 100 < (filling ? 60 : 40)) {
      const uint64_t bytes = kSlotsOfSlab[random() % kSlotsOfSlab.size()].first * kPage;
      const bool room = model.HasRoom(bytes);
      const auto slot = pool.Allocate(bytes);
      ASSERT_EQ(slot.ok(), room) << slot.status();
      if (slot.ok()) model.Add(*slot, bytes);
    } else {
      pool.Free(model.TakeOne(random()));
    }
    if (step % 50 == 0) MoveSlab(static_cast<uint32_t>(random() % kSlabs), &pool, &model);
    if (HasFatalFailure()) return;
    ASSERT_EQ(pool.used_bytes(), model.used_bytes());
    if (step % 100 == 0) pool.Audit();
  }
  while (!model.empty()) pool.Free(model.TakeOne(0));
  pool.Audit();
  if (!pool.IsPresent(0)) pool.Add(0);
  if (pool.IsClosed(0)) pool.Reopen(0);
  EXPECT_TRUE(pool.Allocate(kSlab).ok());
}

}  // namespace
}  // namespace kvtier

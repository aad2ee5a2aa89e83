// Tests blocks of 4 KiB to 64 MiB side by side in a few slabs of real memory: which are kept, and
// how much memory is lost to their sizes.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "core/block_lengths.h"
#include "tests/testing/blocks.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/still_clock.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSlab = 64 * kMiB;
constexpr DomainId kDomain{0};

// A domain of some slabs of 64 MiB.
class HostSizesTest : public ::testing::Test {
 protected:
  explicit HostSizesTest(uint64_t slabs = 4)
      : host_(*HostTier::Create(
            {.domains = {{.name = "test", .bytes = slabs * kSlab}}, .slab_bytes = kSlab})) {}

  // Puts a block with bytes of its own at both ends; false: there is no room.
  bool Put(uint64_t number, uint64_t length) {
    absl::StatusOr<HostSlot> slot = evictor_.ReserveHost(kDomain, length);
    if (!slot.ok()) return false;
    slot->bytes().front() = std::byte(number);
    slot->bytes()[length - 1] = std::byte(number >> 8);
    index_.PublishHost({.key = NumberedKey(number), .length = length}, *std::move(slot),
                       Arrival::kComputed, ReuseHint(), index_.Now());
    return true;
  }
  bool Holds(uint64_t number) const {
    const HostBlock* const block = index_.Find(NumberedKey(number));
    return block != nullptr && block->slot.bytes().front() == std::byte(number) &&
           block->slot.bytes()[block->meta.length - 1] == std::byte(number >> 8);
  }

  std::unique_ptr<HostTier> host_;
  BlockChanges changes_;
  testing::StillClock clock_;
  BlockIndex index_{
      {.host_eviction = EvictionPolicy::kLru, .clock = &clock_, .changes = &changes_}};
  TierStats stats_;
  Evictor evictor_{&index_, host_.get(), &stats_};
};

TEST_F(HostSizesTest, BlocksOf4KiBTo64MiBLieSideBySide) {
  ASSERT_TRUE(Put(1, 64 * kMiB));
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(Put(100 + i, 20 * kMiB));
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(Put(200 + i, 4 * kKiB));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(Put(400 + i, kMiB - 1));
  EXPECT_EQ(stats_.evictions, 0u) << "each size has room in a slab of its own";
  EXPECT_TRUE(Holds(1));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(Holds(100 + i));
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(Holds(200 + i));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(Holds(400 + i));

  const HostTier::Cut cut = host_->cut();
  EXPECT_EQ(index_.padding_bytes(), 10u) << "a byte in each slot of 1 MiB";
  EXPECT_EQ(cut.free_slab_bytes, 0u);
  EXPECT_EQ(cut.split_bytes, 4 * kMiB + (kSlab - 100 * 4 * kKiB) + (kSlab - 10 * kMiB));
  ASSERT_EQ(cut.sizes.size(), 4u);
  EXPECT_EQ(cut.sizes.at(4 * kKiB).free, kSlab / (4 * kKiB) - 100);
  EXPECT_EQ(cut.sizes.at(kMiB).used, 10u);
  EXPECT_EQ(cut.sizes.at(20 * kMiB).slabs, 1u);
  EXPECT_EQ(cut.sizes.at(20 * kMiB).free, 0u);
  EXPECT_EQ(cut.sizes.at(64 * kMiB).used, 1u);
  // Every byte is in use, split off, or free.
  EXPECT_EQ(host_->used_bytes() + cut.split_bytes + cut.free_slab_bytes, host_->capacity_bytes());
  index_.Audit();
}

TEST_F(HostSizesTest, ALargeBlockTakesOneSlabAndTheRestIsKept) {
  for (uint64_t i = 0; i < 3 * kSlab / (8 * kMiB); ++i) ASSERT_TRUE(Put(100 + i, 8 * kMiB));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(Put(1000 + i, 4 * kKiB));
  ASSERT_TRUE(Put(1, 64 * kMiB));
  EXPECT_LE(stats_.evictions, 8u) << "the blocks of one slab at most";
  size_t kept = 0;
  for (uint64_t i = 0; i < 24; ++i) kept += Holds(100 + i) ? 1 : 0;
  for (uint64_t i = 0; i < 4; ++i) kept += Holds(1000 + i) ? 1 : 0;
  EXPECT_EQ(kept, 28 - stats_.evictions);
  EXPECT_TRUE(Holds(1));
  index_.Audit();
}

TEST_F(HostSizesTest, NothingIsLostToSizesOnceBlocksAreGone) {
  ASSERT_TRUE(Put(1, 64 * kMiB));
  ASSERT_TRUE(Put(2, 5 * kKiB));
  EXPECT_EQ(index_.padding_bytes(), 3 * kKiB);
  EXPECT_EQ(host_->cut().free_slab_bytes, 2 * kSlab);
  evictor_.EvictSome(DomainId{}, UINT64_MAX);
  const HostTier::Cut cut = host_->cut();
  EXPECT_EQ(index_.padding_bytes(), 0u);
  EXPECT_EQ(cut.split_bytes, 0u);
  EXPECT_TRUE(cut.sizes.empty());
  EXPECT_EQ(cut.free_slab_bytes, host_->capacity_bytes());
}

}  // namespace
}  // namespace kvtier

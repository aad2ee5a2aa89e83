// Tests Evictor and HostOrder: which blocks make room in host memory, and how many.
#include "agent/index/evict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "agent/index/block_index.h"
#include "agent/index/host_order.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/still_clock.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;
using testing::SimRandom;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kSmall = 64 * kKiB;
constexpr uint64_t kLarge = 128 * kKiB;
constexpr uint64_t kInSlab = 16;  // Small blocks.
constexpr uint64_t kSlab = kInSlab * kSmall;
constexpr DomainId kDomain{0};

// Rig is one domain of `slabs` slabs.
struct Rig {
  explicit Rig(uint64_t slabs)
      : host(*HostTier::Create(
            {.domains = {{.name = "test", .bytes = slabs * kSlab}}, .slab_bytes = kSlab})) {}
  // Publishes the block as a commit does; false: there is no room.
  bool Put(uint64_t number, uint64_t bytes, uint64_t parent = 0) {
    absl::StatusOr<HostSlot> slot = evictor.ReserveHost(kDomain, bytes);
    if (!slot.ok()) return false;
    BlockMeta meta{.key = NumberedKey(number), .length = bytes};
    if (parent != 0) meta.parent = NumberedKey(parent);
    index.PublishHost(meta, *std::move(slot), Arrival::kComputed, ReuseHint(), index.Now());
    return true;
  }
  // Ignores a block that has left.
  void Use(uint64_t number) {
    const std::optional<Pin> pin = index.PinOf(NumberedKey(number));
    if (pin) index.Touch(std::array{&*pin}, ReuseHint());
  }
  bool Has(uint64_t number) const { return index.In(Tier::kHost, NumberedKey(number)); }
  // Counts the blocks from `first` to `last` that are still there.
  size_t Count(uint64_t first, uint64_t last) const {
    size_t count = 0;
    for (uint64_t number = first; number <= last; ++number) count += Has(number) ? 1 : 0;
    return count;
  }
  void Audit() const {
    index.Audit();
    host->Audit();
  }

  std::unique_ptr<HostTier> host;
  BlockChanges changes;
  testing::StillClock clock;
  BlockIndex index{{.host_eviction = EvictionPolicy::kLru, .clock = &clock, .changes = &changes}};
  TierStats stats;
  Evictor evictor{&index, host.get(), &stats};
};

TEST(EvictTest, AFullTierMakesRoomByTheColdestOfTheSameSize) {
  Rig rig(4);
  for (uint64_t i = 1; i <= 16; ++i) ASSERT_TRUE(rig.Put(i, kLarge));
  for (uint64_t i = 101; i <= 132; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kSmall).ok());
  EXPECT_EQ(rig.stats.evictions, 1u);
  EXPECT_FALSE(rig.Has(101)) << "though all of the other size are colder";
}

// Regression: the globally coldest blocks were evicted, one by one, until some slab happened to be
// empty: one block of 128 KiB among 4,096 of 64 KiB evicted 3,801 of them.
TEST(EvictTest, OneBlockOfANewSizeEvictsTheBlocksOfOneSlab) {
  constexpr uint64_t kBlocks = 4096;
  Rig rig(kBlocks / 16);
  SimRandom random(testing::TestSeed());
  for (uint64_t i = 1; i <= kBlocks; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  for (uint64_t i = 0; i < 4 * kBlocks; ++i) rig.Use(1 + random.Below(kBlocks));
  ASSERT_TRUE(rig.Put(10'000, kLarge));
  EXPECT_EQ(rig.stats.evictions, 16u);
  for (uint64_t i = 10'001; i < 10'008; ++i) ASSERT_TRUE(rig.Put(i, kLarge));
  EXPECT_EQ(rig.stats.evictions, 16u) << "the slab has room for seven more";
  rig.Audit();
}

// Once, all blocks without a lease were evicted, and the answer was still that there is no room.
TEST(EvictTest, WithALeaseInEachSlabNothingIsEvictedAndTheAnswerIsNoRoom) {
  Rig rig(13);
  std::vector<Pin> pins;
  for (uint64_t i = 1; i <= 13 * kInSlab; ++i) {
    ASSERT_TRUE(rig.Put(i, kSmall));
    if (i % kInSlab == 5) pins.push_back(*rig.index.PinOf(NumberedKey(i)));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(rig.evictor.ReserveHost(kDomain, kLarge).status()));
  EXPECT_EQ(rig.stats.evictions, 0u);
  EXPECT_EQ(rig.stats.declined, 1u);
  pins[7].Release();
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kLarge).ok());
  EXPECT_EQ(rig.Count(7 * kInSlab + 1, 8 * kInSlab), 0u) << "the only slab that could be emptied";
  EXPECT_EQ(rig.stats.evictions, 16u);
  rig.Audit();
}

// The index cannot drop a reserved slot that holds no block yet.
TEST(EvictTest, ASlabWithAReservedSlotIsNotEmptied) {
  Rig rig(2);
  const HostSlot reserved = *rig.evictor.ReserveHost(kDomain, kSmall);
  for (uint64_t i = 1; i <= 31; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  ASSERT_EQ(reserved.slab(), 0u);
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kLarge).ok());
  EXPECT_EQ(rig.Count(1, 15), 15u) << "colder, beside the reserved slot";
  EXPECT_EQ(rig.Count(16, 31), 0u);
}

TEST(EvictTest, TheSlabWhoseBlocksWentUnusedForLongestIsEmptied) {
  Rig rig(4);
  for (uint64_t i = 1; i <= 64; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  for (const uint64_t slab : {0, 1, 3}) {
    for (uint64_t i = 1; i <= kInSlab; ++i) rig.Use(slab * kInSlab + i);
  }
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kLarge).ok());
  EXPECT_EQ(rig.Count(33, 48), 0u);
  EXPECT_EQ(rig.stats.evictions, 16u);
}

TEST(EvictTest, OfSlabsUsedAlikeTheOneWithFewerBytesIsEmptied) {
  Rig rig(2);
  for (uint64_t i = 1; i <= 32; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  for (uint64_t i = 17; i <= 28; ++i)
    const HostSlot freed = rig.index.UnpublishHost(NumberedKey(i));
  for (uint64_t i = 0; i < 400; ++i) rig.Use(1 + i * 7 % 32);
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kLarge).ok());
  EXPECT_EQ(rig.stats.evictions, 4u);
  EXPECT_EQ(rig.Count(1, 16), 16u);
}

// Regression: blocks of a size that had one slab evicted each other for ever, while slabs of
// another size went cold.
TEST(EvictTest, ASizeThatIsStarvedTakesASlabThatIsColder) {
  Rig rig(4);
  for (uint64_t i = 1; i <= 48; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  for (uint64_t i = 101; i <= 108; ++i) ASSERT_TRUE(rig.Put(i, kLarge));
  // Nobody asks for the small blocks any more. Before each slab of small blocks leaves, a slab's
  // worth of the large ones does.
  for (uint64_t i = 109; i <= 160; ++i) ASSERT_TRUE(rig.Put(i, kLarge));
  EXPECT_EQ(rig.Count(1, 48), 0u);
  EXPECT_EQ(rig.Count(101, 160), 32u);
  rig.Audit();
}

TEST(EvictTest, ASizeWhoseBlocksAreColderTakesNoSlabOfAnother) {
  Rig rig(4);
  for (uint64_t i = 1; i <= 48; ++i) ASSERT_TRUE(rig.Put(i, kSmall));
  for (uint64_t i = 101; i <= 200; ++i) {
    ASSERT_TRUE(rig.Put(i, kLarge));
    for (uint64_t small = 1; small <= 48; ++small) rig.Use(small);
  }
  EXPECT_EQ(rig.Count(1, 48), 48u);
  EXPECT_EQ(rig.Count(193, 200), 8u);
}

// The head of a prefix may leave with its slab. Its children are of no use until a disk brings the
// head back, but they stay.
TEST(EvictTest, ChildrenOfBlocksThatLeftWithTheirSlabStay) {
  Rig rig(2);
  for (uint64_t i = 1; i <= 32; ++i) ASSERT_TRUE(rig.Put(i, kSmall, i - 1));
  ASSERT_TRUE(rig.evictor.ReserveHost(kDomain, kLarge).ok());
  EXPECT_EQ(rig.Count(1, 16), 0u);
  EXPECT_EQ(rig.Count(17, 32), 16u);
  rig.Audit();
}

TEST(EvictTest, WhenEverythingIsPinnedTheAnswerIsResourceExhausted) {
  Rig rig(2);
  std::vector<Pin> pins;
  for (uint64_t i = 1; i <= 32; ++i) {
    ASSERT_TRUE(rig.Put(i, kSmall));
    pins.push_back(*rig.index.PinOf(NumberedKey(i)));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(rig.evictor.ReserveHost(kDomain, kSmall).status()));
  EXPECT_EQ(rig.stats.declined, 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(rig.evictor.ReserveHost(kDomain, kSlab + 1).status()));
}

// Runs random puts, uses and pins of three sizes. A reserve drops one block of its size, or the
// blocks of one slab, or nothing if it answers that there is no room. There is room whenever some
// block of the size, or some slab, may leave.
TEST(EvictTest, AReserveDropsTheBlocksOfOneSlabAtMostWhateverHappened) {
  SimRandom random(testing::TestSeed());
  constexpr uint64_t kSizes[] = {kSmall, kLarge, 3 * kSmall};
  Rig rig(6);
  std::vector<Pin> pins;
  uint64_t next = 1;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t kind = random.Below(10);
    if (kind < 2 && next > 1) {
      auto pin = rig.index.PinOf(NumberedKey(1 + random.Below(next - 1)));
      if (pin.has_value()) pins.push_back(*std::move(pin));
    } else if (kind < 4 && !pins.empty()) {
      std::swap(pins[random.Below(pins.size())], pins.back());
      pins.pop_back();
    } else if (kind < 6 && next > 1) {
      rig.Use(1 + random.Below(next - 1));
    } else {
      std::map<uint64_t, std::pair<uint32_t, uint64_t>> before;  // Slab and size by number.
      for (uint64_t number = 1; number < next; ++number) {
        const HostBlock* const entry = rig.index.Find(NumberedKey(number));
        if (entry != nullptr) before[number] = {entry->slot.slab(), entry->meta.length};
      }
      const uint64_t bytes = kSizes[random.Below(3)];
      const bool child = next > 1 && rig.Has(next - 1) &&
                         rig.index.Find(NumberedKey(next - 1))->meta.length == bytes &&
                         random.Draw(0.7);
      const bool put = rig.Put(next, bytes, child ? next - 1 : 0);
      std::set<uint32_t> slabs;
      size_t of_its_size = 0;
      size_t dropped = 0;
      for (const auto& [number, was] : before) {
        if (rig.Has(number)) continue;
        ++dropped;
        slabs.insert(was.first);
        of_its_size += was.second == bytes ? 1 : 0;
      }
      if (put) ++next;
      ASSERT_TRUE(put || dropped == 0) << "step " << step;
      ASSERT_LE(slabs.size(), 1u) << "step " << step;
      ASSERT_TRUE(of_its_size == 0 || dropped == 1) << "step " << step;
    }
    if (step % 500 == 0) rig.Audit();
    if (next > 400) {  // Starts the numbers again, so that `before` stays small.
      pins.clear();
      rig.evictor.EvictSome(kDomain, UINT64_MAX);
      next = 1;
    }
  }
}

}  // namespace
}  // namespace kvtier

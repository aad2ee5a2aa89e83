// Tests ColdEnd: contracts, and random operations held against the order of the Evictor.
#include "agent/index/cold_end.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/still_clock.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;
using testing::SimRandom;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSlab = 8 * kPage;
constexpr DomainId kDomain{0};

class ColdEndTest : public ::testing::Test {
 protected:
  struct Leaving final : BlockFollower {
    void OnChange(const BlockChange& change) override { was_aside = change.was_aside; }
    bool was_aside = false;
  };
  ColdEndTest() { changes_.Follow(&leaving_); }
  ~ColdEndTest() override { index_.Audit(); }
  // Returns false if there is no slot for the block.
  bool Put(uint64_t number, std::optional<uint64_t> parent = {}, uint64_t length = kPage) {
    absl::StatusOr<HostSlot> slot = host_->Reserve(kDomain, ExactRoom(length));
    if (!slot.ok()) return false;
    BlockMeta meta{.key = NumberedKey(number), .length = length};
    numbers_[meta.key] = number;
    if (parent) meta.parent = NumberedKey(*parent);
    index_.PublishHost(meta, *std::move(slot), Arrival::kComputed, ReuseHint(), index_.Now());
    return true;
  }
  void Use(uint64_t number) {
    const Pin pin = *index_.PinOf(NumberedKey(number));
    index_.Touch(std::array{&pin}, ReuseHint());
  }
  // Evicts the block; returns whether ColdEnd had not offered it since its last use.
  bool Evict(const BlockKey& key) {
    const HostSlot freed = index_.UnpublishHost(key);
    return !leaving_.was_aside;
  }
  std::vector<uint64_t> TakeAll() {
    std::vector<uint64_t> taken;
    while (const std::optional<BlockKey> key = cold_.TakeNext()) taken.push_back(numbers_.at(*key));
    return taken;
  }
  std::map<BlockKey, uint64_t> numbers_;  // Numbers of the blocks.
  // 32 slabs.
  std::unique_ptr<HostTier> host_ =
      *HostTier::Create({.domains = {{.name = "test", .bytes = 32 * kSlab}}, .slab_bytes = kSlab});
  BlockChanges changes_;
  Leaving leaving_;
  testing::StillClock clock_;
  BlockIndex index_{{.clock = &clock_, .changes = &changes_}};
  ColdEnd cold_{&index_, host_.get()};
};

constexpr uint64_t kAll = 256;  // Slots of the tier.
using Numbers = std::vector<uint64_t>;

TEST_F(ColdEndTest, NothingIsOfferedWhileSlabsAreFree) {
  for (uint64_t i = 0; i < kAll - 16; ++i) ASSERT_TRUE(Put(i));
  EXPECT_EQ(TakeAll(), Numbers()) << "two of 32 slabs are the sixteenth part";
  for (uint64_t i = kAll - 16; i < kAll; ++i) ASSERT_TRUE(Put(i));
  const Numbers first = TakeAll();
  ASSERT_EQ(first.size(), kAll / kReadyDivisor);
  for (uint64_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], i) << "the coldest first";
}

TEST_F(ColdEndTest, AChildIsOfferedBeforeItsParent) {
  for (uint64_t i = 0; i < kAll; ++i)
    ASSERT_TRUE(Put(i, i == 0 ? std::nullopt : std::optional(i - 1)));
  const Numbers first = TakeAll();
  ASSERT_EQ(first.size(), kAll / kReadyDivisor);
  for (uint64_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], kAll - 1 - i);
}

TEST_F(ColdEndTest, WhatIsUsedAgainIsOfferedAgainBeforeItLeaves) {
  for (uint64_t i = 0; i < kAll; ++i) ASSERT_TRUE(Put(i));
  ASSERT_EQ(TakeAll().front(), 0u);
  Use(0);
  EXPECT_EQ(TakeAll(), Numbers{kAll / kReadyDivisor}) << "another in its place; it is warm now";
  EXPECT_TRUE(Evict(NumberedKey(0))) << "it was not offered since";
  EXPECT_FALSE(Evict(NumberedKey(1)));
}

TEST_F(ColdEndTest, EachSlotSizeHasItsOwnColdEnd) {
  for (uint64_t i = 0; i < kAll / 2; ++i) ASSERT_TRUE(Put(i));
  uint64_t big = 1000;
  while (Put(big, std::nullopt, 2 * kPage)) ++big;
  const Numbers taken = TakeAll();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 0u), 1);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1000u), 1);
}

TEST_F(ColdEndTest, AChainThatIsACycleIsOfferedWhole) {
  ASSERT_TRUE(Put(0, 2));
  ASSERT_TRUE(Put(1, 0));
  ASSERT_TRUE(Put(2, 1));
  for (uint64_t i = 3; i < kAll; ++i) ASSERT_TRUE(Put(i));
  const Numbers taken = TakeAll();
  for (const uint64_t number : {0, 1, 2}) {
    EXPECT_EQ(std::count(taken.begin(), taken.end(), number), 1);
    Use(number);
  }
  TakeAll();
}

TEST_F(ColdEndTest, AParentThatGetsAChildWaitsBehindItAndIsOfferedOnce) {
  // The first block of a size is offered at once: no other block could make room for that size.
  for (uint64_t i = 1; i <= kAll - 8; ++i) ASSERT_TRUE(Put(i));
  ASSERT_TRUE(Put(1000, std::nullopt, 2 * kPage));
  const Numbers first = TakeAll();
  ASSERT_EQ(std::count(first.begin(), first.end(), 1000u), 1);
  ASSERT_TRUE(Put(1001, 1000, 2 * kPage));
  EXPECT_EQ(TakeAll(), Numbers{1001}) << "it leaves before its parent";
  EXPECT_FALSE(Evict(NumberedKey(1001)));
  EXPECT_EQ(TakeAll(), Numbers());
  EXPECT_FALSE(Evict(NumberedKey(1000)));
}

// If no slab is free, every block that the Evictor takes next was offered since its last use.
TEST_F(ColdEndTest, TheNextVictimIsReadyWhateverHappened) {
  SimRandom random(testing::TestSeed());
  uint64_t next = 1;
  for (int step = 0; step < 4000; ++step) {
    const uint64_t length = random.Draw(0.3) ? 2 * kPage : kPage;
    if (random.Draw(0.3) && next > 1) {
      const uint64_t number = 1 + random.Below(next - 1);
      if (index_.Find(NumberedKey(number)) != nullptr) Use(number);
    } else {
      // A block of the other size cannot be the parent: spaces have one size each.
      std::optional<uint64_t> parent;
      const HostBlock* last = index_.Find(NumberedKey(next - 1));
      if (last != nullptr && last->meta.length == length && random.Draw(0.8)) parent = next - 1;
      while (!Put(next, parent, length)) {
        const std::vector<BlockKey> victims =
            index_.VictimsInHost(kDomain, length, host_->slots(kDomain));
        ASSERT_FALSE(victims.empty());
        for (const BlockKey& victim : victims) {
          const bool of_its_size = index_.Find(victim)->meta.length == length;
          const bool unoffered = Evict(victim);
          ASSERT_TRUE(!unoffered || !of_its_size)
              << "step " << step << " block " << numbers_.at(victim);
        }
        TakeAll();
      }
      ++next;
    }
    TakeAll();
    if (step % 200 == 0) index_.Audit();
  }
}

}  // namespace
}  // namespace kvtier

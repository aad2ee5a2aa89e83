// Tests BlockIndex and Evictor: contracts, and random operations against a plain model.
#include "agent/index/block_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "agent/index/evict.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/fake_residents.h"
#include "tests/testing/numbered_key.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/still_clock.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::SimRandom;

constexpr uint64_t kPage = 4096;
constexpr DomainId kDomain{0};

BlockMeta MetaOf(uint64_t number, uint64_t parent = 0) {
  BlockMeta meta{.key = testing::NumberedKey(number), .length = kPage};
  if (parent != 0) meta.parent = testing::NumberedKey(parent);
  return meta;
}

class BlockIndexTest : public ::testing::Test {
 protected:
  // Notes each change of which it is told.
  struct Notes final : BlockFollower {
    void OnChange(const BlockChange& change) override { told.push_back(change.delta); }
    std::vector<Delta> told;
  };
  BlockIndexTest() { changes_.Follow(&notes_); }
  HostSlot Slot(uint64_t bytes = kPage) { return *host_->Reserve(kDomain, ExactRoom(bytes)); }
  void Publish(const BlockMeta& meta) {
    index_.PublishHost(meta, Slot(), Arrival::kComputed, ReuseHint(), index_.Now());
  }
  std::unique_ptr<HostTier> host_ = *HostTier::Create(
      {.domains = {{.name = "test", .bytes = 64 * kPage}}, .slab_bytes = 8 * kPage});
  testing::FakeResidents disk_;
  BlockChanges changes_;
  Notes notes_;
  testing::StillClock clock_;
  BlockIndex index_{{.clock = &clock_, .changes = &changes_, .disks = &disk_}};
  TierStats stats_;
  Evictor evictor_{&index_, host_.get(), &stats_};
};

TEST_F(BlockIndexTest, AKeptBlockIsNotEvictedAndMayBeMovedUnlessItIsPinned) {
  Publish(MetaOf(1));
  const BlockKey key = MetaOf(1).key;
  index_.Keep(key, KeptNumber{7});
  EXPECT_EQ(index_.Find(key)->kept, KeptNumber{7});
  EXPECT_FALSE(index_.IsPinned(key));
  EXPECT_EQ(index_.FirstToLeaveHost(kDomain), std::nullopt);
  {
    const Pin pin = *index_.PinOf(key);
    EXPECT_TRUE(index_.IsPinned(key));
    index_.Unkeep(key);
    index_.Audit();
    EXPECT_EQ(index_.FirstToLeaveHost(kDomain), std::nullopt);
    index_.Keep(key, KeptNumber{8});
  }
  index_.Audit();
  EXPECT_EQ(index_.FirstToLeaveHost(kDomain), std::nullopt);
  index_.Unkeep(key);
  EXPECT_EQ(index_.FirstToLeaveHost(kDomain), key);
}

TEST_F(BlockIndexTest, AKeptBlockThatLeavesAllTheSameIsTold) {
  struct Kept final : BlockFollower {
    void OnChange(const BlockChange& change) override { was_kept = change.was_kept; }
    KeptNumber was_kept{};
  };
  Kept kept;
  changes_.Follow(&kept);
  Publish(MetaOf(1));
  index_.Keep(MetaOf(1).key, KeptNumber{7});
  index_.UnpublishHost(MetaOf(1).key);
  EXPECT_EQ(kept.was_kept, KeptNumber{7});
  Publish(MetaOf(1));
  EXPECT_EQ(index_.Find(MetaOf(1).key)->kept, KeptNumber{}) << "it comes back as any other";
  index_.UnpublishHost(MetaOf(1).key);
  EXPECT_EQ(kept.was_kept, KeptNumber{});
}

TEST_F(BlockIndexTest, TellsOfHostMemoryAfterTheFact) {
  Publish(MetaOf(1));
  const BlockKey key = MetaOf(1).key;
  const HostSlot freed = index_.UnpublishHost(key);
  const std::vector<Delta> expected = {
      {.kind = Delta::Kind::kAdd, .tier = Tier::kHost, .key = key},
      {.kind = Delta::Kind::kRemove, .tier = Tier::kHost, .key = key}};
  EXPECT_EQ(notes_.told, expected);
  EXPECT_EQ(index_.Find(key), nullptr);
}

TEST_F(BlockIndexTest, EvictTakesTheColdestLeafAndNeverAParentBeforeItsChild) {
  Publish(MetaOf(1));
  Publish(MetaOf(2, 1));
  Publish(MetaOf(3, 2));
  Publish(MetaOf(9));
  std::vector<BlockKey> order;
  while (const auto coldest = index_.FirstToLeaveHost(kDomain)) {
    order.push_back(*coldest);
    const HostSlot freed = index_.UnpublishHost(*coldest);
  }
  const std::vector<BlockKey> expected = {MetaOf(3).key, MetaOf(2).key, MetaOf(1).key,
                                          MetaOf(9).key};
  EXPECT_EQ(order, expected);
}

TEST_F(BlockIndexTest, EvictSkipsPinnedBlocks) {
  Publish(MetaOf(1));
  Publish(MetaOf(2));
  Pin pin = *index_.PinOf(MetaOf(1).key);
  Pin twice = *index_.PinOf(MetaOf(1).key);
  EXPECT_EQ(index_.pinned_bytes(), kPage);
  EXPECT_EQ(evictor_.EvictSome(DomainId{}, 9), 1u);
  EXPECT_TRUE(index_.In(Tier::kHost, MetaOf(1).key));
  pin.Release();
  EXPECT_EQ(evictor_.EvictSome(DomainId{}, 9), 0u);
  twice.Release();
  EXPECT_EQ(evictor_.EvictSome(DomainId{}, 9), 1u);
  EXPECT_FALSE(index_.PinOf(MetaOf(1).key).has_value());
}

TEST_F(BlockIndexTest, AUseTellsTheDiskItsHintAndAdviceDoesNot) {
  Publish(MetaOf(1));
  Publish(MetaOf(2));
  const std::vector<BlockKey> run = {MetaOf(1).key, MetaOf(2).key, MetaOf(3).key};
  const ReuseHint hint{.conversation = 7};
  EXPECT_EQ(index_.Advise(run, hint), 2u);
  EXPECT_TRUE(disk_.touched.empty());
  const Pin head = *index_.PinOf(run[0]);
  const Pin tail = *index_.PinOf(run[1]);
  EXPECT_THAT(index_.Touch(std::array{&head, &tail}, hint),
              ::testing::ElementsAre(index_.Find(run[0]), index_.Find(run[1])));
  EXPECT_EQ(disk_.touched, (std::map<BlockKey, ReuseHint>{{run[0], hint}, {run[1], hint}}));
}

TEST_F(BlockIndexTest, AdviceIsNoUse) {
  Publish(MetaOf(1));
  Publish(MetaOf(2));
  const BlockKey oldest = MetaOf(1).key;
  index_.Advise({&oldest, 1}, {.finish = FinishReason::kStop});
  const EvictionOrder& order = index_.OrderNow(kDomain).order();
  EXPECT_EQ(order.LastUseOf(*order.Find(oldest)), order.LastUseOf(*order.Find(MetaOf(2).key)) - 1);
  {
    const Pin pin = *index_.PinOf(oldest);
    index_.Touch(std::array{&pin}, ReuseHint());
  }
  EXPECT_EQ(index_.FirstToLeaveHost(kDomain), MetaOf(2).key);
}

// Random operations against sets and counts.
TEST_F(BlockIndexTest, AgreesWithAModel) {
  SimRandom random(testing::TestSeed());
  std::map<uint64_t, std::set<Tier>> tiers;
  std::map<uint64_t, std::vector<Pin>> pins;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t number = 1 + random.Below(40);
    const BlockMeta meta = MetaOf(number, number / 2);
    std::set<Tier>& in = tiers[number];
    switch (random.Below(6)) {
      case 0:
        if (in.insert(Tier::kHost).second) Publish(meta);
        break;
      case 1:
        if (in.insert(Tier::kDisk).second) disk_.keys.insert(meta.key);
        break;
      case 2:
        if (in.contains(Tier::kHost) && pins[number].empty()) {
          in.erase(Tier::kHost);
          const HostSlot freed = index_.UnpublishHost(meta.key);
        }
        break;
      case 3:
        in.erase(Tier::kDisk);
        disk_.keys.erase(meta.key);
        break;
      case 4:
        if (auto pin = index_.PinOf(meta.key)) pins[number].push_back(*std::move(pin));
        break;
      default:
        if (!pins[number].empty()) pins[number].pop_back();
    }
    ASSERT_EQ(index_.NearestTier(meta.key).has_value(), !in.empty());
    ASSERT_EQ(index_.In(Tier::kHost, meta.key), in.contains(Tier::kHost));
    ASSERT_EQ(index_.In(Tier::kDisk, meta.key), in.contains(Tier::kDisk));
    if (step % 100 == 0) index_.Audit();
  }
  size_t copies = 0;
  for (const auto& [number, in] : tiers) copies += in.size();
  EXPECT_EQ(index_.Snapshot().size(), copies);
}

}  // namespace
}  // namespace kvtier

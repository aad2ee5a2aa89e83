#include "coordinator/locate.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kAsker = 7;
constexpr NodeIndex kA{1};
constexpr NodeIndex kB{2};
constexpr NodeIndex kC{3};
constexpr NodeIndex kD{4};

struct Copy {
  NodeIndex node;
  Tier tier = Tier::kHost;
};
HolderSet Holders(std::initializer_list<Copy> copies) {
  HolderSet holders;
  for (const Copy& copy : copies) {
    holders.entries[holders.size++] = NodeCopies(copy.node, copy.tier);
  }
  return holders;
}

// Returns the first holder of each block.
std::vector<NodeIndex> Leaders(const std::vector<RankedHolders>& ranked) {
  std::vector<NodeIndex> leaders;
  for (const RankedHolders& holders : ranked) leaders.push_back(holders.front().node);
  return leaders;
}

TEST(RankHolders, NothingFromNothing) { EXPECT_TRUE(RankHolders({}, kAsker).empty()); }

TEST(RankHolders, HostComesBeforeDiskWhateverTheRun) {
  const std::vector<HolderSet> run = {Holders({{kA, Tier::kDisk}, {kB, Tier::kHost}}),
                                      Holders({{kA, Tier::kDisk}}), Holders({{kA, Tier::kDisk}})};
  const auto ranked = RankHolders(run, kAsker);
  EXPECT_THAT(ranked[0], ElementsAre(RankedHolder{kB, Tier::kHost}, RankedHolder{kA, Tier::kDisk}));
  EXPECT_THAT(Leaders(ranked), ElementsAre(kB, kA, kA));
}

TEST(RankHolders, ANodeWithBothTiersIsToldAsHost) {
  HolderSet both = Holders({{kA, Tier::kDisk}});
  both.entries[0].Add(Tier::kHost);
  EXPECT_THAT(RankHolders(std::vector{both}, kAsker)[0],
              ElementsAre(RankedHolder{kA, Tier::kHost}));
}

TEST(RankHolders, TheLongestRunIsAskedFirst) {
  const std::vector<HolderSet> run = {Holders({{kA}, {kB}}), Holders({{kA}, {kB}}),
                                      Holders({{kB}})};
  EXPECT_THAT(Leaders(RankHolders(run, kAsker)), ElementsAre(kB, kB, kB));
}

TEST(RankHolders, ARunIsCountedFromTheBlockOnAndEndsAtAGap) {
  // C holds most blocks, but not in one run from the first.
  const std::vector<HolderSet> run = {Holders({{kA}, {kC}}), Holders({{kA}}), Holders({{kA}, {kC}}),
                                      Holders({{kC}}), Holders({{kC}})};
  EXPECT_THAT(Leaders(RankHolders(run, kAsker)), ElementsAre(kA, kA, kA, kC, kC));
}

// Always changing to the farthest-reaching node would ask A, B, C and D; staying as long as
// possible asks A and D only.
TEST(RankHolders, TheAskerChangesPeersOnlyWhereItMust) {
  const std::vector<HolderSet> run = {Holders({{kA}}),
                                      Holders({{kA}, {kB}}),
                                      Holders({{kA}, {kB}, {kC}}),
                                      Holders({{kA}, {kB}, {kC}, {kD}}),
                                      Holders({{kB}, {kC}, {kD}}),
                                      Holders({{kC}, {kD}}),
                                      Holders({{kD}})};
  EXPECT_THAT(Leaders(RankHolders(run, kAsker)), ElementsAre(kA, kA, kA, kA, kD, kD, kD));
}

TEST(RankHolders, TellsFourHoldersAtMost) {
  HolderSet many;
  for (uint16_t i = 0; i < kMaxHoldersPerKey; ++i) {
    many.entries[many.size++] = NodeCopies(static_cast<NodeIndex>(i), Tier::kHost);
  }
  EXPECT_EQ(RankHolders(std::vector{many}, kAsker)[0].size(), kMaxHoldersPerReply);
}

TEST(RankHolders, AvoidedHoldersComeLastWhateverTheyHoldAndAreToldWhereThereIsRoom) {
  const std::vector<HolderSet> run = {Holders({{kA}, {kB, Tier::kDisk}, {kC}}),
                                      Holders({{kA}, {kC}}), Holders({{kA}})};
  const auto ranked = RankHolders(run, kAsker, {{kA, 1}, {kC, 2}});
  EXPECT_EQ(ranked[0][0], (RankedHolder{kB, Tier::kDisk}));
  EXPECT_THAT(Leaders(ranked), ElementsAre(kB, kA, kA));
  EXPECT_THAT(ranked[0], ElementsAre(RankedHolder{kB, Tier::kDisk}, RankedHolder{kA, Tier::kHost},
                                     RankedHolder{kC, Tier::kHost}));
}

// Once, ten hung nodes left no place for the one that was well.
TEST(RankHolders, OneHolderThatIsNotAvoidedIsToldAmongSixteen) {
  HolderSet many;
  absl::flat_hash_map<NodeIndex, size_t> avoided;
  for (uint16_t i = 0; i < kMaxHoldersPerKey; ++i) {
    many.entries[many.size++] = NodeCopies(static_cast<NodeIndex>(i), Tier::kHost);
    if (i != 5) avoided[static_cast<NodeIndex>(i)] = 1;
  }
  const auto ranked = RankHolders(std::vector{many}, kAsker, avoided);
  EXPECT_EQ(ranked[0][0].node, NodeIndex{5});
  EXPECT_EQ(ranked[0].size(), kMaxHoldersPerReply) << "an avoided one may be well again";
}

TEST(RankHolders, EqualHoldersAreSpreadOverAskers) {
  const std::vector<HolderSet> run(3, Holders({{kA}, {kB}, {kC}, {kD}}));
  std::set<NodeIndex> first;
  for (uint64_t asker = 0; asker < 64; ++asker) {
    const std::vector<NodeIndex> leaders = Leaders(RankHolders(run, asker));
    EXPECT_EQ(std::set(leaders.begin(), leaders.end()).size(), 1);
    EXPECT_EQ(leaders, Leaders(RankHolders(run, asker)));  // The leaders are the same each time.
    first.insert(leaders.front());
  }
  EXPECT_EQ(first.size(), 4);
}

}  // namespace
}  // namespace kvtier

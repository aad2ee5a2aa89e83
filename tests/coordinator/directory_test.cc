#include "coordinator/directory.h"

#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/coordinator/reports.h"

namespace kvtier {
namespace {

using ::kvtier::testing::NumberedName;

bool Anyone(NodeIndex) { return true; }

// Calls Sweep() often enough to sweep every shard once.
void SweepAll(Directory& directory) {
  for (size_t i = 0; i < Directory::kShards; ++i) directory.Sweep();
}

TEST(Directory, FindsTheTiersThatWereAdded) {
  Directory directory(100);
  const NodeIndex node = directory.Enrol();
  directory.Add(NumberedName(1), node, Tier::kHost);
  directory.Add(NumberedName(1), node, Tier::kDisk);
  directory.Add(NumberedName(1), node, Tier::kDisk);  // Idempotent.
  const HolderSet found = directory.Find(NumberedName(1));
  ASSERT_EQ(found.size, 1);
  EXPECT_TRUE(found.entries[0].Has(Tier::kHost));
  EXPECT_TRUE(found.entries[0].Has(Tier::kDisk));
  EXPECT_EQ(directory.blocks(node), 1);
  EXPECT_EQ(directory.keys(), 1);
  directory.Audit();
}

TEST(Directory, RemoveTakesOneTierAndThenTheKey) {
  Directory directory(100);
  const NodeIndex node = directory.Enrol();
  directory.Add(NumberedName(1), node, Tier::kHost);
  directory.Add(NumberedName(1), node, Tier::kDisk);
  directory.Remove(NumberedName(1), node, Tier::kHost);
  EXPECT_FALSE(directory.Find(NumberedName(1)).entries[0].Has(Tier::kHost));
  directory.Remove(NumberedName(1), node, Tier::kDisk);
  EXPECT_EQ(directory.Find(NumberedName(1)).size, 0);
  EXPECT_EQ(directory.keys(), 0);
  directory.Remove(NumberedName(1), node, Tier::kDisk);  // Unknown, so ignored.
  directory.Audit();
}

TEST(Directory, RefusesAndCountsTheKeyBeyondItsLimit) {
  Directory directory(2);
  const NodeIndex node = directory.Enrol();
  directory.Add(NumberedName(1), node, Tier::kHost);
  directory.Add(NumberedName(2), node, Tier::kHost);
  EXPECT_EQ(directory.refusals().keys, 0);
  directory.Add(NumberedName(3), node, Tier::kHost);
  EXPECT_EQ(directory.refusals().keys, 1);
  EXPECT_EQ(directory.keys(), 2);
  directory.Add(NumberedName(2), node, Tier::kDisk);  // The key is known, so its holder is added.
  EXPECT_TRUE(directory.Find(NumberedName(2)).entries[0].Has(Tier::kDisk));
  directory.Remove(NumberedName(1), node, Tier::kHost);
  directory.Add(NumberedName(3), node, Tier::kHost);
  EXPECT_EQ(directory.Find(NumberedName(3)).size, 1);
  directory.Audit();
}

TEST(Directory, RefusesAndCountsTheHolderBeyondItsLimit) {
  Directory directory(100);
  std::vector<NodeIndex> nodes;
  for (size_t i = 0; i <= kMaxHoldersPerKey; ++i) {
    nodes.push_back(directory.Enrol());
    EXPECT_EQ(directory.refusals().holders, 0);
    directory.Add(NumberedName(1), nodes.back(), Tier::kHost);
  }
  EXPECT_EQ(directory.refusals().holders, 1);
  EXPECT_EQ(directory.Find(NumberedName(1)).size, kMaxHoldersPerKey);
  EXPECT_EQ(directory.blocks(nodes.back()), 0);
  // A retired holder makes room before anything is swept.
  directory.Retire(nodes.front());
  directory.Add(NumberedName(1), nodes.back(), Tier::kHost);
  EXPECT_EQ(directory.blocks(nodes.back()), 1);
  directory.Audit();
}

TEST(Directory, RetireForgetsAtOnceAndSweepGivesTheRoomBack) {
  Directory directory(1000);
  const NodeIndex gone = directory.Enrol();
  const NodeIndex stays = directory.Enrol();
  for (uint64_t key = 0; key < 500; ++key) {
    directory.Add(NumberedName(key), gone, Tier::kDisk);
    if (key % 2 == 0) directory.Add(NumberedName(key), stays, Tier::kHost);
  }
  directory.Retire(gone);
  EXPECT_EQ(directory.blocks(gone), 0);
  EXPECT_EQ(directory.Find(NumberedName(0)).size, 1);
  EXPECT_EQ(directory.Find(NumberedName(1)).size, 0);
  directory.Audit();
  SweepAll(directory);
  EXPECT_EQ(directory.keys(), 250);
  directory.Audit();
}

// If an index were reused too early, entries of its last node would count for the new node: an
// overcount that nothing repairs.
TEST(Directory, ARetiredIndexIsNotReusedBeforeItsLastEntryIsSwept) {
  Directory directory(100000);
  for (size_t round = 0; round < 3 * Directory::kShards; ++round) {
    const NodeIndex node = directory.Enrol();
    ASSERT_EQ(directory.blocks(node), 0);
    for (uint64_t key = 0; key < 64; ++key) {
      ASSERT_EQ(directory.Find(NumberedName(key)).size, 0);
    }
    for (uint64_t key = 0; key < 64; ++key) directory.Add(NumberedName(key), node, Tier::kHost);
    directory.Retire(node);
  }
  directory.Audit();
}

TEST(Directory, OnlyUsableNodesHold) {
  Directory directory(100);
  const NodeIndex a = directory.Enrol();
  const NodeIndex b = directory.Enrol();
  for (const uint64_t key : {1, 2, 3}) directory.Add(NumberedName(key), a, Tier::kHost);
  for (const uint64_t key : {1, 2, 3, 5}) directory.Add(NumberedName(key), b, Tier::kDisk);
  EXPECT_EQ(directory.FindUsable(NumberedName(1), Anyone).size, 2);
  const HolderSet held =
      directory.FindUsable(NumberedName(1), [b](NodeIndex node) { return node == b; });
  ASSERT_EQ(held.size, 1);
  EXPECT_EQ(held.entries[0].node(), b);
  EXPECT_EQ(directory.FindUsable(NumberedName(1), [](NodeIndex) { return false; }).size, 0);
  EXPECT_EQ(directory.FindUsable(NumberedName(4), Anyone).size, 0);
}

// Compares random adds, removes and retirements with a map, across every list length.
TEST(Directory, AgreesWithAPlainMap) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Directory directory(64);
    std::vector<NodeIndex> nodes;
    for (int i = 0; i < 12; ++i) nodes.push_back(directory.Enrol());
    std::map<uint64_t, std::map<NodeIndex, std::set<Tier>>> model;
    for (int step = 0; step < 20000; ++step) {
      const uint64_t key = random() % 40;
      NodeIndex& node = nodes[random() % nodes.size()];
      const Tier tier = random() % 2 == 0 ? Tier::kHost : Tier::kDisk;
      const uint32_t what = random() % 100;
      if (what < 50) {
        directory.Add(NumberedName(key), node, tier);
        model[key][node].insert(tier);
      } else if (what < 97) {
        directory.Remove(NumberedName(key), node, tier);
        if (model[key].contains(node) && model[key][node].erase(tier) > 0 &&
            model[key][node].empty()) {
          model[key].erase(node);
        }
      } else if (what < 98) {
        directory.Retire(node);
        for (auto& [unused, holders] : model) holders.erase(node);
        node = directory.Enrol();
      } else {
        directory.Sweep();
      }
      const HolderSet found = directory.Find(NumberedName(key));
      ASSERT_EQ(found.size, model[key].size()) << "step " << step;
      for (const NodeCopies copies : found.view()) {
        ASSERT_TRUE(model[key].contains(copies.node())) << "step " << step;
        const std::set<Tier>& tiers = model[key][copies.node()];
        ASSERT_EQ(copies.Has(Tier::kHost), tiers.contains(Tier::kHost)) << "step " << step;
        ASSERT_EQ(copies.Has(Tier::kDisk), tiers.contains(Tier::kDisk)) << "step " << step;
      }
      if (step % 500 == 0) directory.Audit();
    }
    directory.Audit();
    EXPECT_EQ(directory.refusals().keys, 0);
    EXPECT_EQ(directory.refusals().holders, 0);
  }
}

}  // namespace
}  // namespace kvtier

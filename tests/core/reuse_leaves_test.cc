#include "core/reuse_leaves.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "core/lru_leaves.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

// Of a key that is in the sample, and of one that is not.
BlockKey Sampled(uint64_t number) { return {.hi = number, .lo = number << 3}; }
BlockKey Unsampled(uint64_t number) { return {.hi = number, .lo = (number << 3) | 1}; }

TEST(ReuseLeavesTest, WithNothingLearntItIsLru) {
  std::mt19937_64 random(testing::TestSeed());
  ReuseLeaves reuse;
  LruLeaves lru;
  for (int i = 0; i < 20'000; ++i) {
    const BlockKey key = Unsampled(random() % 400);
    if (reuse.Contains(key)) {
      reuse.Touch(key);
      lru.Touch(key);
    } else {
      const BlockKey parent = Unsampled(random() % 400);
      reuse.Insert(key, parent, Arrival::kComputed);
      lru.Insert(key, parent);
    }
    if (reuse.size() < 200) continue;
    const std::optional<BlockKey> victim = reuse.Victim();
    ASSERT_EQ(victim, lru.Victim()) << i;
    if (!victim) break;
    reuse.Erase(*victim);
    lru.Erase(*victim);
  }
  reuse.Audit();
}

TEST(ReuseLeavesTest, SeveralVictimsAreThoseThatWouldLeaveOneAfterTheOther) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 50; ++round) {
    ReuseLeaves leaves;
    // Trees, whose members come and are used in any order.
    for (uint64_t i = 1; i <= 60; ++i) {
      const uint64_t parent = random() % i;
      leaves.Insert(Unsampled(i), parent == 0 ? std::nullopt : std::optional(Unsampled(parent)),
                    Arrival::kComputed);
      leaves.Touch(Unsampled(1 + random() % i));
    }
    for (int i = 0; i < 3; ++i) leaves.Hold(Unsampled(1 + random() % 60));
    const auto accept = [](const BlockKey& key) { return key.hi % 16 != 0; };
    const std::vector<BlockKey> victims = leaves.VictimsWhere(40, 1000, accept);
    for (const BlockKey& victim : victims) {
      ASSERT_EQ(victim, leaves.VictimWhere(1000, accept));
      leaves.Erase(victim);
    }
    if (victims.size() == 40) continue;
    ASSERT_EQ(leaves.VictimWhere(1000, accept), std::nullopt);
  }
}

TEST(ReuseLeavesTest, SeveralVictimsAreLookedForAmongTheCheapestOnly) {
  ReuseLeaves leaves;
  for (uint64_t i = 1; i <= 9; ++i) leaves.Insert(Unsampled(i), std::nullopt, Arrival::kComputed);
  const auto odd = [](const BlockKey& key) { return key.hi % 2 == 1; };
  const std::vector<BlockKey> expected = {Unsampled(1), Unsampled(3)};
  EXPECT_EQ(leaves.VictimsWhere(5, 4, odd), expected);
  EXPECT_EQ(leaves.VictimsWhere(2, 100, odd), expected);
}

TEST(ReuseLeavesTest, ConversationsThatGoOnOutstayThoseThatEnd) {
  ReuseLeaves leaves;
  uint64_t next = 1;
  // One in four goes on, and then again and again; the others never do.
  std::vector<BlockKey> going_on;
  for (int i = 0; i < 4000; ++i) {
    const BlockKey key = Sampled(next++);
    leaves.Insert(key, std::nullopt, Arrival::kComputed);
    if (i % 4 == 0) going_on.push_back(key);
    if (going_on.size() > 8) going_on.erase(going_on.begin());
    for (const BlockKey& alive : going_on) leaves.Touch(alive);
    while (leaves.size() > 64) leaves.Erase(*leaves.Victim());
  }
  size_t kept = 0;
  for (const BlockKey& alive : going_on) kept += leaves.Contains(alive) ? 1 : 0;
  EXPECT_EQ(kept, going_on.size());
  // The one that was used stays, although the other came after its last use.
  const BlockKey used = going_on.back();
  const BlockKey fresh = Sampled(next++);
  leaves.Insert(fresh, std::nullopt, Arrival::kComputed);
  for (size_t i = 0; i < 60 && leaves.Contains(fresh); ++i) leaves.Erase(*leaves.Victim());
  EXPECT_TRUE(leaves.Contains(used) || !leaves.Contains(fresh));
}

TEST(ReuseLeavesTest, WhatWasAskedForIsUsedOnceByTheTouchToCome) {
  ReuseLeaves leaves;
  leaves.Insert(Sampled(1), std::nullopt, Arrival::kAskedFor);
  leaves.Insert(Sampled(2), std::nullopt, Arrival::kComputed);
  for (const uint64_t number : {1, 2}) leaves.Touch(Sampled(number));
  EXPECT_EQ(leaves.UsesOf(Sampled(1)), 0U);
  EXPECT_EQ(leaves.UsesOf(Sampled(2)), 1U);
  leaves.Touch(Sampled(1));
  EXPECT_EQ(leaves.UsesOf(Sampled(1)), 1U);
  leaves.Touch(Sampled(3));  // No member: ignored.
  leaves.Audit();
}

TEST(ReuseLeavesTest, WhoComesBackIsRemembered) {
  ReuseLeaves leaves;
  leaves.Insert(Sampled(1), std::nullopt, Arrival::kComputed);
  leaves.Touch(Sampled(1));
  leaves.Erase(Sampled(1));
  EXPECT_EQ(leaves.departed(), 1U);
  leaves.Insert(Sampled(1), std::nullopt, Arrival::kComputed);
  EXPECT_EQ(leaves.UsesOf(Sampled(1)), 2U);
  EXPECT_EQ(leaves.departed(), 0U);
  leaves.Audit();
}

TEST(ReuseLeavesTest, ThoseWhoLeftAreBounded) {
  ReuseLeaves leaves;
  for (uint64_t number = 0; number < kMaxDeparted + 100; ++number) {
    leaves.Insert(Sampled(number), std::nullopt, Arrival::kComputed);
    leaves.Erase(Sampled(number));
  }
  EXPECT_EQ(leaves.departed(), kMaxDeparted);
  leaves.Insert(Sampled(0), std::nullopt, Arrival::kComputed);
  EXPECT_EQ(leaves.UsesOf(Sampled(0)), 0U) << "forgotten";
  leaves.Audit();
}

TEST(ReuseLeavesTest, HeldBlocksAndParentsAreNoVictims) {
  ReuseLeaves leaves;
  EXPECT_EQ(leaves.Victim(), std::nullopt);
  leaves.Insert(Sampled(1), std::nullopt, Arrival::kComputed);
  leaves.Insert(Sampled(2), Sampled(1), Arrival::kComputed);
  EXPECT_EQ(leaves.Victim(), Sampled(2));
  leaves.Hold(Sampled(2));
  EXPECT_EQ(leaves.held(), 1U);
  EXPECT_EQ(leaves.Victim(), std::nullopt);
  leaves.Unhold(Sampled(2));
  const auto not_two = [](const BlockKey& key) { return key != Sampled(2); };
  leaves.Insert(Sampled(3), std::nullopt, Arrival::kComputed);
  EXPECT_EQ(leaves.VictimWhere(1, not_two), std::nullopt) << "looks at one only";
  EXPECT_EQ(leaves.VictimWhere(2, not_two), Sampled(3));
  EXPECT_EQ(leaves.VictimWhere(9, [](const BlockKey&) { return false; }), std::nullopt);
}

// What the header promises of every victim, whatever was learnt.
TEST(ReuseLeavesTest, AVictimHasNoChildAndIsNotHeld) {
  std::mt19937_64 random(testing::TestSeed());
  ReuseLeaves leaves;
  std::map<BlockKey, std::optional<BlockKey>> parents;  // Of the members.
  std::map<BlockKey, int> holds;
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t number = random() % 300;
    const BlockKey key = Sampled(number);
    if (!parents.contains(key)) {
      std::optional<BlockKey> parent;
      if (number > 0) parent = Sampled(random() % number);  // No cycle.
      leaves.Insert(key, parent, random() % 2 == 0 ? Arrival::kComputed : Arrival::kAskedFor);
      parents[key] = parent;
    } else if (random() % 3 == 0) {
      leaves.Hold(key);
      ++holds[key];
    } else {
      leaves.Touch(key);
    }
    while (!holds.empty() && random() % 2 == 0) {
      leaves.Unhold(holds.begin()->first);
      if (--holds.begin()->second == 0) holds.erase(holds.begin());
    }
    const std::optional<BlockKey> victim = leaves.Victim();
    if (!victim || parents.size() < 100) continue;
    ASSERT_FALSE(holds.contains(*victim));
    for (const auto& [member, parent] : parents) ASSERT_NE(parent, victim) << i;
    leaves.Erase(*victim);
    parents.erase(*victim);
    if (i % 1000 == 0) leaves.Audit();
  }
}

}  // namespace
}  // namespace kvtier

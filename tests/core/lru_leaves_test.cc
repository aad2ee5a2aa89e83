#include "core/lru_leaves.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvtier {
namespace {

BlockKey Key(uint64_t number) { return {.hi = 0xfeed, .lo = number}; }

// Inserts 1 <- 2 <- ... <- length, head first.
void InsertChain(LruLeaves& leaves, uint64_t length) {
  for (uint64_t i = 1; i <= length; ++i) {
    leaves.Insert(Key(i), i == 1 ? std::nullopt : std::optional(Key(i - 1)));
  }
}

TEST(LruLeaves, HasNoVictimWhenEmpty) {
  EXPECT_EQ(LruLeaves().Victim(), std::nullopt);
  LruLeaves().Audit();
}

TEST(LruLeaves, PicksTheColdestRoot) {
  LruLeaves leaves;
  for (uint64_t i = 1; i <= 3; ++i) leaves.Insert(Key(i), std::nullopt);
  EXPECT_EQ(leaves.Victim(), Key(1));
  leaves.Touch(Key(1));
  EXPECT_EQ(leaves.Victim(), Key(2));
  leaves.Audit();
}

TEST(LruLeaves, DropsAChainFromItsTail) {
  LruLeaves leaves;
  InsertChain(leaves, 5);
  leaves.Touch(Key(5));
  for (uint64_t i = 5; i >= 1; --i) {
    ASSERT_EQ(leaves.Victim(), Key(i));
    leaves.Erase(Key(i));
    leaves.Audit();
  }
  EXPECT_EQ(leaves.size(), 0u);
}

TEST(LruLeaves, ParentThatComesLaterIsStillNoVictimBeforeItsChild) {
  LruLeaves leaves;
  leaves.Insert(Key(2), Key(1));
  leaves.Insert(Key(1), std::nullopt);
  leaves.Touch(Key(2));
  EXPECT_EQ(leaves.Victim(), Key(2));
  leaves.Audit();
}

TEST(LruLeaves, AbsentParentMakesNoDifference) {
  LruLeaves leaves;
  leaves.Insert(Key(2), Key(1));
  EXPECT_EQ(leaves.Victim(), Key(2));
  leaves.Erase(Key(2));
  leaves.Insert(Key(1), std::nullopt);
  EXPECT_EQ(leaves.Victim(), Key(1));
  leaves.Audit();
}

TEST(LruLeaves, HeldBlockIsNoVictimUntilTheLastHoldEnds) {
  LruLeaves leaves;
  leaves.Insert(Key(1), std::nullopt);
  leaves.Insert(Key(2), std::nullopt);
  leaves.Hold(Key(1));
  leaves.Hold(Key(1));
  EXPECT_EQ(leaves.held(), 1u);
  EXPECT_EQ(leaves.Victim(), Key(2));
  leaves.Unhold(Key(1));
  EXPECT_EQ(leaves.Victim(), Key(2));
  leaves.Unhold(Key(1));
  EXPECT_EQ(leaves.Victim(), Key(1));
  EXPECT_EQ(leaves.held(), 0u);
}

TEST(LruLeaves, HeldTailKeepsItsWholePrefix) {
  LruLeaves leaves;
  InsertChain(leaves, 4);
  leaves.Hold(Key(4));
  EXPECT_EQ(leaves.Victim(), std::nullopt);
  leaves.Audit();
}

TEST(LruLeaves, SaysWhichParentWouldBeACandidateWithoutItsChildren) {
  LruLeaves leaves;
  InsertChain(leaves, 3);
  const auto without = [&](std::vector<BlockKey> gone) { return leaves.CandidateWithout(gone); };
  EXPECT_TRUE(leaves.IsCandidate(Key(3)));
  EXPECT_FALSE(leaves.IsCandidate(Key(2)));
  EXPECT_EQ(without({Key(3)}), Key(2));
  EXPECT_EQ(without({Key(1)}), std::nullopt) << "it has none";
  leaves.Hold(Key(2));
  EXPECT_EQ(without({Key(3)}), std::nullopt) << "held";
  leaves.Unhold(Key(2));
  leaves.Insert(Key(4), Key(2));
  EXPECT_EQ(without({Key(3)}), std::nullopt) << "it has another child";
  EXPECT_EQ(without({Key(3), Key(4)}), Key(2));
  leaves.Insert(Key(5), Key(50));
  EXPECT_EQ(without({Key(5)}), std::nullopt) << "not here";
}

TEST(LruLeaves, TouchIgnoresAStranger) {
  LruLeaves leaves;
  leaves.Touch(Key(1));
  EXPECT_FALSE(leaves.Contains(Key(1)));
}

TEST(LruLeaves, QueuesShareOneOrderAndEachHasAVictimOfItsOwn) {
  LruLeaves leaves;
  const size_t other = leaves.AddQueue();
  EXPECT_EQ(leaves.VictimOf(other), std::nullopt);
  leaves.Insert(Key(1), std::nullopt, other);
  leaves.Insert(Key(2), std::nullopt);
  EXPECT_EQ(leaves.Victim(), Key(1));
  EXPECT_EQ(leaves.VictimOf(0), Key(2));
  leaves.Touch(Key(1), other);
  EXPECT_EQ(leaves.LastTick(), leaves.TickOf(Key(1)));
  EXPECT_EQ(leaves.Victim(), Key(2));
  EXPECT_EQ(leaves.VictimOf(other), Key(1));
  leaves.Audit();
}

// An engine that names a block its own ancestor must not make it immortal.
TEST(LruLeaves, CycleOfParentsStaysEvictable) {
  LruLeaves leaves;
  leaves.Insert(Key(1), Key(1));
  leaves.Insert(Key(2), Key(4));
  leaves.Insert(Key(3), Key(2));
  leaves.Insert(Key(4), Key(3));
  leaves.Audit();
  while (const auto victim = leaves.Victim()) leaves.Erase(*victim);
  EXPECT_EQ(leaves.size(), 0u);
}

TEST(LruLeaves, WhatIsInsertedAtItsOldTickStandsWhereItStood) {
  LruLeaves leaves;
  for (uint64_t i = 1; i <= 3; ++i) leaves.Insert(Key(i), std::nullopt);
  const uint64_t tick = leaves.TickOf(Key(2));
  leaves.Erase(Key(2));
  leaves.InsertAt(Key(2), std::nullopt, tick);
  leaves.Audit();
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(leaves.Victim(), Key(i));
    leaves.Erase(Key(i));
  }
}

TEST(LruLeavesDeathTest, BreachesOfTheContractAbort) {
  LruLeaves leaves;
  leaves.Insert(Key(1), std::nullopt);
  EXPECT_DEATH(leaves.Insert(Key(1), std::nullopt), "CHECK failed");
  EXPECT_DEATH(leaves.Erase(Key(2)), "CHECK failed");
  EXPECT_DEATH(leaves.Hold(Key(2)), "CHECK failed");
  EXPECT_DEATH(leaves.Unhold(Key(1)), "CHECK failed");
  EXPECT_DEATH(leaves.InsertAt(Key(3), std::nullopt, 1000), "CHECK failed");
  leaves.Hold(Key(1));
  EXPECT_DEATH(leaves.Erase(Key(1)), "CHECK failed");
}

// The same policy in the plainest form: a list from coldest to warmest.
class ReferenceLru {
 public:
  struct Member {
    BlockKey key;
    std::optional<BlockKey> parent;
    int holds = 0;
  };
  Member* Find(const BlockKey& key) {
    for (Member& member : members_) {
      if (member.key == key) return &member;
    }
    return nullptr;
  }
  void Insert(const BlockKey& key, std::optional<BlockKey> parent) {
    for (std::optional<BlockKey> at = parent; at;) {
      if (*at == key) parent.reset();
      const Member* member = *at == key ? nullptr : Find(*at);
      at = member == nullptr ? std::nullopt : member->parent;
    }
    members_.push_back({key, parent});
  }
  void Touch(const BlockKey& key) {
    const Member* const member = Find(key);
    if (member == nullptr) return;
    const auto at = members_.begin() + (member - members_.data());
    std::rotate(at, at + 1, members_.end());
  }
  void Erase(const BlockKey& key) {
    members_.erase(members_.begin() + (Find(key) - members_.data()));
  }
  bool HasChild(const BlockKey& key) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const Member& member) { return member.parent == key; });
  }
  std::optional<BlockKey> Victim() const {
    for (const Member& member : members_) {
      if (member.holds == 0 && !HasChild(member.key)) return member.key;
    }
    return std::nullopt;
  }

 private:
  std::vector<Member> members_;
};

class LruLeavesModel : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LruLeavesModel, AgreesWithTheReferenceOnRandomOperations) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937_64 random(GetParam());
  const auto below = [&](uint64_t bound) { return random() % bound; };
  constexpr uint64_t kKeys = 40;
  LruLeaves leaves;
  ReferenceLru reference;
  for (int step = 0; step < 4000; ++step) {
    const BlockKey key = Key(below(kKeys));
    auto* const member = reference.Find(key);
    ASSERT_EQ(leaves.Contains(key), member != nullptr);
    const uint64_t operation = below(8);
    if (operation < 3 && member == nullptr) {
      const auto parent = below(5) == 0 ? std::nullopt : std::optional(Key(below(kKeys)));
      leaves.Insert(key, parent);
      reference.Insert(key, parent);
    } else if (operation == 3) {
      leaves.Touch(key);
      reference.Touch(key);
    } else if (operation == 4 && member != nullptr) {
      leaves.Hold(key);
      ++member->holds;
    } else if (operation == 5 && member != nullptr && member->holds > 0) {
      leaves.Unhold(key);
      --member->holds;
    } else if (operation == 6 && member != nullptr && member->holds == 0) {
      leaves.Erase(key);  // Any member: what fails its checksum goes at once.
      reference.Erase(key);
    } else if (operation == 7 && reference.Victim()) {
      const BlockKey victim = *reference.Victim();
      ASSERT_FALSE(reference.HasChild(victim));
      leaves.Erase(victim);
      reference.Erase(victim);
    }
    ASSERT_EQ(leaves.Victim(), reference.Victim()) << "step " << step;
    if (step % 16 == 0) leaves.Audit();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LruLeavesModel, ::testing::Range<uint64_t>(1, 9));

// The property the policy exists for, over forests of random shape.
TEST(LruLeaves, NeverDropsAParentBeforeItsChild) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  LruLeaves leaves;
  std::vector<std::optional<uint64_t>> parent_of;
  for (uint64_t i = 0; i < 2000; ++i) {
    const bool root = i == 0 || random() % 10 == 0;
    parent_of.push_back(root ? std::nullopt : std::optional(random() % i));
    leaves.Insert(Key(i), root ? std::nullopt : std::optional(Key(*parent_of.back())));
  }
  for (int i = 0; i < 5000; ++i) leaves.Touch(Key(random() % 2000));
  while (const auto victim = leaves.Victim()) {
    leaves.Erase(*victim);
    const std::optional<uint64_t> parent = parent_of[victim->lo];
    ASSERT_TRUE(!parent || leaves.Contains(Key(*parent)));
  }
  EXPECT_EQ(leaves.size(), 0u);
}

}  // namespace
}  // namespace kvtier

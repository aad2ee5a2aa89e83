#include "core/worth_queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using Choice = WorthQueues::Choice;
using Ranked = WorthQueues::Ranked;

constexpr Moment kSecond = 1'000'000;
constexpr Moment kHour = 3600 * kSecond;
constexpr Ranked kAllRanked[] = {Ranked::kByWorth, Ranked::kByWeight};

const ReuseClass kFresh = ReuseState{}.Class();
const ReuseClass kOften = ReuseState{.uses = 4, .gap = 1}.Class();

std::vector<WorthQueues::Item> WalkAll(WorthQueues* queues, Ranked ranked, Moment now) {
  std::vector<WorthQueues::Item> items;
  WorthQueues::Walk walk(queues, ranked, now);
  while (const auto choice = walk.Next()) items.push_back(choice->item);
  return items;
}

TEST(WorthQueuesTest, HasNoFirstWhenEmpty) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  const uint32_t queue = queues.QueueOf({});
  for (const Ranked ranked : kAllRanked) {
    EXPECT_FALSE(queues.First(ranked, 1).has_value());
    EXPECT_TRUE(WalkAll(&queues, ranked, 1).empty());
  }
  queues.Add(queue, 1, 7);
  EXPECT_EQ(queues.size(), 1u);
  EXPECT_TRUE(queues.Contains({}, 1, 7));
  queues.Remove(queue, 1);
  EXPECT_EQ(queues.size(), 0u);
  EXPECT_FALSE(queues.Contains({}, 1, 7));
  EXPECT_FALSE(queues.First(Ranked::kByWorth, 1).has_value());
}

TEST(WorthQueuesTest, AQueueIsMadeOnceForEachClassWeightAndGroup) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  const uint32_t first = queues.QueueOf({.of = kFresh});
  EXPECT_EQ(queues.QueueOf({.of = kFresh}), first);
  EXPECT_NE(queues.QueueOf({.of = kOften}), first);
  EXPECT_NE(queues.QueueOf({.of = kFresh, .weight = 1}), first);
  EXPECT_NE(queues.QueueOf({.of = kFresh, .group = 1}), first);
  EXPECT_EQ(queues.IdOf(first), (WorthQueues::QueueId{.of = kFresh}));
}

TEST(WorthQueuesTest, ByAgeTheOneUsedLongestAgoIsFirst) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  queues.Add(queues.QueueOf({.of = kFresh}), 2, 20);
  queues.Add(queues.QueueOf({.of = kOften, .weight = -10}), 3, 30);
  queues.Add(queues.QueueOf({.of = kOften, .weight = 10}), 1, 10);
}

TEST(WorthQueuesTest, ByWeightTheLowestIsFirstAndOfTwoAlikeTheOlder) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  queues.Add(queues.QueueOf({.weight = 5}), 1, 10);
  queues.Add(queues.QueueOf({.weight = 4}), 3, 30);
  queues.Add(queues.QueueOf({.of = kOften, .weight = 4}), 2, 20);
  EXPECT_EQ(queues.First(Ranked::kByWeight, 9)->worth, 4);
  EXPECT_EQ(WalkAll(&queues, Ranked::kByWeight, 9), (std::vector<WorthQueues::Item>{20, 30, 10}));
}

TEST(WorthQueuesTest, ByWorthClassAndAgeAndWeightDecide) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  const Moment now = 10 * kHour;
  queues.Add(queues.QueueOf({.of = kOften}), 1 * kHour, 1);           // Old.
  queues.Add(queues.QueueOf({.of = kFresh}), now - 60 * kSecond, 2);  // Poorer class.
  queues.Add(queues.QueueOf({.of = kOften}), now - 61 * kSecond, 3);
  queues.Add(queues.QueueOf({.of = kOften, .weight = -60}), now - 1, 4);  // Ended.
  EXPECT_EQ(WalkAll(&queues, Ranked::kByWorth, now), (std::vector<WorthQueues::Item>{4, 1, 2, 3}));
}

TEST(WorthQueuesTest, TwoStepsOfWeightDoubleTheWorth) {
  const ReuseHazards hazards;
  const WorthQueues queues(&hazards);
  const auto worth = [&](int weight) {
    const WorthQueues::QueueId id{.of = kFresh, .weight = static_cast<int8_t>(weight)};
    return queues.RankOf(Ranked::kByWorth, id, 0, 5 * kSecond).worth;
  };
  for (const int weight : {-10, -2, 0, 8}) {
    EXPECT_DOUBLE_EQ(worth(weight + 2), 2 * worth(weight));
  }
}

TEST(WorthQueuesTest, AGroupHasAFirstOfItsOwn) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  queues.Add(queues.QueueOf({.group = 0}), 2, 20);
  queues.Add(queues.QueueOf({.group = 1}), 1, 10);
  for (const Ranked ranked : kAllRanked) {
    EXPECT_EQ(queues.First(ranked, 9, 0)->item, 20u);
    EXPECT_EQ(queues.First(ranked, 9, 1)->item, 10u);
    EXPECT_FALSE(queues.First(ranked, 9, 2).has_value());
    EXPECT_EQ(queues.First(ranked, 9)->item, 10u);
  }
}

// First() remembers an answer until a moment at which a bucket ends. Up to that moment an age in
// whole microseconds must be in that bucket.
TEST(WorthQueuesTest, AMomentBeforeTheEndOfABucketIsInItAndTheEndIsNot) {
  for (size_t bucket = 0; bucket + 1 < ReuseHazards::kBuckets; ++bucket) {
    const auto end = static_cast<Moment>(std::ceil(ReuseHazards::EndOf(bucket) * 1e6));
    for (const Moment last : {Moment{0}, Moment{12'345'678'901}}) {
      EXPECT_EQ(ReuseHazards::BucketOf(SecondsBetween(last, last + end - 1)), bucket);
      EXPECT_EQ(ReuseHazards::BucketOf(SecondsBetween(last, last + end)), bucket + 1);
    }
  }
}

// Worth rises toward 100 s in this class, so the younger of two may be the cheaper.
TEST(WorthQueuesTest, AYoungerItemMayBeFirstAndTheOrderTurnsAroundAsTheyAge) {
  ReuseHazards hazards;
  for (int i = 0; i < 10'000; ++i) hazards.Learn(kOften, 100, true);
  hazards.Conclude({});
  WorthQueues queues(&hazards);
  const uint32_t queue = queues.QueueOf({.of = kOften});
  queues.Add(queue, 1, 1);
  queues.Add(queue, 50 * kSecond, 2);
  EXPECT_EQ(queues.First(Ranked::kByWorth, 95 * kSecond)->item, 2u);
  EXPECT_EQ(queues.First(Ranked::kByWorth, 145 * kSecond)->item, 1u) << "it is overdue";
}

// First() remembers its answer until an item has aged into a cheaper bucket. When that item leaves,
// one that was used earlier may join, such as a parent whose child has left. It ages into that
// bucket before the remembered moment.
TEST(WorthQueuesTest, AnItemThatJoinsAfterAYoungerOneLeftIsFoundWhenItIsCheapest) {
  ReuseHazards hazards;
  for (int i = 0; i < 10'000; ++i) hazards.Learn(kOften, 100, true);
  for (int i = 0; i < 3000; ++i) hazards.Learn(kOften, 60'000, true);
  hazards.Conclude({});
  WorthQueues queues(&hazards);
  const uint32_t queue = queues.QueueOf({.of = kOften});
  const auto first = [&](Moment now) { return queues.First(Ranked::kByWorth, now)->item; };
  const Moment now = 40 * kHour;
  queues.Add(queue, now - 30 * kHour, 1);
  queues.Add(queue, now - 10 * kSecond, 2);
  EXPECT_EQ(first(now), 1u) << "2 will be overdue, and cheaper, in 98 seconds";
  queues.Remove(queue, now - 10 * kSecond);
  queues.Add(queue, now - 50 * kSecond, 3);
  EXPECT_EQ(first(now), 1u);
  EXPECT_EQ(first(now + 70 * kSecond), 3u) << "it has been overdue for 12 seconds";
}

// Repeats the test above with two more steps: the cheapest item leaves, too, and First() looks at
// the queue once more before the new item joins.
TEST(WorthQueuesTest, AnItemThatJoinsAfterALookWithoutTheYoungerOneIsFoundToo) {
  ReuseHazards hazards;
  for (int i = 0; i < 10'000; ++i) hazards.Learn(kOften, 100, true);
  for (int i = 0; i < 3000; ++i) hazards.Learn(kOften, 60'000, true);
  hazards.Conclude({});
  WorthQueues queues(&hazards);
  const uint32_t queue = queues.QueueOf({.of = kOften});
  const auto first = [&](Moment now) { return queues.First(Ranked::kByWorth, now)->item; };
  const Moment now = 40 * kHour;
  queues.Add(queue, now - 31 * kHour, 0);
  queues.Add(queue, now - 30 * kHour, 1);
  queues.Add(queue, now - 10 * kSecond, 2);
  EXPECT_EQ(first(now), 0u);
  queues.Remove(queue, now - 10 * kSecond);
  queues.Remove(queue, now - 31 * kHour);
  EXPECT_EQ(first(now), 1u);
  queues.Add(queue, now - 50 * kSecond, 3);
  EXPECT_EQ(first(now), 1u);
  EXPECT_EQ(first(now + 70 * kSecond), 3u) << "it has been overdue for 12 seconds";
}

// PlainQueues makes the same choices by a look at every item.
class PlainQueues {
 public:
  struct Member {
    WorthQueues::QueueId id;
    uint32_t queue = 0;
    Moment last = 0;
    WorthQueues::Item item = 0;
  };

  explicit PlainQueues(const ReuseHazards* hazards) : hazards_(hazards) {}
  std::vector<Member> members;

  Choice Rank(const Member& member, Ranked ranked, Moment now) const {
    Choice choice{.item = member.item, .last = member.last};
    if (ranked == Ranked::kByWeight) choice.worth = member.id.weight;
    if (ranked == Ranked::kByWorth) {
      choice.worth =
          hazards_->Worth(member.id.of, ReuseHazards::BucketOf(SecondsBetween(member.last, now))) *
          std::exp2(member.id.weight / 2.0);
    }
    return choice;
  }
  // Returns all of the group in the order of leaving.
  std::vector<Choice> All(Ranked ranked, Moment now, uint32_t group) const {
    std::vector<Choice> all;
    for (const Member& member : members) {
      if (group != WorthQueues::kAllGroups && member.id.group != group) continue;
      all.push_back(Rank(member, ranked, now));
    }
    std::ranges::sort(all, [](const Choice& a, const Choice& b) { return a.LeavesBefore(b); });
    return all;
  }

 private:
  const ReuseHazards* const hazards_;
};

class WorthQueuesModel : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override { std::printf("seed %llu\n", static_cast<unsigned long long>(GetParam())); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  void Teach() {
    for (int i = 0; i < 60; ++i) {
      const ReuseClass of = classes_[Below(classes_.size())];
      const double seconds = std::exp2(static_cast<double>(Below(1700)) / 100.0) - 1;
      const uint64_t times = Below(200);
      const bool used = Below(3) > 0;
      for (uint64_t n = 0; n < times; ++n) hazards_.Learn(of, seconds, used);
    }
    hazards_.Conclude({});
  }
  // Advances to a moment that is near, far, or next to one at which an item changes its bucket.
  void Advance() {
    const uint64_t kind = Below(8);
    if (kind < 3) {
      now_ += Below(3);
    } else if (kind < 5) {
      now_ += Below(20 * kSecond);
    } else if (kind == 5) {
      now_ += Below(Below(20) == 0 ? 30 * kHour : kHour);
    } else if (!plain_.members.empty()) {
      const Moment last = plain_.members[Below(plain_.members.size())].last;
      const size_t bucket = ReuseHazards::BucketOf(SecondsBetween(last, now_));
      if (bucket + 1 == ReuseHazards::kBuckets) return;
      const auto end = static_cast<Moment>(std::ceil(ReuseHazards::EndOf(bucket) * 1e6));
      now_ = std::max(now_, last + end - Below(2));
    }
  }
  bool IsTaken(Moment last) const {
    return std::ranges::any_of(plain_.members, [&](const auto& m) { return m.last == last; });
  }
  void Add() {
    Moment last = now_;
    if (Below(3) == 0) last -= std::min(last, Below(Below(2) == 0 ? 100 * kSecond : 3 * kHour));
    if (IsTaken(last)) return;
    PlainQueues::Member member{
        .id = {.of = classes_[Below(classes_.size())],
               .weight = static_cast<int8_t>(Below(2) == 0 ? 0 : static_cast<int>(Below(5)) - 2),
               .group = static_cast<uint32_t>(Below(2))},
        .last = last,
        .item = next_item_++};
    member.queue = queues_.QueueOf(member.id);
    queues_.Add(member.queue, member.last, member.item);
    plain_.members.push_back(member);
  }
  void Remove(size_t at) {
    const PlainQueues::Member member = plain_.members[at];
    plain_.members.erase(plain_.members.begin() + static_cast<std::ptrdiff_t>(at));
    ASSERT_TRUE(queues_.Contains(member.id, member.last, member.item));
    queues_.Remove(member.queue, member.last);
  }
  void RemoveFirst() {
    const auto first = queues_.First(Ranked::kByWorth, now_);
    if (!first.has_value()) return;
    const auto at = std::ranges::find(plain_.members, first->item, &PlainQueues::Member::item);
    Remove(static_cast<size_t>(at - plain_.members.begin()));
  }
  void ExpectSameFirsts() {
    for (const Ranked ranked : kAllRanked) {
      for (const uint32_t group : {0U, 1U, WorthQueues::kAllGroups}) {
        const std::vector<Choice> all = plain_.All(ranked, now_, group);
        const auto first = queues_.First(ranked, now_, group);
        ASSERT_EQ(first.has_value(), !all.empty());
        if (all.empty()) continue;
        ASSERT_EQ(first->item, all[0].item);
        ASSERT_EQ(first->last, all[0].last);
        ASSERT_EQ(first->worth, all[0].worth);
      }
    }
  }
  void ExpectSameWalks() {
    for (const Ranked ranked : kAllRanked) {
      std::vector<WorthQueues::Item> items;
      for (const Choice& choice : plain_.All(ranked, now_, WorthQueues::kAllGroups)) {
        items.push_back(choice.item);
      }
      ASSERT_EQ(WalkAll(&queues_, ranked, now_), items);
    }
  }

  std::mt19937_64 random_{GetParam()};
  const std::vector<ReuseClass> classes_ = {kFresh, kOften, ReuseState{.turn = 1}.Class(),
                                            ReuseState{.uses = 1, .gap = 3}.Class()};
  ReuseHazards hazards_;
  WorthQueues queues_{&hazards_};
  PlainQueues plain_{&hazards_};
  Moment now_ = kHour;
  WorthQueues::Item next_item_ = 0;
};

// A queue remembers the right cheapest item, whatever items come, leave or age, and after
// conclusions.
TEST_P(WorthQueuesModel, ChoosesAsALookAtEveryItemWould) {
  Teach();
  // Few items, so that queues run empty and fill again; then more.
  constexpr int kSteps = testing::kSanitized ? 400 : 1500;
  for (const size_t most : {6, 40, 150}) {
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t operation = Below(100);
      if (operation < 45) {
        Advance();
      } else if (operation < 75 && plain_.members.size() < most) {
        Add();
      } else if (operation < 85) {
        RemoveFirst();
      } else if (operation < 94) {
        if (!plain_.members.empty()) Remove(Below(plain_.members.size()));
      } else if (operation == 99) {
        Teach();
      }
      ASSERT_EQ(queues_.size(), plain_.members.size());
      ExpectSameFirsts();
      ExpectSameWalks();
      if (HasFatalFailure()) FAIL() << "step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WorthQueuesModel,
                         ::testing::Range<uint64_t>(1, testing::kSanitized ? 3 : 9));

TEST(WorthQueuesDeathTest, WhatIsNotInTheQueueCannotBeRemoved) {
  const ReuseHazards hazards;
  WorthQueues queues(&hazards);
  const uint32_t queue = queues.QueueOf({});
  queues.Add(queue, 5, 1);
  EXPECT_DEATH(queues.Remove(queue, 4), "CHECK failed");
}

}  // namespace
}  // namespace kvtier

// Tests EvictionOrder beside a plain reference, by random operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "core/eviction_order.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

// PlainOrder is LRU, FIFO and priority in the plainest form: a list of members, searched from end
// to end.
class PlainOrder {
 public:
  struct Member {
    uint64_t number = 0;
    std::optional<uint64_t> parent;
    uint32_t group = 0;
    int priority = 0;
    uint64_t last = 0;
    std::optional<uint64_t> aside;  // Value of `clock_` when the block was set aside.
    bool was_aside = false;
    bool is_held = false;
  };

  explicit PlainOrder(EvictionPolicy policy) : policy_(policy) {}

  Member* Find(uint64_t number) {
    const auto found = std::ranges::find(members_, number, &Member::number);
    return found == members_.end() ? nullptr : &*found;
  }
  void Insert(Member member) {
    for (std::optional<uint64_t> above = member.parent; above.has_value();) {
      if (*above == member.number) {
        member.parent.reset();
        break;
      }
      const Member* const at = Find(*above);
      above = at == nullptr ? std::nullopt : at->parent;
    }
    if (member.parent.has_value()) BringBack(*member.parent);
    member.last = ++clock_;
    members_.push_back(member);
  }
  void Touch(uint64_t number, int priority) {
    BringBack(number);
    Member* const member = Find(number);
    member->was_aside = false;
    member->priority = priority;
    if (policy_ != EvictionPolicy::kFifo) member->last = ++clock_;
  }
  void Advise(uint64_t number, int priority) {
    BringBack(number);
    Find(number)->priority = priority;
  }
  void Erase(uint64_t number) {
    std::erase_if(members_, [&](const Member& member) { return member.number == number; });
  }
  // Returns the member that leaves first, of those set aside or of the others, in a group or in
  // all. A child that is set aside keeps its parent from leaving, but not from being set aside.
  Member* First(std::optional<uint32_t> group, bool aside, bool to_leave = true) {
    Member* first = nullptr;
    const auto rank = [&](const Member& member) {
      const uint64_t turn = aside ? *member.aside : 0;
      const int priority = policy_ == EvictionPolicy::kPriority ? member.priority : 0;
      return std::tuple(turn, aside ? 0 : priority, member.last);
    };
    for (Member& member : members_) {
      if (group.has_value() && member.group != *group) continue;
      if (member.is_held || member.aside.has_value() != aside) continue;
      if (HasChild(member.number, to_leave)) continue;
      if (first == nullptr || rank(member) < rank(*first)) first = &member;
    }
    return first;
  }
  std::optional<uint64_t> Victim(std::optional<uint32_t> group) {
    const Member* victim = First(group, true);
    if (victim == nullptr) victim = First(group, false);
    return victim == nullptr ? std::nullopt : std::optional(victim->number);
  }
  Member* SetNextAside(uint32_t group) {
    Member* const next = First(group, false, false);
    if (next != nullptr) next->aside = ++clock_;
    return next;
  }
  const std::vector<Member>& members() const { return members_; }

 private:
  // Brings back a block that was set aside, and those above it.
  void BringBack(uint64_t number) {
    Member* const member = Find(number);
    if (member == nullptr || !std::exchange(member->aside, std::nullopt).has_value()) return;
    if (member->parent.has_value()) BringBack(*member->parent);
  }
  bool HasChild(uint64_t number, bool or_aside) const {
    return std::ranges::any_of(members_, [&](const Member& member) {
      return member.parent == number && (or_aside || !member.aside.has_value());
    });
  }

  const EvictionPolicy policy_;
  uint64_t clock_ = 0;
  std::vector<Member> members_;
};

class EvictionOrderModel : public ::testing::TestWithParam<std::tuple<EvictionPolicy, uint64_t>> {
 protected:
  static constexpr uint64_t kKeys = 40;
  static constexpr uint32_t kGroups = 2;

  void SetUp() override { std::printf("seed %d\n", static_cast<int>(std::get<1>(GetParam()))); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  ReuseHint AnyHint() {
    return {.conversation = Below(4), .priority = static_cast<uint8_t>(50 + Below(3))};
  }

  void Insert(uint64_t number) {
    EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(number);
    if (Below(5) != 0) newcomer.parent = NumberedOrder::KeyOf(Below(kKeys));
    newcomer.hint = AnyHint();
    newcomer.group = static_cast<uint32_t>(Below(kGroups));
    plain_.Insert({.number = number,
                   .parent = NumberedOrder::NumberOf(newcomer.parent),
                   .group = newcomer.group,
                   .priority = newcomer.hint.priority});
    order_.Insert(newcomer);
  }
  // Applies a random operation to `member`, which may be any member.
  void Change(PlainOrder::Member* member) {
    const uint64_t number = member->number;
    const ReuseHint hint = AnyHint();
    switch (Below(6)) {
      case 5:
        order_->NoteBelow(order_.At(number), Below(2) == 0);
        return;
      case 0:
        plain_.Advise(number, hint.priority);
        order_->Advise(order_.At(number), hint);
        return;
      case 1:
        member->is_held = !member->is_held;
        member->is_held ? order_.Hold(number) : order_.Unhold(number);
        return;
      case 2:  // A block that fails its checksum goes at once.
        if (member->is_held) return;
        plain_.Erase(number);
        order_.Erase(number);
        return;
      default:
        plain_.Touch(number, hint.priority);
        order_->Touch(order_.At(number), hint);
    }
  }
  void SetAside() {
    const auto group = static_cast<uint32_t>(Below(kGroups));
    PlainOrder::Member* const expected = plain_.SetNextAside(group);
    const auto next = order_->SetNextAside(group);
    ASSERT_EQ(next.has_value(), expected != nullptr);
    if (expected == nullptr) return;
    ASSERT_EQ(NumberedOrder::NumberOf(next->key), expected->number);
    ASSERT_EQ(next->again, std::exchange(expected->was_aside, true));
  }
  void EraseVictim() {
    const std::optional<uint64_t> victim = order_.Victim();
    if (!victim.has_value()) return;
    plain_.Erase(*victim);
    order_.Erase(*victim);
  }
  // Expects the children that the model has. The block may be a member or not.
  void ExpectSameChildren(uint64_t number) {
    std::vector<uint64_t> expected;
    for (const PlainOrder::Member& member : plain_.members()) {
      if (member.parent == number) expected.push_back(member.number);
    }
    std::vector<uint64_t> found;
    order_->ForEachChildOf(testing::NumberedKey(number), [&](const BlockKey& child) {
      found.push_back(*NumberedOrder::NumberOf(child));
      return true;
    });
    std::ranges::sort(expected);
    std::ranges::sort(found);
    ASSERT_EQ(found, expected);
  }
  void ExpectSame() {
    ASSERT_EQ(order_.Victim(), plain_.Victim(std::nullopt));
    for (uint32_t group = 0; group < kGroups; ++group) {
      ASSERT_EQ(order_.VictimOf(group), plain_.Victim(group));
    }
    ASSERT_EQ(order_->size(), plain_.members().size());
    for (const PlainOrder::Member& member : plain_.members()) {
      ASSERT_TRUE(order_.Contains(member.number));
      ASSERT_EQ(order_->WasSetAside(order_.At(member.number)), member.was_aside);
    }
    for (uint64_t number = 0; number < kKeys; ++number) ExpectSameChildren(number);
  }

  std::mt19937_64 random_{std::get<1>(GetParam())};
  NumberedOrder order_{std::get<0>(GetParam())};
  PlainOrder plain_{std::get<0>(GetParam())};
};

TEST_P(EvictionOrderModel, AgreesWithTheReferenceOnRandomOperations) {
  for (int step = 0; step < 3000; ++step) {
    const uint64_t number = Below(kKeys);
    const uint64_t operation = Below(8);
    if (operation == 0) {
      EraseVictim();
    } else if (operation == 1) {
      SetAside();
    } else if (PlainOrder::Member* const member = plain_.Find(number)) {
      Change(member);
    } else {
      Insert(number);
    }
    ExpectSame();
    if (step % 8 == 0) order_->Audit();
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EvictionOrderModel,
                         ::testing::Combine(::testing::Values(EvictionPolicy::kLru,
                                                              EvictionPolicy::kFifo,
                                                              EvictionPolicy::kPriority),
                                            ::testing::Range<uint64_t>(1, 6)));

}  // namespace
}  // namespace kvtier

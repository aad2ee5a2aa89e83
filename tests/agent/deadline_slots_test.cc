// Tests DeadlineSlots: contracts, and random operations against a map.
#include "agent/sessions/deadline_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

enum class ItemId : uint64_t {};
using Slots = DeadlineSlots<ItemId, std::unique_ptr<int>>;

absl::Time At(uint64_t second) { return absl::FromUnixSeconds(static_cast<int64_t>(second)); }

TEST(DeadlineSlotsTest, AnIdIsNeverUsedAgainThoughItsSlotIs) {
  Slots slots;
  const ItemId first = slots.Add(std::make_unique<int>(1), At(1));
  slots.Erase(first);
  const ItemId second = slots.Add(std::make_unique<int>(2), At(1));
  EXPECT_NE(first, second);
  EXPECT_EQ(slots.Find(first), nullptr);
  EXPECT_EQ(**slots.Find(second), 2);
  EXPECT_EQ(slots.Find(ItemId{}), nullptr);
  EXPECT_EQ(slots.Find(ItemId{~uint64_t{0}}), nullptr);
  EXPECT_EQ(slots.size(), 1u);
}

TEST(DeadlineSlotsTest, AnItemStaysWhereItIsWhileOthersCome) {
  Slots slots;
  const ItemId id = slots.Add(std::make_unique<int>(7), At(1));
  const std::unique_ptr<int>* const place = slots.Find(id);
  for (uint64_t i = 0; i < 10'000; ++i) slots.Add(nullptr, At(i));
  EXPECT_EQ(slots.Find(id), place);
}

TEST(DeadlineSlotsTest, TheyAreOverdueInTheOrderOfTheirDeadlines) {
  Slots slots;
  const ItemId late = slots.Add(nullptr, At(3));
  const ItemId early = slots.Add(nullptr, At(1));
  const ItemId kept = slots.Add(nullptr, At(2));
  EXPECT_EQ(slots.Overdue(At(1)), std::nullopt) << "a deadline is no part of the past";
  EXPECT_EQ(slots.Overdue(At(9)), early);
  slots.DropDeadline(kept);
  slots.DropDeadline(kept);
  slots.Erase(early);
  EXPECT_EQ(slots.Overdue(At(9)), late);
  slots.Erase(late);
  EXPECT_EQ(slots.Overdue(At(9)), std::nullopt);
  EXPECT_NE(slots.Find(kept), nullptr);
  slots.Audit();
}

TEST(DeadlineSlotsTest, AgreesWithAMap) {
  testing::SimRandom random(testing::TestSeed());
  struct Plain {
    int item = 0;
    std::optional<absl::Time> deadline;
  };
  Slots slots;
  std::map<ItemId, Plain> plain;  // Ids grow only within a slot, so the order says nothing.
  std::vector<ItemId> gone;
  const auto any = [&] { return std::next(plain.begin(), random.Below(plain.size())); };
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t kind = random.Below(5);
    if (plain.empty() || (kind < 2 && plain.size() < 300)) {
      const absl::Time deadline = At(random.Below(50));
      const ItemId id = slots.Add(std::make_unique<int>(step), deadline);
      ASSERT_TRUE(plain.emplace(id, Plain{.item = step, .deadline = deadline}).second);
    } else if (kind < 4) {
      const auto erased = any();
      ASSERT_EQ(**slots.Find(erased->first), erased->second.item);
      slots.Erase(erased->first);
      gone.push_back(erased->first);
      plain.erase(erased);
    } else {
      const auto kept = any();
      kept->second.deadline.reset();
      slots.DropDeadline(kept->first);
    }
    if (!gone.empty()) {
      ASSERT_EQ(slots.Find(gone[random.Below(gone.size())]), nullptr);
    }
    std::optional<absl::Time> earliest;
    for (const auto& [id, each] : plain) {
      if (each.deadline && (!earliest || *each.deadline < *earliest)) earliest = each.deadline;
    }
    const auto overdue = slots.Overdue(absl::InfiniteFuture());
    ASSERT_EQ(overdue.has_value(), earliest.has_value());
    if (overdue) {
      ASSERT_EQ(plain.at(*overdue).deadline, earliest);
    }
    if (step % 100 == 0) slots.Audit();
  }
  size_t visited = 0;
  slots.ForEach([&](ItemId id, const std::unique_ptr<int>& item) {
    EXPECT_EQ(*item, plain.at(id).item);
    ++visited;
  });
  EXPECT_EQ(visited, plain.size());
}

}  // namespace
}  // namespace kvtier

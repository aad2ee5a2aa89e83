#include "core/byte_budget.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

TEST(ByteBudget, PromisesUpToItsCapacity) {
  ByteBudget budget(100);
  const auto first = budget.Reserve(60);
  const auto second = budget.Reserve(40);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(budget.used(), 100u);
  EXPECT_EQ(first->bytes(), 60u);
  EXPECT_TRUE(budget.Reserve(0).ok());
}

TEST(ByteBudget, RefusesMoreThanIsFreeAndSaysWhatIsUsed) {
  ByteBudget budget(100);
  const auto held = budget.Reserve(60);
  const auto refused = budget.Reserve(41);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("41 bytes: 60 of 100"));
  EXPECT_EQ(budget.used(), 60u);
}

TEST(ByteBudget, RefusesASumThatWouldWrap) {
  ByteBudget budget(100);
  const auto held = budget.Reserve(60);
  EXPECT_FALSE(budget.Reserve(std::numeric_limits<uint64_t>::max()).ok());
}

TEST(Reservation, GivesItsBytesBackWhenDestroyed) {
  ByteBudget budget(100);
  {
    const auto held = budget.Reserve(100);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(Reservation, GivesItsBytesBackOnceWhenReleased) {
  ByteBudget budget(100);
  Reservation held = *budget.Reserve(30);
  held.Release();
  held.Release();
  EXPECT_EQ(held.bytes(), 0u);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(Reservation, MovesItsPromiseToTheNewOwner) {
  ByteBudget budget(100);
  Reservation first = *budget.Reserve(30);
  Reservation second = std::move(first);
  EXPECT_EQ(first.bytes(), 0u);  // NOLINT(bugprone-use-after-move): the contract.
  EXPECT_EQ(second.bytes(), 30u);
  first.Release();
  EXPECT_EQ(budget.used(), 30u);
}

TEST(Reservation, GivesBackWhatAnAssignmentReplaces) {
  ByteBudget budget(100);
  ByteBudget other(100);
  Reservation held = *budget.Reserve(30);
  held = *other.Reserve(50);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(other.used(), 50u);
  Reservation& same = held;
  held = std::move(same);
  EXPECT_EQ(held.bytes(), 50u);
  held = Reservation();
  EXPECT_EQ(other.used(), 0u);
}

TEST(Reservation, InAContainerKeepsTheBudgetExact) {
  ByteBudget budget(1000);
  std::vector<Reservation> held;
  for (int i = 0; i < 10; ++i) held.push_back(*budget.Reserve(100));
  EXPECT_FALSE(budget.Reserve(1).ok());
  held.erase(held.begin(), held.begin() + 4);
  EXPECT_EQ(budget.used(), 600u);
  held.clear();
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace kvtier

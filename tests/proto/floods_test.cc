// Tests which connections the door hangs up on, by what gRPC counts of them.
#include "proto/floods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kOpenCalls = 320;
constexpr FloodLimits kLimits = {.open_calls = kOpenCalls};

TEST(FloodsTest, AConnectionMayHaveSoManyUnfinishedCallsAndNotOneMore) {
  const std::vector<ConnectionLoad> connections = {{.unfinished = 0},
                                                   {.unfinished = kMaxUnfinishedCalls},
                                                   {.unfinished = kMaxUnfinishedCalls + 1}};
  EXPECT_THAT(FloodsAmong(connections, kLimits), ElementsAre(2));
}

TEST(FloodsTest, AConnectionMayBeBusyAtSoManyLooksAndNotOneMore) {
  const std::vector<ConnectionLoad> connections = {{.busy_looks = kMaxBusyLooks},
                                                   {.busy_looks = kMaxBusyLooks + 1}};
  EXPECT_THAT(FloodsAmong(connections, kLimits), ElementsAre(1));
}

TEST(FloodsTest, BeyondTheDoorsLimitThoseWithTheMostAreHungUpOn) {
  std::vector<ConnectionLoad> connections(kMaxUnfinishedCallsOfDoor / kMaxUnfinishedCalls,
                                          {.unfinished = kMaxUnfinishedCalls});
  EXPECT_THAT(FloodsAmong(connections, kLimits), IsEmpty());
  connections.front().unfinished -= kOpenCalls;
  connections.push_back({.unfinished = kOpenCalls});
  EXPECT_THAT(FloodsAmong(connections, kLimits), IsEmpty());
  connections.push_back({.unfinished = 1});
  EXPECT_THAT(FloodsAmong(connections, kLimits), ElementsAre(1)) << "the first of those with most";
}

TEST(FloodsTest, AConnectionWithNoMoreCallsThanMayBeOpenStays) {
  const std::vector<ConnectionLoad> connections(2 * kMaxUnfinishedCallsOfDoor / kOpenCalls,
                                                {.unfinished = kOpenCalls});
  EXPECT_THAT(FloodsAmong(connections, kLimits), IsEmpty());
}

TEST(FloodsTest, CallsOfAConnectionThatIsHungUpCountUntilTheyAreFreed) {
  const std::vector<ConnectionLoad> connections = {
      {.unfinished = kMaxUnfinishedCallsOfDoor, .busy_looks = kMaxBusyLooks + 1, .hung_up = true},
      {.unfinished = kOpenCalls},
      {.unfinished = kOpenCalls + 1}};
  EXPECT_THAT(FloodsAmong(connections, kLimits), ElementsAre(2));
}

TEST(FloodsTest, WhileMemoryIsShortAConnectionMayHaveNoMoreCallsThanMayBeOpen) {
  const std::vector<ConnectionLoad> connections = {{.unfinished = kOpenCalls},
                                                   {.unfinished = kOpenCalls + 1}};
  EXPECT_THAT(FloodsAmong(connections, {.open_calls = kOpenCalls, .of_door = 0}), ElementsAre(1));
}

TEST(FloodsTest, TheLogSaysWhichOfTheTwoAFloodDid) {
  EXPECT_THAT(FloodText({.unfinished = 4711}), HasSubstr("4711 calls that are not finished"));
  EXPECT_THAT(FloodText({.busy_looks = kMaxBusyLooks + 1}), HasSubstr("without making a call"));
}

TEST(FloodsTest, CountsThatWereReadAtTwoMomentsAreNoNegativeNumber) {
  EXPECT_EQ(Unfinished({.begun = 7, .freed = 3}), 4);
  EXPECT_EQ(Unfinished({.begun = 7, .freed = 9}), 0);
}

}  // namespace
}  // namespace kvtier

// Tests submitted calls: no call blocks, and each callback is called once.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeAgent;
using testing::FakeNode;
using testing::TestKeys;

class ClientSubmitTest : public ::testing::Test {
 protected:
  ClientSubmitTest() {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
};

TEST_F(ClientSubmitTest, PutAndGetWithoutWaiting) {
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  ReservedBlocks reserved;
  absl::Notification has_room;
  ASSERT_TRUE(client_
                  ->SubmitReserve(space_, keys, {},
                                  [&](ReservedBlocks blocks) {
                                    reserved = std::move(blocks);
                                    has_room.Notify();
                                  })
                  .ok());
  has_room.WaitForNotification();
  ASSERT_EQ(reserved.reserved(), 3U);
  for (size_t i = 0; i < 3; ++i) testing::FillBlock(7, keys[i], reserved.slot(i));

  size_t committed = 0;
  absl::Notification is_put;
  ASSERT_TRUE(client_
                  ->SubmitCommit(std::move(reserved),
                                 [&](size_t blocks) {
                                   committed = blocks;
                                   is_put.Notify();
                                 })
                  .ok());
  is_put.WaitForNotification();
  EXPECT_EQ(committed, 3U);

  OnboardedBlocks hit;
  absl::Notification is_ready;
  ASSERT_TRUE(client_
                  ->SubmitOnboard(space_, keys, {},
                                  [&](OnboardedBlocks blocks) {
                                    hit = std::move(blocks);
                                    is_ready.Notify();
                                  })
                  .ok());
  is_ready.WaitForNotification();
  ASSERT_EQ(hit.size(), 3U);
  EXPECT_TRUE(testing::HoldsBlock(7, keys[2], hit.bytes(2)));
}

TEST_F(ClientSubmitTest, AnAbsentAgentCallsBackAtOnceWithAMiss) {
  node_.agent().Kill();
  ASSERT_TRUE(Eventually([&] { return !client_->connected(); }));
  std::atomic<int> misses = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client_
                    ->SubmitMatch(space_, TestKeys(1, 1), {},
                                  [&](MatchedPrefix matched) { misses += matched.blocks == 0; })
                    .ok());
  }
  EXPECT_TRUE(Eventually([&] { return misses == 10; }));
}

TEST_F(ClientSubmitTest, TooManyUnderWayAreRefusedAndAllEndAtTheirDeadline) {
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  std::atomic<size_t> ended = 0;
  const auto submit = [&] {
    return client_->SubmitPrefetch(space_, TestKeys(1, 1), {.timeout = absl::Seconds(3)},
                                   [&](size_t) { ++ended; });
  };
  size_t submitted = 0;
  absl::Status status;
  while (submitted <= Client::kMaxSubmitted && (status = submit()).ok()) ++submitted;
  EXPECT_EQ(submitted, Client::kMaxSubmitted);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Eventually([&] { return ended == submitted; }));
}

TEST_F(ClientSubmitTest, TheDestructorCancelsAndWaitsForCallbacks) {
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  std::atomic<int> ended = 0;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client_
                    ->SubmitOnboard(space_, TestKeys(1, 1), {.timeout = absl::Seconds(30)},
                                    [&](OnboardedBlocks) { ++ended; })
                    .ok());
  }
  client_.reset();
  EXPECT_EQ(ended, 5);
}

TEST_F(ClientSubmitTest, ARefusedCommitLeavesTheBlocksWithTheCaller) {
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 2));
  node_.agent().HangCalls(FakeAgent::Hang::kAll);
  while (client_
             ->SubmitMatch(space_, TestKeys(1, 1), {.timeout = absl::Seconds(30)},
                           [](MatchedPrefix) {})
             .ok()) {
  }
  EXPECT_FALSE(client_->SubmitCommit(std::move(reserved), [](size_t) {}).ok());
  // NOLINT(bugprone-use-after-move): the state after a move is promised.
  EXPECT_EQ(reserved.reserved(), 2U);
}

}  // namespace
}  // namespace kvtier

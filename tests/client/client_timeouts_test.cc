// Tests what a timeout means: how much of it the agent is given, and zero and negative ones.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/call_deadline.h"
#include "client/client.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeNode;
using testing::PutBlocks;
using testing::TestKeys;

class ClientTimeoutsTest : public ::testing::Test {
 protected:
  ClientTimeoutsTest() {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
};

TEST(AgentTimeoutTest, LeavesTheAnswerTimeToComeBack) {
  EXPECT_EQ(AgentTimeoutMs(absl::ZeroDuration()), 0);
  EXPECT_EQ(AgentTimeoutMs(absl::Milliseconds(2)), 1);
  EXPECT_EQ(AgentTimeoutMs(absl::Milliseconds(80)), 70);
  EXPECT_EQ(AgentTimeoutMs(absl::Milliseconds(500)), 480);
  EXPECT_EQ(AgentTimeoutMs(absl::Seconds(10)), 9800);
}

// A timeout of 0 once sent nothing, so that blocks in host memory were misses.
TEST_F(ClientTimeoutsTest, NoTimeSaysWhatIsHereNow) {
  constexpr absl::Duration kNone = absl::ZeroDuration();
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  // The machine may be too busy to answer in kAnswerTime.
  EXPECT_TRUE(
      Eventually([&] { return client_->Onboard(space_, keys, {.timeout = kNone})->size() == 2; }));
  EXPECT_TRUE(
      Eventually([&] { return client_->Match(space_, keys, {.timeout = kNone})->blocks == 2; }));
  EXPECT_TRUE(
      Eventually([&] { return *client_->Prefetch(space_, keys, {.timeout = kNone}) == 2; }));
  // Each try reserves another block, because one that came too late may be reserved all the same.
  uint64_t other = 100;
  EXPECT_TRUE(Eventually([&] {
    return client_->Reserve(space_, TestKeys(++other, 1), {.timeout = kNone})->reserved() == 1;
  }));
  const auto blocks = std::make_shared<std::atomic<size_t>>(0);
  EXPECT_TRUE(Eventually([&] {
    const auto done = [blocks](const OnboardedBlocks& hit) { *blocks = hit.size(); };
    EXPECT_TRUE(client_->SubmitOnboard(space_, keys, {.timeout = kNone}, done).ok());
    return *blocks == 2;
  }));
}

// The agent answers no call, and a registration that waits for it would take default_timeout.
TEST_F(ClientTimeoutsTest, ARegistrationWithNoTimeIsMadeInTheBackground) {
  SpaceSpec other = node_.space();
  other.model += " of another epoch";
  node_.agent().HangCalls(testing::FakeAgent::Hang::kAll);
  const uint64_t before = client_->Stats().calls_failed;
  const SpaceHandle space = *client_->RegisterSpace(other, absl::ZeroDuration());
  EXPECT_EQ(client_->Stats().calls_failed, before);
  node_.agent().Resume();
  EXPECT_TRUE(Eventually([&] {
    PutBlocks(client_.get(), space, TestKeys(1, 2));
    return client_->Match(space, TestKeys(1, 2))->blocks == 2;
  }));
}

TEST_F(ClientTimeoutsTest, NoTimeForTheDiskPublishesAllTheSame) {
  ReservedBlocks blocks = *client_->Reserve(space_, TestKeys(1, 2));
  ASSERT_EQ(blocks.reserved(), 2U);
  EXPECT_FALSE(blocks.slot(0).empty() || blocks.slot(1).empty());
  blocks.Commit({.durable = true, .timeout = absl::ZeroDuration()});
  EXPECT_EQ(client_->Match(space_, TestKeys(1, 2))->blocks, 2U);
}

TEST_F(ClientTimeoutsTest, ANegativeTimeoutIsRefusedByName) {
  const std::vector<EngineKey> keys = TestKeys(1, 1);
  constexpr absl::Duration kNegative = absl::Milliseconds(-1);
  const std::string said = "timeout is -1ms; must not be negative";
  EXPECT_EQ(client_->RegisterSpace(node_.space(), kNegative).status().message(), said);
  EXPECT_EQ(client_->Onboard(space_, keys, {.timeout = kNegative}).status().message(), said);
  EXPECT_EQ(client_->Match(space_, keys, {.timeout = kNegative}).status().message(), said);
  EXPECT_EQ(client_->Reserve(space_, keys, {.timeout = kNegative}).status().message(), said);
  EXPECT_EQ(client_->Prefetch(space_, keys, {.timeout = kNegative}).status().message(), said);
  EXPECT_EQ(client_->SubmitCommit({}, [](size_t) {}, {.timeout = kNegative}).message(), said);
  EXPECT_EQ(client_->SubmitMatch(space_, keys, {.timeout = kNegative}, [](const MatchedPrefix&) {})
                .message(),
            said);
}

}  // namespace
}  // namespace kvtier

// Tests hints of engines about the next use of blocks, on their way to the agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/conversation.h"
#include "core/reuse_hint.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::FakeNode;
using ::testing::HasSubstr;
using testing::PutBlocks;
using testing::TestKeys;

using Hints = std::vector<std::optional<ReuseHint>>;

TEST(ConversationTest, IsAHashOfItsOwn) {
  EXPECT_EQ(*ConversationOf("session-1"), 0x41d4af322df572b6u);
  EXPECT_NE(*ConversationOf("session-1"), *ConversationOf("session-2"));
  EXPECT_TRUE(ConversationOf(std::string(1, '\0')).ok());
  EXPECT_TRUE(ConversationOf(std::string(kMaxConversationBytes, 'c')).ok());
  for (const size_t bytes : {size_t{0}, kMaxConversationBytes + 1}) {
    const absl::Status status = ConversationOf(std::string(bytes, 'c')).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(bytes) + " bytes; must be 1 to 256"));
  }
}

class ClientHintsTest : public ::testing::Test {
 protected:
  ClientHintsTest() {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
  }
  Hints Sent() { return node_.agent().Counts().hints; }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
  const std::vector<EngineKey> keys_ = TestKeys(1, 2);
  const ReuseHint hint_{.conversation = *ConversationOf("session"),
                        .turn = 3,
                        .finish = FinishReason::kToolCalls,
                        .will_not_return = true,
                        .priority = kMaxPriority};
};

TEST_F(ClientHintsTest, EachSequenceOfACallHasItsOwn) {
  PutBlocks(client_.get(), space_, keys_);
  EXPECT_EQ(Sent(), Hints{std::nullopt}) << "calls of before hints send none";
  const std::vector<KeySequence> sequences = {{.space = space_, .keys = keys_, .hint = hint_},
                                              {.space = space_, .keys = keys_}};
  const Hints expected = {hint_, std::nullopt};
  ASSERT_TRUE(client_->Onboard(sequences).ok());
  EXPECT_EQ(Sent(), expected);
  PutBlocks(client_.get(), space_, TestKeys(9, 1));
  ASSERT_TRUE(client_->Prefetch(sequences).ok());
  EXPECT_EQ(Sent(), expected);
  PutBlocks(client_.get(), space_, TestKeys(8, 1));
  ASSERT_TRUE(client_->Reserve(sequences).ok());
  EXPECT_EQ(Sent(), expected);
}

TEST_F(ClientHintsTest, AdviceSaysHowManyBlocksItIsOf) {
  PutBlocks(client_.get(), space_, keys_);
  const std::vector<EngineKey> more = TestKeys(1, 3);
  const KeySequence ended{.space = space_, .keys = more, .hint = hint_};
  EXPECT_EQ(*client_->Advise({&ended, 1}), 2u);
  EXPECT_EQ(Sent(), Hints{hint_});
  std::optional<size_t> advised;
  absl::Notification done;
  ASSERT_TRUE(client_
                  ->SubmitAdvise({&ended, 1}, std::nullopt,
                                 [&](size_t blocks) {
                                   advised = blocks;
                                   done.Notify();
                                 })
                  .ok());
  done.WaitForNotification();
  EXPECT_EQ(advised, 2u);
}

TEST_F(ClientHintsTest, AdviceThatNobodyHearsIsLostInTime) {
  const KeySequence ended{.space = space_, .keys = keys_, .hint = hint_};
  node_.agent().HangCalls(testing::FakeAgent::Hang::kAll);
  const absl::Time began = absl::Now();
  EXPECT_EQ(*client_->Advise({&ended, 1}, absl::Milliseconds(50)), 0u);
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  node_.agent().Kill();
  EXPECT_EQ(*client_->Advise({&ended, 1}), 0u);
}

TEST_F(ClientHintsTest, LimitsAreThoseOfMatch) {
  std::vector<KeySequence> sequences(Client::kMaxSequences, {.space = space_, .keys = keys_});
  EXPECT_TRUE(client_->Advise(sequences).ok());
  sequences.push_back(sequences[0]);
  EXPECT_THAT(client_->Advise(sequences).status().message(), HasSubstr("257 sequences"));
  EXPECT_THAT(client_->Advise({}).status().message(), HasSubstr("0 sequences"));
  const std::vector<EngineKey> most = TestKeys(1, Client::kMaxKeys);
  std::vector<KeySequence> large = {{.space = space_, .keys = most}};
  EXPECT_TRUE(client_->Advise(large).ok());
  large.push_back({.space = space_, .keys = std::span(keys_).first(1)});
  EXPECT_THAT(client_->Advise(large).status().message(), HasSubstr("8193 keys"));
  EXPECT_THAT(client_->Advise(std::span(large).first(1), absl::Seconds(-1)).status().message(),
              HasSubstr("timeout"));
}

TEST_F(ClientHintsTest, APriorityBeyondTheLargestIsNamed) {
  KeySequence run{.space = space_, .keys = keys_};
  for (const uint8_t priority : {uint8_t{0}, kMaxPriority}) {
    run.hint.priority = priority;
    EXPECT_TRUE(client_->Advise({&run, 1}).ok());
    EXPECT_EQ(Sent()[0]->priority, priority);
  }
  run.hint.priority = kMaxPriority + 1;
  for (const absl::Status& status :
       {client_->Advise({&run, 1}).status(), client_->Onboard({&run, 1}).status(),
        client_->Reserve({&run, 1}).status(), client_->Prefetch({&run, 1}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("hint.priority is 101; must be 0 to 100"));
  }
}

}  // namespace
}  // namespace kvtier

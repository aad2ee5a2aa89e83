#include "core/conversations.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

TEST(ConversationsTest, NamesTheBlockBeforeOfTheSameConversation) {
  Conversations conversations;
  EXPECT_EQ(conversations.GoOn(1, NumberedKey(10)), std::nullopt);
  EXPECT_EQ(conversations.GoOn(2, NumberedKey(20)), std::nullopt);
  EXPECT_EQ(conversations.GoOn(1, NumberedKey(11)), NumberedKey(10));
  EXPECT_EQ(conversations.GoOn(1, NumberedKey(12)), NumberedKey(11));
  EXPECT_EQ(conversations.GoOn(2, NumberedKey(21)), NumberedKey(20));
}

TEST(ConversationsTest, AnotherOneOfTheSameHashTakesThePlace) {
  Conversations conversations;
  conversations.GoOn(1, NumberedKey(10));
  EXPECT_EQ(conversations.GoOn(1 + kMaxConversations, NumberedKey(20)), std::nullopt);
  EXPECT_EQ(conversations.GoOn(1, NumberedKey(11)), std::nullopt)
      << "it is forgotten, not mixed up";
}

}  // namespace
}  // namespace kvtier

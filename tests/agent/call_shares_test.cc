// Tests CallShares: whose calls are refused when one tenant has endless ones in progress.
#include "agent/sessions/call_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr DomainId kHostile{0};
constexpr DomainId kOther{1};
// Memory of the largest calls that are sent often: 8,192 keys of 32 bytes.
constexpr size_t kLargeCall = kCallBytes + 8192 * 34 * kCallBytesPerRequestByte;

std::string Token(uint8_t first) {
  std::string token(sizeof(SessionToken), '\0');
  token[0] = static_cast<char>(first);
  return token;
}

class CallSharesTest : public ::testing::Test {
 protected:
  CallSharesTest() {
    shares_.SessionOpened(SessionToken{1}, kHostile);
    shares_.SessionOpened(SessionToken{2}, kOther);
  }
  // Takes calls of `bytes` bytes until one is refused; returns how many were taken.
  size_t TakeAll(const std::string& token, size_t bytes) {
    size_t calls = 0;
    while (shares_.Take(token, bytes).ok()) ++calls;
    return calls;
  }

  CallShares shares_{kMaxTenantCallBytes, 2};
};

TEST_F(CallSharesTest, ATenantWithEndlessCallsLeavesTheOthersTheirGuarantee) {
  const size_t hostile = TakeAll(Token(1), kLargeCall);
  EXPECT_EQ(hostile, kMaxTenantCallBytes * 3 / 4 / kLargeCall);
  size_t served = 0;
  for (int i = 0; i < 10'000; ++i) {
    // The hostile tenant begins a new call whenever one ends.
    shares_.GiveBack(kHostile, kLargeCall);
    ASSERT_TRUE(shares_.Take(Token(1), kLargeCall).ok());
    EXPECT_FALSE(shares_.Take(Token(1), kLargeCall).ok());
    const auto taken = shares_.Take(Token(2), kLargeCall);
    if (taken.ok()) ++served;
    if (served % 16 == 0) {
      for (; shares_.Of(kOther).taken > 0;) shares_.GiveBack(kOther, kLargeCall);
    }
  }
  EXPECT_EQ(served, 10'000u);
  EXPECT_GE(shares_.Of(kOther).guaranteed, 16 * kLargeCall);
}

TEST_F(CallSharesTest, ARefusalNamesTheLimitAndWhatToDo) {
  const size_t most = kMaxTenantCallBytes * 3 / 4;
  ASSERT_TRUE(shares_.Take(Token(1), most).ok());
  const absl::Status refused = shares_.Take(Token(1), 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(std::to_string(most)));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(std::to_string(kMaxTenantCallBytes)));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("call again when some of them have ended"));
}

TEST_F(CallSharesTest, ACallWithATokenOfNoOpenSessionIsChargedToNobody) {
  for (const std::string& token : {Token(3), Token(0), std::string(), std::string(1000, 'x')}) {
    const auto taken = shares_.Take(token, kMaxTenantCallBytes);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(*taken, std::nullopt);
  }
  EXPECT_EQ(shares_.Of(kHostile).taken + shares_.Of(kOther).taken, 0u);
}

TEST_F(CallSharesTest, CallsOutlastTheirSessionAndStayCharged) {
  ASSERT_EQ(*shares_.Take(Token(2), 1000), kOther);
  shares_.SessionClosed(SessionToken{2});
  EXPECT_EQ(*shares_.Take(Token(2), 1000), std::nullopt);
  EXPECT_EQ(shares_.Of(kOther).taken, 1000u);
  shares_.DropDomain(kOther);
  EXPECT_EQ(shares_.Of(kOther).guaranteed, 0u);
  shares_.GiveBack(kOther, 1000);
  EXPECT_EQ(shares_.Of(kOther).taken, 0u);
  EXPECT_EQ(shares_.Of(kHostile).guaranteed, kMaxTenantCallBytes / 2);
  shares_.Audit(1);
}

TEST_F(CallSharesTest, ANewcomerIsGuaranteedAsMuchAsTheOthers) {
  shares_.AddDomain();
  EXPECT_EQ(shares_.Of(DomainId{2}).guaranteed, kMaxTenantCallBytes / 2 / 3);
  EXPECT_EQ(shares_.Of(DomainId{2}).limit, kMaxTenantCallBytes);
}

TEST(AgentCallSharesTest, SessionsAndTenantsOfTheAgentAreThoseThatPay) {
  testing::AgentRig rig;
  CallShares& calls = rig.agent->sessions().calls();
  const SessionId session = rig.Open(1);
  const SessionToken token = rig.agent->sessions().table().TokenOf(session);
  const std::string text(token.begin(), token.end());
  EXPECT_EQ(*calls.Take(text, 1), DomainId{1});
  rig.agent->CloseSession(session);
  EXPECT_EQ(*calls.Take(text, 1), std::nullopt);
  rig.agent->Audit();
}

}  // namespace
}  // namespace kvtier

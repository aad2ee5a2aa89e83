#include "agent/sessions/registered_spaces.h"

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/sessions/sessions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::IsEmpty;

constexpr DomainId kOne{0};
constexpr DomainId kOther{1};

SpaceSpec SpaceNumber(size_t number) {
  return {.model = absl::StrCat("model ", number), .weights_digest = "w"};
}

class RegisteredSpacesTest : public ::testing::Test {
 protected:
  void Add(size_t number, DomainId domain = kOne) {
    const SpaceSpec spec = SpaceNumber(number);
    spaces_.Add(domain, spec, spec.Digest());
  }
  void Remove(size_t number, DomainId domain = kOne) {
    spaces_.Remove(domain, SpaceNumber(number).Digest());
  }
  // Returns the number of sessions that have the space; -1: the space is not remembered.
  int SessionsOf(size_t number, DomainId domain = kOne) const {
    for (const auto* space : spaces_.All()) {
      if (space->domain == domain && space->spec.model == SpaceNumber(number).model) {
        return static_cast<int>(space->sessions);
      }
    }
    return -1;
  }
  RegisteredSpaces spaces_;
};

TEST_F(RegisteredSpacesTest, ASpaceOfATenantIsOneHoweverManySessionsUseIt) {
  Add(1);
  Add(1);
  Add(1, kOther);
  EXPECT_EQ(spaces_.All().size(), 2U);
  EXPECT_EQ(SessionsOf(1), 2);
  EXPECT_EQ(SessionsOf(1, kOther), 1);
}

TEST_F(RegisteredSpacesTest, ASpaceIsRememberedWhenItsSessionsAreOver) {
  Add(1);
  Remove(1);
  EXPECT_EQ(SessionsOf(1), 0);
  Remove(1);  // The count never falls below 0.
  EXPECT_EQ(SessionsOf(1), 0);
}

TEST_F(RegisteredSpacesTest, BeyondTheLimitTheOneThatWasUnusedForLongestIsForgotten) {
  for (size_t i = 0; i < kMaxSpacesDescribed; ++i) Add(i);
  Remove(9);
  Remove(5);
  Add(1000);
  EXPECT_EQ(spaces_.All().size(), kMaxSpacesDescribed);
  EXPECT_EQ(SessionsOf(9), -1);
  EXPECT_EQ(SessionsOf(5), 0);
  EXPECT_EQ(SessionsOf(1000), 1);
  EXPECT_EQ(spaces_.forgotten(), 0U);
}

TEST_F(RegisteredSpacesTest, WhileAllAreInUseAnotherIsCountedOnly) {
  for (size_t i = 0; i < kMaxSpacesDescribed; ++i) Add(i);
  Add(1000);
  EXPECT_EQ(spaces_.forgotten(), 1U);
  EXPECT_EQ(SessionsOf(1000), -1);
  Remove(1000);
  EXPECT_EQ(spaces_.All().size(), kMaxSpacesDescribed);
}

TEST(SessionTableSpacesTest, ASessionsSpacesAreItsOwnUntilItCloses) {
  const TenantTable tenants = *TenantTable::Create({{.name = "default"}});
  SessionTable sessions;
  EXPECT_THAT(sessions.spaces().All(), IsEmpty());
  const SessionId first =
      *sessions.Open(SessionTenants::Own(tenants.OfDomain(DomainId{0})), SessionToken{1});
  const SessionId second =
      *sessions.Open(SessionTenants::Own(tenants.OfDomain(DomainId{0})), SessionToken{2});
  ASSERT_TRUE(sessions.AddSpace(first, SpaceNumber(1)).ok());
  ASSERT_TRUE(sessions.AddSpace(first, SpaceNumber(1)).ok());  // The same space is added again.
  ASSERT_TRUE(sessions.AddSpace(second, SpaceNumber(1)).ok());
  ASSERT_EQ(sessions.spaces().All().size(), 1U);
  EXPECT_EQ(sessions.spaces().All()[0]->sessions, 2U);
  sessions.Close(first);
  EXPECT_EQ(sessions.spaces().All()[0]->sessions, 1U);
  sessions.Close(second);
  EXPECT_EQ(sessions.spaces().All()[0]->sessions, 0U);
}

}  // namespace
}  // namespace kvtier

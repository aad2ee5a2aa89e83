#include "core/eviction_policy.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace kvtier {
namespace {

TEST(EvictionPolicyTest, EachPolicyIsParsedFromItsName) {
  for (const EvictionPolicy policy : {EvictionPolicy::kLearnt, EvictionPolicy::kLru,
                                      EvictionPolicy::kFifo, EvictionPolicy::kPriority}) {
    const auto parsed = ParseEvictionPolicy(EvictionPolicyName(policy));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, policy);
  }
  EXPECT_EQ(EvictionPolicyName(EvictionPolicy::kLearnt), "learnt");
  EXPECT_EQ(EvictionPolicyName(EvictionPolicy::kPriority), "priority");
}

TEST(EvictionPolicyTest, AnotherNameIsAnInvalidArgumentThatSaysWhatIsValid) {
  for (const char* name : {"", "LRU", "lru ", "arc"}) {
    const auto parsed = ParseEvictionPolicy(name);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(ParseEvictionPolicy("arc").status().message(),
            "'arc' is no eviction policy; must be learnt, lru, fifo or priority");
}

}  // namespace
}  // namespace kvtier

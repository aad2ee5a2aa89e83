#include "core/node.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

TEST(NodeId, AcceptsNamesAsClustersGiveThem) {
  for (const std::string& name :
       {std::string("a"), std::string("0"), std::string("node-1.rack_2"), std::string(63, 'Z')}) {
    const auto id = NodeId::FromString(name);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(id->str(), name);
  }
}

TEST(NodeId, RefusesOtherTextAndQuotesItEscaped) {
  for (const std::string& name :
       {std::string(), std::string(64, 'a'), std::string("-a"), std::string(".a"),
        std::string("a b"), std::string("a/b"), std::string("a\n"), std::string("a\0b", 3),
        std::string("n\xc3\xb6"
                    "de")}) {
    EXPECT_EQ(NodeId::FromString(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  const std::string message(NodeId::FromString("a\x1b[31m").status().message());
  EXPECT_THAT(message, HasSubstr("a\\x1b[31m"));
}

TEST(NodeId, CutsAHugeTextInItsMessage) {
  EXPECT_LT(NodeId::FromString(std::string(1 << 20, 'a')).status().message().size(), 256u);
}

TEST(NodeId, ComparesAsItsText) {
  EXPECT_LT(*NodeId::FromString("a"), *NodeId::FromString("b"));
  EXPECT_EQ(*NodeId::FromString("a"), *NodeId::FromString("a"));
}

}  // namespace
}  // namespace kvtier

#include "core/tenant_tag.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

TEST(TenantTagTest, ATagIsOfTheNameAloneAndTheSameInEveryBuild) {
  // The expected bytes are those of: printf 'kvtier.owner.v1\0default' | sha256sum
  EXPECT_EQ(TenantTagOf("default"), TenantTag{0x88041bdfcb308d68});
}

TEST(TenantTagTest, OtherNamesHaveOtherTags) {
  EXPECT_NE(TenantTagOf("default"), TenantTagOf("defaul"));
  EXPECT_NE(TenantTagOf("acme"), TenantTagOf("Acme"));
  EXPECT_NE(TenantTagOf(""), TenantTag{});
}

}  // namespace
}  // namespace kvtier

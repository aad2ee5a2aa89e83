#include "tier_disk/cipher/tenant_salt.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvtier {
namespace {

TEST(TenantSaltTest, ASaltComesBackFromItsRow) {
  const TenantSalt salt = DrawTenantSalt("tenant-a");
  const auto decoded = DecodeTenantSalt(TenantSaltRowKey("tenant-a"), EncodeTenantSalt(salt));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->tenant, "tenant-a");
  EXPECT_TRUE(std::equal(salt.salt.bytes().begin(), salt.salt.bytes().end(),
                         decoded->salt.bytes().begin()));
}

TEST(TenantSaltTest, ATenantThatComesBackGetsAnotherSalt) {
  EXPECT_NE(EncodeTenantSalt(DrawTenantSalt("a")), EncodeTenantSalt(DrawTenantSalt("a")));
}

TEST(TenantSaltTest, EveryBitOfARowCounts) {
  std::string value = EncodeTenantSalt(DrawTenantSalt("a"));
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeTenantSalt("ta", value).status())) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_TRUE(DecodeTenantSalt("ta", value).ok());
}

TEST(TenantSaltTest, ARowUnderAnotherTenantsNameIsDamage) {
  const std::string value = EncodeTenantSalt(DrawTenantSalt("a"));
  EXPECT_TRUE(absl::IsDataLoss(DecodeTenantSalt(TenantSaltRowKey("b"), value).status()));
}

TEST(TenantSaltTest, ARowKeyThatIsNoTenantsIsDamage) {
  const std::string value = EncodeTenantSalt(DrawTenantSalt("a"));
  for (const std::string& key : {std::string(), std::string("t"), std::string("ba"),
                                 "t" + std::string(kMaxTenantNameBytes + 1, 'a')}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeTenantSalt(key, value).status())) << key;
  }
}

TEST(TenantSaltTest, AShortOrLongValueIsDamage) {
  const std::string value = EncodeTenantSalt(DrawTenantSalt("a"));
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeTenantSalt("ta", value.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeTenantSalt("ta", value + "x").status()));
}

TEST(TenantSaltTest, ANameHasOneTo63Bytes) {
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateTenantName("")));
  EXPECT_EQ(ValidateTenantName("a"), absl::OkStatus());
  EXPECT_EQ(ValidateTenantName(std::string(63, 'a')), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateTenantName(std::string(64, 'a'))));
}

}  // namespace
}  // namespace kvtier

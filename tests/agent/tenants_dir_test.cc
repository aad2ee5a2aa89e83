// Tests contents that --tenants_dir may have; none of them opens a tenant without a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/agent_config.h"
#include "core/check.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSecret[] = "sixteen bytes or more";

class TenantsDirTest : public ::testing::Test {
 protected:
  TenantsDirTest() {
    char pattern[] = "/tmp/kvtier-tenants-XXXXXX";
    KVT_CHECK(mkdtemp(pattern) != nullptr);
    directory_ = pattern;
  }
  ~TenantsDirTest() override {
    std::error_code ignored;  // A directory left in /tmp fails no test.
    std::filesystem::remove_all(directory_, ignored);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }
  // Expects a refusal with the flag, the directory and these words.
  void ExpectRefused(const std::string& words) {
    const absl::Status refused = ReadTenants(directory_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("--tenants_dir=" + directory_), HasSubstr(words)));
  }
  std::string directory_;
};

TEST_F(TenantsDirTest, WithoutTheFlagOneTenantIsOpen) {
  const auto tenants = ReadTenants("");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 1);
  EXPECT_EQ(tenants->OfDomain(DomainId{0}).name, "default");
}

// If such a directory were not refused, a volume that is not mounted yet would open the node to
// every worker, without a secret.
TEST_F(TenantsDirTest, ADirectoryWithoutTenantsOpensNoDoor) {
  ExpectRefused("no tenant's secret file is there");
  std::filesystem::create_directory(directory_ + "/lost+found");
  std::filesystem::create_directory(directory_ + "/..2026_11_22");
  std::filesystem::create_directory_symlink("..2026_11_22", directory_ + "/..data");
  Write(".hidden", kSecret);
  ExpectRefused("no tenant's secret file is there");
}

TEST_F(TenantsDirTest, AFileWithoutASecretOpensNoDoorEither) {
  for (const char* nothing : {"", "\n"}) {
    Write("default", nothing);
    ExpectRefused("default holds no secret");
  }
}

TEST_F(TenantsDirTest, AMountedSecretIsReadThroughItsLinks) {
  std::filesystem::create_directory(directory_ + "/..2026_11_22");
  std::filesystem::create_directory_symlink("..2026_11_22", directory_ + "/..data");
  Write("..data/acme", std::string(kSecret) + "\n");
  std::filesystem::create_symlink("..data/acme", directory_ + "/acme");
  const auto tenants = ReadTenants(directory_);
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 1);
  EXPECT_EQ(tenants->OfDomain(DomainId{0}).name, "acme");
  EXPECT_EQ(tenants->OfDomain(DomainId{0}).key, TenantKey::FromSecret(kSecret));
}

TEST_F(TenantsDirTest, WhatCannotBeReadIsNamed) {
  Write("acme", kSecret);
  std::filesystem::create_symlink("..data/gone", directory_ + "/beta");
  ExpectRefused(directory_ + "/beta cannot be read: No such file");
  std::filesystem::remove(directory_ + "/beta");
  // A pipe is refused, not read: its writer may never write.
  ASSERT_EQ(mkfifo((directory_ + "/pipe").c_str(), 0600), 0);
  ExpectRefused(directory_ + "/pipe is no plain file");
  std::filesystem::remove(directory_ + "/pipe");
  Write("huge", std::string((64 << 10) + 1, 'x'));
  ExpectRefused("has more than 65536 bytes");
  std::filesystem::remove_all(directory_);
  ExpectRefused("No such file");
}

}  // namespace
}  // namespace kvtier

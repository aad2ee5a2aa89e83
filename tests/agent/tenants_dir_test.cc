// Tests contents that --tenants_dir may have; none of them opens a tenant without a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "agent/agent_config.h"
#include "core/check.h"
#include "core/secret_file.h"

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
    KVT_CHECK(chmod((directory_ + "/" + name).c_str(), 0600) == 0);
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

// `acme~`, which an editor left, stopped the start, and README.md was a tenant.
TEST_F(TenantsDirTest, CopiesAndPagesAreSkippedEachWithALine) {
  Write("acme", kSecret);
  const std::vector<std::string> others = {"acme~",    "acme.bak", "acme.orig",
                                           "acme.swp", "acme.tmp", "README.md"};
  for (const std::string& name : others) Write(name, kSecret);
  ::testing::internal::CaptureStderr();
  const auto tenants = ReadTenants(directory_);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_EQ(tenants->size(), 1);
  for (const std::string& name : others) {
    EXPECT_THAT(log, HasSubstr(directory_ + "/" + name + " is skipped")) << log;
  }
  std::filesystem::remove(directory_ + "/acme");
  ExpectRefused("no tenant's secret file is there");
}

TEST_F(TenantsDirTest, AFileThatOthersMayReadIsRefused) {
  Write("acme", kSecret);
  for (const mode_t mode : {0400, 0440, 0600, 0640}) {
    ASSERT_EQ(chmod((directory_ + "/acme").c_str(), mode), 0);
    EXPECT_TRUE(ReadTenants(directory_).ok()) << mode;
  }
  for (const mode_t mode : {0644, 0444, 0604, 0660}) {
    ASSERT_EQ(chmod((directory_ + "/acme").c_str(), mode), 0);
    ExpectRefused(directory_ + "/acme has mode 0");
  }
}

// The secret was another one when the start read the file between two writes.
TEST_F(TenantsDirTest, AFileThatIsStillWrittenIsWaitedFor) {
  Write("acme", "the first half,");
  std::thread writer([this] {
    absl::SleepFor(kSecretSettleTime / 2);
    std::ofstream(directory_ + "/acme", std::ios::app) << " and the second";
  });
  const auto tenants = ReadTenants(directory_);
  writer.join();
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_EQ(tenants->OfDomain(DomainId{0}).key,
            TenantKey::FromSecret("the first half, and the second"));
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

// Once, a guarantee of 10 GiB on a node of 16 MiB was taken from the file, and cut down in silence.
TEST_F(TenantsDirTest, AFileOfSettingsWhoseGuaranteesDoNotFitTheNodeIsRefused) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  AgentConfig config{.host_bytes = 16 * kMiB,
                     .disk_dirs = {"/a", "/b"},
                     .disk_bytes = {64 * kMiB},
                     .segment_bytes = 8 * kMiB,
                     .gpu_bytes = 4 * kMiB,
                     .device = "cuda:0,cuda:1",
                     .tenant_settings = directory_ + "/settings"};
  const auto refusal = [&](const std::string& text) {
    Write("settings", text);
    return std::string(ReadTenantSettings(config).status().message());
  };
  EXPECT_THAT(refusal("acme host_guaranteed=10GiB"),
              AllOf(HasSubstr("--tenant_settings=" + directory_),
                    HasSubstr("tenant 'acme', host_guaranteed: 10737418240"),
                    HasSubstr("the tier has 16777216")));
  EXPECT_EQ(refusal("acme host_guaranteed=8MiB\nbeta host_guaranteed=8MiB"), "");
  EXPECT_THAT(refusal("acme host_guaranteed=8MiB\nbeta host_guaranteed=9MiB"),
              HasSubstr("tenant 'beta', host_guaranteed: 9437184"));
  // Half of each disk, without the segment that is kept free.
  EXPECT_EQ(refusal("acme disk_guaranteed=56MiB"), "");
  EXPECT_THAT(refusal("acme disk_guaranteed=57MiB"), HasSubstr("the tier has 58720256"));
  EXPECT_EQ(refusal("acme gpu_guaranteed=8MiB"), "");
  EXPECT_THAT(refusal("acme gpu_guaranteed=9MiB"), HasSubstr("gpu_guaranteed"));
  config.gpu_bytes = 0;
  config.disk_dirs.clear();
  EXPECT_EQ(refusal("acme gpu_guaranteed=9MiB disk_guaranteed=57MiB"), "") << "no such tier here";
}

}  // namespace
}  // namespace kvtier

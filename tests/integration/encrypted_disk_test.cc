// Tests an agent whose disk is encrypted, by the programs themselves: restarts with the secret,
// without it and with another one; a tenant that is erased; kvtier-fsck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr absl::Duration kExitLimit = absl::Seconds(20);
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";

class EncryptedDiskTest : public ::testing::Test {
 protected:
  void WriteFile(const std::string& name, const std::string& content) {
    const std::string path = absl::StrCat(cluster_.run_dir(), "/", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path);
    std::ofstream(path) << content;
    ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  }
  void WriteSecret(char byte) { WriteFile("secret/master", std::string(32, byte)); }
  Flags MakeFlags() {
    WriteSecret('a');
    WriteFile("tenants/alpha", kAlphaSecret);
    WriteFile("tenants/beta", kBetaSecret);
    return {{"tenants_dir", cluster_.run_dir() + "/tenants"},
            {"disk_secret_dir", cluster_.run_dir() + "/secret"},
            {"disk_bytes", "12MiB"},
            {"segment_bytes", "2MiB"}};
  }
  TestWorkerOptions Alpha() {
    return {.socket_dir = agent_.socket_dir(), .tenant = "alpha", .secret = kAlphaSecret};
  }
  TestWorkerOptions Beta() {
    return {.socket_dir = agent_.socket_dir(),
            .tenant = "beta",
            .secret = kBetaSecret,
            .tenant_seed = 2};
  }
  struct Ended {
    int status = -1;
    std::string text;
  };
  Ended RunProgram(const std::string& program, std::vector<std::string> words) {
    const std::string log = absl::StrCat(cluster_.run_dir(), "/words-", runs_++, ".log");
    words.insert(words.begin(), ProgramPath(program));
    absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(words, log);
    EXPECT_EQ(process.status(), absl::OkStatus());
    if (!process.ok()) return {};
    return {(*process)->Wait(Patience(kExitLimit)).value_or(-1), FileTail(log, 4000)};
  }

  int runs_ = 0;
  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", MakeFlags());
};

TEST_F(EncryptedDiskTest, ItsBlocksAreHitsAfterKill9AndTheLogSaysThatItIsEncrypted) {
  {
    TestWorker alpha(Alpha());
    ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  TestWorker alpha(Alpha());
  EXPECT_THAT(alpha.Get(kPrefix), SizeIs(kPrefix.count));
  EXPECT_THAT(agent_.LogText(), AllOf(HasSubstr("is encrypted"), HasSubstr("key check ")));
  EXPECT_TRUE(agent_.Status().disks(0).encrypted());
}

TEST_F(EncryptedDiskTest, AnotherSecretIsRefusedAndSaidSo) {
  agent_.Kill();
  WriteSecret('b');
  const absl::Status refused = agent_.Start().status();
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--disk_secret_dir"), HasSubstr(agent_.options().disk_dir)));
}

TEST_F(EncryptedDiskTest, AnErasedTenantMissesAlsoAfterARestartAndTheOtherHits) {
  {
    TestWorker alpha(Alpha());
    TestWorker beta(Beta());
    ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
    ASSERT_EQ(beta.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  ASSERT_TRUE(agent_.AwaitLeases(0));
  const Ended erased = RunProgram("kvtier", {"tenant", "erase", "alpha", "--yes", "-o", "json",
                                             "--agent", agent_.admin_address()});
  EXPECT_EQ(erased.status, 0) << erased.text;
  EXPECT_THAT(erased.text, AllOf(HasSubstr("\"disk_blocks\": 8"), HasSubstr("\"held_blocks\": 0")));
  for (const bool restarted : {false, true}) {
    if (restarted) {
      agent_.Kill();
      ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
    }
    TestWorker alpha(Alpha());
    TestWorker beta(Beta());
    EXPECT_THAT(alpha.Get(kPrefix), IsEmpty());
    EXPECT_THAT(beta.Get(kPrefix), SizeIs(kPrefix.count));
  }
}

TEST_F(EncryptedDiskTest, FsckChecksPayloadsWithTheSecretAndSaysThatItDidNotWithout) {
  {
    TestWorker alpha(Alpha());
    ASSERT_EQ(alpha.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
  }
  agent_.Kill();
  const std::string& disk = agent_.options().disk_dir;
  const Ended with =
      RunProgram("kvtier-fsck", {"--disk_secret_dir", cluster_.run_dir() + "/secret", disk});
  EXPECT_EQ(with.status, 0) << with.text;
  const Ended without = RunProgram("kvtier-fsck", {disk});
  EXPECT_EQ(without.status, 2) << without.text;
  EXPECT_THAT(without.text, HasSubstr("not checked"));
}

}  // namespace
}  // namespace kvtier::testing

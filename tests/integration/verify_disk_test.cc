// Tests an operator's two looks at a disk, by the programs themselves: `kvtier disk verify` of a
// running agent's, kvtier-fsck of a stopped one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/segment_scan.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr absl::Duration kExitLimit = absl::Seconds(20);

class VerifyDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_.AwaitOffloaded());
    agent_.Evict(Tier::kHost);
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
  Ended Verify() {
    return RunProgram("kvtier",
                      {"disk", "verify", "-o", "json", "--agent", agent_.admin_address()});
  }
  Ended Check(std::vector<std::string> words = {}) {
    words.push_back(agent_.options().disk_dir);
    return RunProgram("kvtier-fsck", words);
  }
  void Damage(size_t i) {
    const auto record = FindRecord(agent_.options().disk_dir, worker_.KeyOf(kPrefix.first + i));
    ASSERT_TRUE(record.has_value());
    FlipBit(*record, kRecordHeaderBytes + 40'000);
  }

  int runs_ = 0;
  ProcessCluster cluster_;
  AgentProcess& agent_ =
      cluster_.StartAgent("node-a", {{"disk_bytes", "12MiB"}, {"segment_bytes", "2MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(VerifyDiskTest, ACleanDiskOfARunningAgentIsSaidToBeSo) {
  const Ended ended = Verify();
  EXPECT_EQ(ended.status, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("\"records\": 8,"));
  EXPECT_THAT(ended.text, HasSubstr("\"damaged\": 0,"));
}

TEST_F(VerifyDiskTest, DamageUnderARunningAgentIsFoundBeforeAnybodyReadsIt) {
  Damage(3);
  const Ended ended = Verify();
  EXPECT_EQ(ended.status, 4) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("\"damaged\": 1,"));
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).verify_failures(), 1);
  EXPECT_FALSE(agent_.Holds(Tier::kDisk, worker_.KeyOf(kPrefix.first + 3)));
  EXPECT_THAT(worker_.Get(kPrefix), SizeIs(3));
  EXPECT_EQ(Verify().status, 0);
}

TEST_F(VerifyDiskTest, FsckRefusesARunningAgentsDisk) {
  const Ended ended = Check();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.text, HasSubstr("in use"));
}

TEST_F(VerifyDiskTest, FsckFindsDamageAndItsRepairMakesAMiss) {
  agent_.Kill();
  EXPECT_EQ(Check().status, 0);
  Damage(5);
  const Ended found = Check({"-o", "json"});
  EXPECT_EQ(found.status, 1);
  EXPECT_THAT(found.text, HasSubstr("\"records_damaged\": 1,"));
  EXPECT_THAT(found.text, HasSubstr("\"clean\": false,"));
  EXPECT_EQ(Check({"--repair"}).status, 1);
  EXPECT_EQ(Check().status, 0);
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_THAT(worker_.Get({kPrefix.first + 5, 1}), IsEmpty());
  EXPECT_THAT(worker_.Get({kPrefix.first, 5}), SizeIs(5));
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).verify_failures(), 0);
}

TEST_F(VerifyDiskTest, FsckTellsAWrongCommandLineFromADamagedDisk) {
  EXPECT_EQ(RunProgram("kvtier-fsck", {}).status, 64);
  EXPECT_EQ(Check({"--mend"}).status, 64);
  EXPECT_EQ(Check({"-o", "xml"}).status, 64);
  EXPECT_EQ(RunProgram("kvtier-fsck", {"/nowhere"}).status, 2);
  EXPECT_EQ(RunProgram("kvtier-fsck", {"--help"}).status, 0);
}

}  // namespace
}  // namespace kvtier::testing

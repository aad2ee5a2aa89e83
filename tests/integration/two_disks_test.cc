// Tests a real agent with two disk directories: blocks on both, both recovered after kill -9, and
// the loss of one is the loss of its blocks alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 48};
constexpr char kAgent[] = "node-a";

class TwoDisksTest : public ::testing::Test {
 protected:
  // Puts the prefix on the disks and nowhere else, some of it on each.
  void SetUp() override {
    ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
    ASSERT_TRUE(agent_->AwaitOffloaded());
    agent_->Evict(Tier::kHost);
    const v1::AgentStatusResponse status = agent_->Status();
    ASSERT_EQ(status.disks_size(), 2);
    for (const int disk : {0, 1}) {
      EXPECT_EQ(status.disks(disk).directory(), disk == 0 ? first_ : second_);
      EXPECT_TRUE(status.disks(disk).serving());
      EXPECT_EQ(status.disks(disk).health(), "healthy");
      EXPECT_GT(status.disks(disk).blocks(), 0);
      EXPECT_GT(status.disks(disk).bytes_in(), 0);
    }
    ASSERT_EQ(status.disks(0).blocks() + status.disks(1).blocks(), kPrefix.count);
    on_first_ = status.disks(0).blocks();
    first_id_ = status.disks(0).id();
  }
  // Kills the agent and starts another with these disk directories.
  void RestartOn(const std::string& directories) {
    agent_->Kill();
    agent_ = &cluster_.StartAgent(kAgent, FlagsOf(directories));
    ASSERT_TRUE(worker_.AwaitConnected());
  }
  static Flags FlagsOf(const std::string& directories) {
    return {{"disk_dir", directories}, {"disk_bytes", "16MiB"}, {"segment_bytes", "2MiB"}};
  }
  // Returns how many blocks of the prefix are hits when each is asked for alone.
  size_t Hits() {
    size_t hits = 0;
    for (size_t i = 0; i < kPrefix.count; ++i) hits += worker_.Get({kPrefix.first + i, 1}).size();
    return hits;
  }

  ProcessCluster cluster_;
  const std::string first_ = cluster_.disk_root() + "/first";
  const std::string second_ = cluster_.disk_root() + "/second";
  AgentProcess* agent_ = &cluster_.StartAgent(kAgent, FlagsOf(first_ + "," + second_));
  TestWorker worker_{{.socket_dir = agent_->socket_dir()}};
  size_t on_first_ = 0;  // Number of blocks on the first disk.
  std::string first_id_;
};

TEST_F(TwoDisksTest, BothAreWarmAfterKill9) {
  agent_->Kill();
  ASSERT_EQ(agent_->Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_THAT(worker_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kDisk)));
  const v1::AgentStatusResponse status = agent_->Status();
  EXPECT_EQ(status.disk_recovery().recovered_blocks(), kPrefix.count);
  EXPECT_EQ(status.disks(0).blocks(), on_first_);
  EXPECT_EQ(status.disks(0).id(), first_id_);
  const std::string log = agent_->LogText();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("disk ", first_, " (", first_id_, "): ", on_first_,
                                          " blocks recovered in ")));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("2 disks: ", kPrefix.count, " blocks recovered in ")));
}

TEST_F(TwoDisksTest, OneThatFailsIsQuarantinedAloneAndTheOthersBlocksHit) {
  // Empties the files while the agent runs, so that every read of the second disk ends early.
  for (const auto& file : std::filesystem::directory_iterator(second_ + "/segments")) {
    std::filesystem::resize_file(file.path(), 0);
  }
  EXPECT_TRUE(Await(absl::Seconds(20), [&] {
    EXPECT_EQ(Hits(), on_first_) << "of the first disk, all; of the second, none";
    agent_->Evict(Tier::kHost);
    return !agent_->Status().disks(1).serving();
  }));
  const v1::AgentStatusResponse status = agent_->Status();
  EXPECT_TRUE(status.disks(0).serving());
  EXPECT_EQ(status.disks(1).quarantines(), 1);
  EXPECT_GE(status.disks(1).io_errors(), 16);
  EXPECT_THAT(status.disks(1).health(), HasSubstr("I/Os failed"));
  EXPECT_EQ(agent_->TierStatus(Tier::kDisk).blocks(), on_first_);
  EXPECT_EQ(Hits(), on_first_);
  // Blocks that are put from now on go to the other disk.
  constexpr Blocks kMore = {.first = 1000, .count = 16};
  ASSERT_EQ(worker_.Put(kMore), kMore.count);
  ASSERT_TRUE(agent_->AwaitOffloaded());
  agent_->Evict(Tier::kHost);
  EXPECT_THAT(worker_.Get(kMore), AllOf(SizeIs(kMore.count), Each(BlockSource::kDisk)));
}

TEST_F(TwoDisksTest, WithOneTakenOutTheOthersBlocksHitAndTheOrderDoesNotMatter) {
  RestartOn(first_);
  EXPECT_EQ(Hits(), on_first_);
  EXPECT_EQ(agent_->Status().disks_size(), 1);
  RestartOn(second_ + "," + first_);
  EXPECT_EQ(Hits(), kPrefix.count);
  EXPECT_EQ(agent_->Status().disks(1).id(), first_id_);
}

TEST_F(TwoDisksTest, OneThatCannotBeOpenedStaysOutAndSaysSo) {
  const std::string unmounted = cluster_.disk_root() + "/no/such";
  RestartOn(unmounted + "," + first_);
  EXPECT_EQ(Hits(), on_first_);
  const v1::AgentStatusResponse status = agent_->Status();
  ASSERT_EQ(status.disks_size(), 2);
  EXPECT_FALSE(status.disks(0).serving());
  EXPECT_EQ(status.disks(0).directory(), unmounted);
  EXPECT_THAT(status.disks(0).health(), AllOf(HasSubstr("not open"), HasSubstr(unmounted)));
  EXPECT_TRUE(status.disks(1).serving());
}

TEST_F(TwoDisksTest, ACopyOfADiskIsRefusedByBothNames) {
  agent_->Kill();
  const std::string copy = cluster_.disk_root() + "/copy";
  std::filesystem::copy(first_, copy, std::filesystem::copy_options::recursive);
  AgentProcess& confused = cluster_.AddAgent("node-b", FlagsOf(first_ + "," + copy));
  ASSERT_EQ(confused.Spawn(), absl::OkStatus());
  EXPECT_EQ(confused.process().Wait(absl::Seconds(20)), 1);
  EXPECT_THAT(confused.LogText(), AllOf(HasSubstr(first_), HasSubstr(copy), HasSubstr(first_id_)));
}

TEST_F(TwoDisksTest, ADirectoryWithoutASuperblockIsDroppedAndTheOtherIsNot) {
  agent_->Kill();
  std::filesystem::remove(second_ + "/superblock");
  ASSERT_EQ(agent_->Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_EQ(Hits(), on_first_);
  EXPECT_THAT(agent_->LogText(), HasSubstr(absl::StrCat("disk ", second_, " starts empty")));
}

// The buffered layout is for file systems that refuse O_DIRECT; this one would accept it as well.
TEST(BufferedDiskTest, BlocksAreHitAfterKill9AndTheLogSaysThatItIsBuffered) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(kAgent, {{"disk_buffered", "true"}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(worker.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent.AwaitOffloaded());
  agent.Kill();
  ASSERT_EQ(agent.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker.AwaitConnected());
  EXPECT_THAT(worker.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kDisk)));
  EXPECT_EQ(agent.Status().disks(0).io(), "buffered");
  EXPECT_THAT(agent.LogText(), HasSubstr("is buffered"));
}

}  // namespace
}  // namespace kvtier::testing

// Tests whole commands against scripted servers over real gRPC: what is asked, what is printed, and
// the exit code.
#include "cli/command.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert.h"
#include "tests/testing/fake_admin.h"

namespace kvtier::cli {
namespace {

using kvtier::testing::AdminServer;
using kvtier::testing::FakeAgentAdmin;
using kvtier::testing::FakeCoordinatorAdmin;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Nobody listens on a port that only root could have.
constexpr char kNobody[] = "127.0.0.1:1";
constexpr char kKeyHex[] = "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a";
const std::string kKey(16, '*');

Outcome Kvtier(std::vector<std::string> words) { return RunCommand(words); }

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    agent_.status_response.set_node_id("n1");
    *agent_.status_response.mutable_version() = convert::OurVersion("kvtier-agent 0.1.0");
    *coordinator_.status_response.mutable_version() = agent_.status_response.version();
  }

  FakeAgentAdmin agent_;
  FakeCoordinatorAdmin coordinator_;
  AdminServer agent_server_{&agent_};
  AdminServer coordinator_server_{&coordinator_};
  const std::string agent_at_ = agent_server_.address();
  const std::string coordinator_at_ = coordinator_server_.address();
};

TEST_F(CommandTest, AWrongCommandLineAsksNobody) {
  const Outcome outcome = Kvtier({"status", "--bogus"});
  EXPECT_EQ(outcome.code, ExitCode::kUsage);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(outcome.err, "kvtier: unknown option --bogus; see kvtier help\n");
}

TEST_F(CommandTest, StatusAsksAgentsAndCoordinator) {
  const Outcome outcome =
      Kvtier({"status", "--agent", agent_at_, "--coordinator", coordinator_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, HasSubstr("AGENT  n1  " + agent_at_));
  EXPECT_THAT(outcome.out, HasSubstr("COORDINATOR  " + coordinator_at_));
}

TEST_F(CommandTest, OneOfTwoAgentsDownIsPartial) {
  const Outcome outcome = Kvtier({"status", "--agent", agent_at_, "--agent", kNobody});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("AGENT  n1"));
  EXPECT_THAT(outcome.out, HasSubstr("no agent answers at "));
}

TEST_F(CommandTest, NobodyThereIsUnreachable) {
  for (const char* verb : {"status", "tiers", "tenants", "nodes"}) {
    EXPECT_EQ(Kvtier({verb, "--agent", kNobody}).code, ExitCode::kUnreachable) << verb;
  }
  EXPECT_EQ(Kvtier({"status", "--agent", "/nowhere/kvtier.sock"}).code, ExitCode::kUnreachable);
}

TEST_F(CommandTest, DiskInfoAsksForEachDisk) {
  agent_.status_response.add_disks()->set_directory("/mnt/a");
  agent_.status_response.add_disks()->set_directory("/mnt/b");
  const Outcome outcome = Kvtier({"disk", "info", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("/mnt/a"));
  EXPECT_THAT(outcome.out, HasSubstr("/mnt/b"));
  EXPECT_EQ(Kvtier({"disk", "info", "--agent", kNobody}).code, ExitCode::kUnreachable);
}

TEST_F(CommandTest, TenantsAsksEachAgent) {
  agent_.tenants.set_node_id("n1");
  agent_.tenants.add_tenants()->set_name("acme");
  const Outcome outcome = Kvtier({"tenants", "--agent", agent_at_, "--agent", kNobody});
  EXPECT_EQ(outcome.code, ExitCode::kFailed) << "one of two does not answer";
  EXPECT_THAT(outcome.out, HasSubstr("AGENT  n1  " + agent_at_));
  EXPECT_THAT(outcome.out, HasSubstr("acme"));
}

TEST_F(CommandTest, AnAgentThatHangsIsUnreachableAfterTheTimeout) {
  agent_.hangs = true;
  const absl::Time before = absl::Now();
  const Outcome outcome = Kvtier({"status", "--agent", agent_at_, "--timeout", "200ms"});
  const absl::Duration took = absl::Now() - before;
  agent_.released.Notify();
  EXPECT_EQ(outcome.code, ExitCode::kUnreachable);
  EXPECT_THAT(outcome.out, HasSubstr("no answer in time"));
  EXPECT_GE(took, absl::Milliseconds(200));
  EXPECT_LT(took, absl::Seconds(10));
}

TEST_F(CommandTest, AnAgentOfAnotherProtocolFailsLoudly) {
  agent_.status_response.mutable_version()->set_version(9);
  agent_.status_response.mutable_version()->set_min_version(8);
  const Outcome outcome = Kvtier({"tiers", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("FAILED_PRECONDITION"));
}

TEST_F(CommandTest, NodesFindsTheCoordinatorThroughTheAgent) {
  coordinator_.status_response.add_nodes()->set_node_id("n7");
  agent_.status_response.set_coordinator_address(coordinator_at_);
  const Outcome outcome = Kvtier({"nodes", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("n7"));
}

TEST_F(CommandTest, NodesOfAnAgentThatRunsAloneFails) {
  const Outcome outcome = Kvtier({"nodes", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("runs alone; name a --coordinator"));
}

TEST_F(CommandTest, LookupFindsABlockByItsKey) {
  agent_.blocks[kKey].add_copies()->set_node_id("n1");
  const Outcome outcome = Kvtier({"lookup", "--agent", agent_at_, "--block-key", kKeyHex});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, HasSubstr(kKeyHex));
}

TEST_F(CommandTest, LookupOfWhatNobodyHasIsNotFound) {
  agent_.peer_name = std::string(16, 'n');
  const Outcome outcome = Kvtier({"lookup", "--agent", agent_at_, "--coordinator", coordinator_at_,
                                  "--block-key", kKeyHex, "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::kNotFound);
  EXPECT_THAT(outcome.out, HasSubstr("\"copies\": []"));
}

TEST_F(CommandTest, LookupAsksTheCoordinatorByTheNameThatTheAgentMade) {
  agent_.block_key_of["engine-key"] = kKey;
  agent_.peer_name = std::string(16, 'n');
  coordinator_.blocks[agent_.peer_name].add_copies()->set_node_id("far");
  const Outcome outcome =
      Kvtier({"lookup", "--agent", agent_at_, "--coordinator", coordinator_at_, "--tenant", "t",
              "--space-digest", std::string(64, '0'), "--engine-key", "656e67696e652d6b6579"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("far"));
}

TEST_F(CommandTest, ARefusedLookupIsAFailureNotAMiss) {
  const Outcome outcome = Kvtier({"lookup", "--agent", agent_at_, "--tenant", "t", "--space-digest",
                                  std::string(64, '0'), "--engine-key", "0000000000000000"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("INVALID_ARGUMENT: no such tenant"));
}

TEST_F(CommandTest, EvictEmptiesTheTierThatWasNamed) {
  agent_.evictions[v1::TIER_HOST].set_evicted_blocks(17);
  agent_.evictions[v1::TIER_DISK].set_evicted_blocks(23);
  const Outcome outcome = Kvtier({"evict", "--agent", agent_at_, "--tier", "host", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, HasSubstr("17"));
}

TEST_F(CommandTest, TenantEraseNamesTheTenantAndSaysWhatWent) {
  agent_.erased.set_disk_blocks(17);
  agent_.erased.set_held_blocks(3);
  const Outcome outcome = Kvtier({"tenant", "erase", "acme", "--agent", agent_at_, "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_EQ(agent_.erase_asked.tenant(), "acme");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("17"), HasSubstr("erase again when")));
}

TEST_F(CommandTest, PinsAreListedAndDroppedOfTheTenantThatWasNamed) {
  agent_.kept.set_node_id("n1");
  agent_.kept.add_tenants()->set_tenant("acme");
  const Outcome listed = Kvtier({"pins", "list", "--agent", agent_at_, "--tenant", "acme"});
  EXPECT_EQ(listed.code, ExitCode::kOk);
  EXPECT_EQ(agent_.kept_asked.tenant(), "acme");
  EXPECT_THAT(listed.out, HasSubstr("acme: 0 of 0 pins"));
  agent_.ended.set_ended_prefixes(1);
  const Outcome one =
      Kvtier({"pins", "drop", "--agent", agent_at_, "--tenant", "acme", "--pin", "7"});
  EXPECT_EQ(one.code, ExitCode::kOk);
  EXPECT_EQ(agent_.end_asked.tenant(), "acme");
  EXPECT_EQ(agent_.end_asked.kept_id(), 7u);
  Kvtier({"pins", "drop", "--agent", agent_at_, "--tenant", "acme"});
  EXPECT_EQ(agent_.end_asked.kept_id(), 0u);
}

TEST_F(CommandTest, PrefixDropNamesTheBlockAsItsEngineDoes) {
  agent_.dropped.set_deleted_blocks(17);
  const Outcome outcome =
      Kvtier({"prefix", "drop", "--agent", agent_at_, "--tenant", "acme", "--space-digest",
              std::string(64, '1'), "--engine-key", "0011223344556677", "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, HasSubstr("17"));
  EXPECT_EQ(agent_.drop_asked.tenant(), "acme");
  EXPECT_EQ(agent_.drop_asked.space_digest(), std::string(32, '\x11'));
  EXPECT_EQ(agent_.drop_asked.engine_key().size(), 8u);
}

TEST_F(CommandTest, TenantEraseOfANameThatNoAgentKnowsSaysSo) {
  agent_.status = {grpc::StatusCode::NOT_FOUND, "tenant: 'acne' is not configured"};
  const Outcome outcome = Kvtier({"tenant", "erase", "acne", "--agent", agent_at_, "--yes"});
  EXPECT_EQ(outcome.code, ExitCode::kNotFound);
  EXPECT_THAT(outcome.out, HasSubstr("not known here"));
}

v1::GpuPoolSize PoolOf(uint64_t gib, uint64_t target_gib) {
  v1::GpuPoolSize size;
  size.set_bytes(gib << 30);
  size.set_target_bytes(target_gib << 30);
  size.set_max_bytes(uint64_t{8} << 30);
  size.set_handle_bytes(uint64_t{1} << 30);
  return size;
}

TEST_F(CommandTest, GpuResizeSaysHowLargeThePoolIsAndIsToBe) {
  *agent_.resized.mutable_size() = PoolOf(4, 4);
  const Outcome outcome = Kvtier({"gpu", "resize", "4GiB", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_EQ(agent_.resize_asked.bytes(), uint64_t{4} << 30);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("4.00 GiB  4.00 GiB  8.00 GiB\n"), Not(HasSubstr("rounded"))));
}

TEST_F(CommandTest, GpuResizeSaysWhatAShrinkingPoolWaitsFor) {
  *agent_.resized.mutable_size() = PoolOf(4, 1);
  agent_.resized.mutable_size()->set_slots_in_use(17);
  agent_.resized.mutable_size()->set_workers(2);
  const Outcome outcome = Kvtier({"gpu", "resize", "1536MiB", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << "it is in progress";
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("waits for 17 slots of 2 workers"),
                                 HasSubstr("rounded down to handles of 1.00 GiB")));
}

TEST_F(CommandTest, GpuResizeFailsWithTheAgentsReason) {
  *agent_.resized.mutable_size() = PoolOf(4, 4);
  agent_.resized.mutable_size()->set_failure("no memory");
  const std::vector<std::string> words = {"gpu", "resize", "8GiB", "--agent", agent_at_};
  EXPECT_EQ(Kvtier(words).code, ExitCode::kFailed);
  EXPECT_THAT(Kvtier(words).out, HasSubstr("no memory"));
  agent_.status = {grpc::StatusCode::INVALID_ARGUMENT, "bytes: 1 is too few"};
  EXPECT_EQ(Kvtier(words).code, ExitCode::kFailed);
  EXPECT_THAT(Kvtier(words).out, HasSubstr("bytes: 1 is too few"));
}

TEST_F(CommandTest, GpuResizeNamesOneOfSeveralGpus) {
  *agent_.resized.mutable_size() = PoolOf(4, 4);
  const std::string uuid = "GPU-656d756c-6174-6564-0000-000000000001";
  std::vector<std::string> words = {"gpu", "resize", "4GiB", "--agent", agent_at_};
  EXPECT_EQ(Kvtier(words).code, ExitCode::kOk);
  EXPECT_EQ(agent_.resize_asked.device(), "");
  words.insert(words.end(), {"--device", uuid});
  EXPECT_EQ(Kvtier(words).code, ExitCode::kOk);
  EXPECT_EQ(agent_.resize_asked.device(), uuid);
}

TEST_F(CommandTest, GpuResizeSaysWhichGpusThereAre) {
  const std::string uuid = "GPU-656d756c-6174-6564-0000-000000000001";
  agent_.status = {grpc::StatusCode::INVALID_ARGUMENT,
                   "device: name one of this node's GPUs: " + uuid};
  const Outcome none_named = Kvtier({"gpu", "resize", "4GiB", "--agent", agent_at_});
  EXPECT_EQ(none_named.code, ExitCode::kFailed);
  EXPECT_THAT(none_named.out, HasSubstr("name one of this node's GPUs: " + uuid));
  agent_.status = {grpc::StatusCode::NOT_FOUND, "device: X is none of this node's GPUs: " + uuid};
  const Outcome unknown = Kvtier({"gpu", "resize", "4GiB", "--agent", agent_at_, "--device", uuid});
  EXPECT_EQ(unknown.code, ExitCode::kNotFound);
  EXPECT_THAT(unknown.out, HasSubstr("none of this node's GPUs: " + uuid));
}

TEST_F(CommandTest, GpuResizeHasJson) {
  *agent_.resized.mutable_size() = PoolOf(2, 1);
  const Outcome outcome = Kvtier({"gpu", "resize", "1GiB", "--agent", agent_at_, "-o", "json"});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\"bytes\": 2147483648"), HasSubstr("\"target_bytes\": 1073741824"),
                    HasSubstr("\"slots_in_use\": 0"), HasSubstr("\"failure\": \"\"")));
}

v1::DiskVerify DiskPass(uint64_t pass, bool running, uint64_t records, uint64_t damaged) {
  v1::DiskVerify disk;
  disk.set_disk("/var/lib/kvtier");
  disk.set_pass(pass);
  disk.set_running(running);
  disk.set_segments(8);
  disk.set_segments_done(running ? 3 : 8);
  disk.mutable_counts()->set_records(records);
  disk.mutable_counts()->set_damaged(damaged);
  return disk;
}

TEST_F(CommandTest, DiskVerifyFollowsThePassToItsEnd) {
  *agent_.verify_began.add_disks() = DiskPass(4, true, 0, 0);
  *agent_.verify_steps.emplace_back().add_disks() = DiskPass(4, true, 10, 0);
  *agent_.verify_steps.emplace_back().add_disks() = DiskPass(4, false, 25, 0);
  std::vector<std::string> lines;
  const std::vector<std::string> words = {"disk", "verify", "--rate", "2MiB", "--agent", agent_at_};
  const Outcome outcome =
      RunCommand(words, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_EQ(agent_.verify_asked.bytes_per_second(), 2 << 20);
  EXPECT_THAT(outcome.out, HasSubstr("/var/lib/kvtier       25"));
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[1], "segment 3 of 8: 10 records, 0 B verified, 0 damaged");
}

TEST_F(CommandTest, DamageFoundByDiskVerifyIsAnExitCodeOfItsOwn) {
  *agent_.verify_began.add_disks() = DiskPass(1, false, 25, 2);
  agent_.verify_began.add_were_running("/var/lib/kvtier");
  const Outcome outcome = Kvtier({"disk", "verify", "--agent", agent_at_, "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::kDamaged);
  EXPECT_THAT(outcome.out, HasSubstr("\"damaged\": 2,"));
  EXPECT_THAT(outcome.out, HasSubstr("\"was_running\": true,"));
}

TEST_F(CommandTest, ADiskThatIsNotOpenIsAFailureAndTheOthersAreVerified) {
  *agent_.verify_began.add_disks() = DiskPass(1, false, 25, 0);
  v1::DiskVerify* const out = agent_.verify_began.add_disks();
  out->set_disk("/mnt/gone");
  out->set_error("not open: the drive is gone");
  const Outcome outcome = Kvtier({"disk", "verify", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("25"));
  EXPECT_THAT(outcome.out, HasSubstr("not open: the drive is gone"));
}

TEST_F(CommandTest, APassThatIsLostIsAFailureAndNotACleanDisk) {
  *agent_.verify_began.add_disks() = DiskPass(2, true, 5, 0);
  *agent_.verify_steps.emplace_back().add_disks() = DiskPass(0, false, 0, 0);
  const Outcome outcome = Kvtier({"disk", "verify", "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("was lost"));
}

TEST_F(CommandTest, ASettingThatIsSetIsThere) {
  EXPECT_EQ(Kvtier({"settings", "set", "a=1", "--coordinator", coordinator_at_}).code,
            ExitCode::kOk);
  EXPECT_EQ(Kvtier({"settings", "set", "b=2", "--coordinator", coordinator_at_}).code,
            ExitCode::kOk);
  EXPECT_EQ(Kvtier({"settings", "--coordinator", coordinator_at_}).out,
            "NAME  VALUE\na     1\nb     2\n");
  EXPECT_EQ(Kvtier({"settings", "get", "b", "--coordinator", coordinator_at_}).out,
            "NAME  VALUE\nb     2\n");
}

TEST_F(CommandTest, ASettingThatIsNotThereIsNotFound) {
  const Outcome outcome = Kvtier({"settings", "get", "gone", "--coordinator", coordinator_at_});
  EXPECT_EQ(outcome.code, ExitCode::kNotFound);
  EXPECT_THAT(outcome.err, HasSubstr("no setting is called 'gone'"));
}

TEST_F(CommandTest, ARefusedSettingFailsWithTheCoordinatorsWords) {
  const Outcome outcome = Kvtier({"settings", "set", "frozen=1", "--coordinator", coordinator_at_});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("frozen cannot be set"));
}

// The command passes on the answer of a door that is not the operators', with an exit code of its
// own.
TEST_F(CommandTest, WhatIsAskedAtTheWrongDoorNamesTheRightOne) {
  agent_.status = {grpc::StatusCode::PERMISSION_DENIED, "unix:/run/kvtier/kvtier-admin.sock"};
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"evict", "--tier", "host", "--yes"},
        {"lookup", "--block-key", kKeyHex},
        {"gpu", "resize", "1GiB"},
        {"disk", "verify"},
        {"tenant", "erase", "acme", "--yes"}}) {
    std::vector<std::string> asked = words;
    asked.insert(asked.end(), {"--agent", agent_at_});
    const Outcome outcome = Kvtier(asked);
    EXPECT_EQ(outcome.code, ExitCode::kWrongDoor) << words[0];
    EXPECT_THAT(outcome.out, HasSubstr("unix:/run/kvtier/kvtier-admin.sock")) << words[0];
  }
}

TEST_F(CommandTest, ASocketWithoutAnswersForOperatorsIsTheWrongDoor) {
  const Outcome outcome = Kvtier({"status", "--agent", coordinator_at_});
  EXPECT_EQ(outcome.code, ExitCode::kWrongDoor);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("not answered at this address"), HasSubstr("kvtier-admin.sock")));
}

TEST(Command, VersionAndHelpAskNobody) {
  EXPECT_THAT(Kvtier({"version"}).out, HasSubstr("speaks protocol 1 to 1, layout "));
  EXPECT_THAT(Kvtier({"version", "-o", "json"}).out, HasSubstr("\"protocol_version\": 1"));
  EXPECT_THAT(Kvtier({"help"}).out, HasSubstr("Exit codes:"));
}

TEST_F(CommandTest, TenantsSetSaysWhatIsToChangeAndSendsTheSecret) {
  const std::string file = ::testing::TempDir() + "kvtier-secret";
  std::ofstream(file) << "sixteen bytes or more\n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  const Outcome outcome = Kvtier(
      {"tenants", "set", "acme", "--host_weight=3", "--secret_file", file, "--agent", agent_at_});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.out << outcome.err;
  EXPECT_EQ(agent_.set_asked.secret(), "sixteen bytes or more");
  EXPECT_EQ(agent_.set_asked.settings().name(), "acme");
  ASSERT_EQ(agent_.set_asked.settings().values_size(), 1);
  EXPECT_EQ(agent_.set_asked.settings().values(0).value(), 3u);
  EXPECT_THAT(outcome.out, HasSubstr("acme"));
  const Outcome nothing =
      Kvtier({"tenants", "set", "acme", "--secret_file", file + ".gone", "--agent", agent_at_});
  EXPECT_EQ(nothing.code, ExitCode::kUsage);
  EXPECT_THAT(nothing.err, HasSubstr(file + ".gone"));
}

TEST_F(CommandTest, TenantsDescribeAndDropAskAboutOne) {
  agent_.tenants.set_node_id("n1");
  agent_.tenants.add_tenants()->set_name("acme");
  const Outcome known = Kvtier({"tenants", "describe", "acme", "--agent", agent_at_});
  EXPECT_EQ(known.code, ExitCode::kOk);
  EXPECT_THAT(known.out, HasSubstr("AGENT  n1"));
  const Outcome unknown = Kvtier({"tenants", "describe", "acne", "--agent", agent_at_});
  EXPECT_EQ(unknown.code, ExitCode::kNotFound);
  agent_.tenant_dropped.set_disk_blocks(7);
  const Outcome dropped = Kvtier({"tenants", "drop", "acme", "--yes", "--agent", agent_at_});
  EXPECT_EQ(dropped.code, ExitCode::kOk);
  EXPECT_EQ(agent_.tenant_drop_asked.tenant(), "acme");
  EXPECT_THAT(dropped.out, HasSubstr("7"));
}

TEST_F(CommandTest, TenantsOfACoordinatorAreTheClustersSettings) {
  v1::TenantReport* const acme = coordinator_.tenants.add_tenants();
  acme->set_name("acme");
  coordinator_.tenants.set_settings_version(4);
  const Outcome listed = Kvtier({"tenants", "list", "--coordinator", coordinator_at_});
  EXPECT_EQ(listed.code, ExitCode::kOk);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("acme"), HasSubstr("version 4")));
  EXPECT_THAT(Kvtier({"tenants", "-o", "json", "--coordinator", coordinator_at_}).out,
              HasSubstr("\"settings_version\": 4"));
  const Outcome set =
      Kvtier({"tenants", "set", "acme", "--disk_weight", "2", "--coordinator", coordinator_at_});
  EXPECT_EQ(set.code, ExitCode::kOk);
  EXPECT_THAT(set.out, HasSubstr("COORDINATOR  " + coordinator_at_));
  EXPECT_EQ(coordinator_.set_asked.settings().values(0).value(), 2u);
  EXPECT_EQ(Kvtier({"tenants", "drop", "acme", "--yes", "--coordinator", coordinator_at_}).code,
            ExitCode::kOk);
}

}  // namespace
}  // namespace kvtier::cli

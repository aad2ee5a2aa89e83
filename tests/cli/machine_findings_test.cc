#include "cli/machine_findings.h"

#include <cerrno>
#include <string>

#include "cli/disk_info.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Returns facts of an agent with 4 GiB of host memory and two disks.
NodeFacts WellMachine() {
  NodeFacts facts{.kernel = "6.8.0-18-amd64", .huge_pages = true, .shmem_enabled = "never"};
  v1::AgentStatusResponse status;
  v1::TierReport* const host = status.add_tiers();
  host->set_tier(v1::TIER_HOST);
  host->set_capacity_bytes(4 * kGiB);
  status.add_disks()->set_health(kHealthyDisk);
  status.add_disks()->set_health(kHealthyDisk);
  facts.status = status;
  facts.same_pid_namespace = true;
  facts.same_time_namespace = true;
  facts.disks = {{.directory = "/mnt/a"}};
  return facts;
}

Finding Said(const std::string& check, const NodeFacts& facts) {
  for (const Finding& finding : MachineFindings(facts)) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding of " << check;
  return {};
}

void ExpectSaid(const Finding& finding, Health health, const std::string& detail,
                const std::string& remedy) {
  EXPECT_EQ(finding.health, health) << finding.detail;
  EXPECT_THAT(finding.detail, HasSubstr(detail));
  EXPECT_THAT(finding.remedy, HasSubstr(remedy));
}

TEST(MachineFindings, AWellMachineHasNothingToDo) {
  for (const Finding& finding : MachineFindings(WellMachine())) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.check << ": " << finding.detail;
    EXPECT_THAT(finding.remedy, IsEmpty()) << finding.check;
  }
}

TEST(MachineFindings, AnOldKernelWarns) {
  NodeFacts facts = WellMachine();
  facts.kernel = "5.4.0-100-generic";
  ExpectSaid(Said("kernel", facts), Health::kWarn, "5.4.0", "5.10");
  facts.kernel = "6.1.0";
  EXPECT_EQ(Said("kernel", facts).health, Health::kOk);
}

TEST(MachineFindings, MemlockIsHeldAgainstTheHostTierOnceForEachDisk) {
  NodeFacts facts = WellMachine();
  facts.memlock_of_agent = true;
  facts.memlock_bytes = 8 * kGiB;
  EXPECT_EQ(Said("memlock", facts).health, Health::kOk);
  facts.memlock_bytes = 8 * kGiB - 1;
  ExpectSaid(Said("memlock", facts), Health::kWarn, "for the agent", "8.00 GiB");
  facts.status->clear_disks();
  EXPECT_EQ(Said("memlock", facts).health, Health::kOk) << "nothing is registered without a disk";
  facts.status = absl::UnavailableError("no agent");
  EXPECT_EQ(Said("memlock", facts).health, Health::kOk) << "nothing to hold it against";
}

// Once, a disk that stored nothing was no finding.
TEST(MachineFindings, ADiskOfTheAgentThatIsNotWellIsNamed) {
  NodeFacts facts = WellMachine();
  v1::DiskReport* const disk = facts.status->mutable_disks(1);
  disk->set_directory("/mnt/b");
  disk->set_serving(true);
  disk->set_health("takes no blocks: no room");
  ExpectSaid(Said("agent's disk /mnt/b", facts), Health::kWarn, "takes no blocks: no room", "mend");
  disk->set_serving(false);
  disk->set_health("not open: EIO");
  ExpectSaid(Said("agent's disk /mnt/b", facts), Health::kFail, "not open: EIO", "next start");
}

TEST(MachineFindings, NoMemfdFails) {
  NodeFacts facts = WellMachine();
  facts.memfd_error = EPERM;
  ExpectSaid(Said("memory", facts), Health::kFail, "Operation not permitted", "seccomp");
}

TEST(MachineFindings, ACgroupBelowTheHostTierWarns) {
  NodeFacts facts = WellMachine();
  facts.memory_max_bytes = 4 * kGiB;
  EXPECT_EQ(Said("memory", facts).health, Health::kOk);
  facts.memory_max_bytes = 4 * kGiB - 1;
  ExpectSaid(Said("memory", facts), Health::kWarn, "the host tier 4.00 GiB", "--host_bytes");
}

TEST(MachineFindings, SaysWhereWorkersWriteAndWhoCannot) {
  NodeFacts facts = WellMachine();
  ExpectSaid(Said("worker memory", facts), Health::kOk, "direct", "");
  v1::StagingReport* const staging = facts.status->mutable_staging();
  staging->set_session_bytes(uint64_t{64} << 20);
  staging->set_regions(5);
  ExpectSaid(Said("worker memory", facts), Health::kOk, "staged: 64.0 MiB for each of 5", "");
  staging->set_refused_regions(2);
  ExpectSaid(Said("worker memory", facts), Health::kWarn, "2 so far got none", "--staging_bytes");
  facts.status = absl::UnavailableError("nobody");
  ExpectSaid(Said("worker memory", facts), Health::kOk, "not known", "");
}

TEST(MachineFindings, NoHugePageWarnsWithWhatStandsInItsWay) {
  NodeFacts facts = WellMachine();
  facts.huge_pages = false;
  ExpectSaid(Said("huge pages", facts), Health::kWarn, "gives no 2 MiB pages", "compact_memory");
  facts.shmem_enabled = "deny";
  ExpectSaid(Said("huge pages", facts), Health::kWarn, "shmem_enabled deny", "echo never");
  facts.kernel = "5.15.0";
  ExpectSaid(Said("huge pages", facts), Health::kWarn, "gives no", "Linux 6.1");
}

TEST(MachineFindings, NoRingWarnsWithWhatStandsInItsWay) {
  NodeFacts facts = WellMachine();
  facts.io_uring_error = EPERM;
  ExpectSaid(Said("io_uring", facts), Health::kWarn, "not permitted", "seccomp");
  facts.io_uring_disabled = 2;
  ExpectSaid(Said("io_uring", facts), Health::kWarn, "io_uring_disabled is 2", "sysctl");
  facts.io_uring_disabled = 0;
  facts.io_uring_error = ENOSYS;
  ExpectSaid(Said("io_uring", facts), Health::kWarn, "not implemented", "Linux 5.10");
  facts.io_uring_error = ENOMEM;
  ExpectSaid(Said("io_uring", facts), Health::kWarn, "memory", "RLIMIT_MEMLOCK");
}

TEST(MachineFindings, WithoutPeerPidfdsAnotherPidNamespaceWarns) {
  NodeFacts facts = WellMachine();
  facts.peer_pidfd_error = ENOPROTOOPT;
  EXPECT_EQ(Said("peer pidfd", facts).health, Health::kOk);
  facts.same_pid_namespace = false;
  ExpectSaid(Said("peer pidfd", facts), Health::kWarn, "another PID namespace", "Linux 6.5");
  facts.same_pid_namespace = std::nullopt;
  EXPECT_EQ(Said("peer pidfd", facts).health, Health::kOk);
}

TEST(MachineFindings, AnotherTimeNamespaceFails) {
  NodeFacts facts = WellMachine();
  facts.same_time_namespace = false;
  ExpectSaid(Said("time namespace", facts), Health::kFail, "CLOCK_MONOTONIC", "one time namespace");
  facts.same_time_namespace = std::nullopt;
  EXPECT_EQ(Said("time namespace", facts).health, Health::kOk);
}

TEST(MachineFindings, ADiskThatIsNotWritableOrTakesNoDirectIoFails) {
  NodeFacts facts = WellMachine();
  facts.disks[0].open_error = EACCES;
  ExpectSaid(Said("disk /mnt/a", facts), Health::kFail, "Permission denied", "agent's user");
  facts.disks[0] = {.directory = "/mnt/a", .direct_error = EINVAL};
  ExpectSaid(Said("disk /mnt/a", facts), Health::kFail, "no O_DIRECT", "--disk_buffered");
}

TEST(KernelVersion, IsMajorAndMinor) {
  EXPECT_EQ(KernelVersion("6.1.0-18-amd64"), std::pair(6, 1));
  EXPECT_EQ(KernelVersion("5.10"), std::pair(5, 10));
  EXPECT_EQ(KernelVersion("none"), std::nullopt);
}

}  // namespace
}  // namespace kvtier::cli

#include "cli/machine_findings.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cli/disk_info.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

constexpr std::pair<int, int> kLeastIoUring = {5, 10};
constexpr std::pair<int, int> kLeastCollapse = {6, 1};  // MADV_COLLAPSE of memfds.
constexpr std::pair<int, int> kLeastPeerPidfd = {6, 5};

std::string SystemText(int error) { return std::strerror(error); }

// Returns the capacity of the host tier; nullopt: the agent did not say.
std::optional<uint64_t> HostBytes(const NodeFacts& facts) {
  if (!facts.status.ok()) return std::nullopt;
  for (const v1::TierReport& tier : facts.status->tiers()) {
    if (tier.tier() == v1::TIER_HOST) return tier.capacity_bytes();
  }
  return std::nullopt;
}

bool IsOlder(const NodeFacts& facts, std::pair<int, int> than) {
  const auto version = KernelVersion(facts.kernel);
  return version && *version < than;
}

Finding KernelFinding(const NodeFacts& facts) {
  Finding finding{.check = "kernel", .detail = absl::StrCat("Linux ", facts.kernel)};
  if (IsOlder(facts, kLeastIoUring)) {
    finding.health = Health::kWarn;
    finding.remedy =
        "5.10 or later for io_uring, 6.1 for huge pages, 6.5 for workers in containers";
  }
  return finding;
}

Finding MemlockFinding(const NodeFacts& facts) {
  Finding finding{.check = "memlock"};
  const std::string whose = facts.memlock_of_agent ? "the agent" : "this process";
  if (!facts.memlock_bytes) {
    finding.detail = absl::StrCat("unlimited for ", whose);
    return finding;
  }
  finding.detail = absl::StrCat(BytesText(*facts.memlock_bytes), " for ", whose);
  const std::optional<uint64_t> host = HostBytes(facts);
  if (!host) return finding;
  // The arena is registered with the ring of each disk.
  const uint64_t disks = static_cast<uint64_t>(facts.status->disks().size());
  const uint64_t wanted = *host * std::max<uint64_t>(disks, 1);
  absl::StrAppend(&finding.detail, ", a host tier of ", BytesText(*host), " and ", disks,
                  disks == 1 ? " disk" : " disks");
  if (disks == 0 || *facts.memlock_bytes >= wanted) return finding;
  finding.health = Health::kWarn;
  finding.remedy =
      absl::StrCat("raise RLIMIT_MEMLOCK to ", BytesText(wanted),
                   " (LimitMEMLOCK=infinity) or give CAP_IPC_LOCK: until then disks read "
                   "into memory that is not registered, which costs CPU");
  return finding;
}

Finding MemoryFinding(const NodeFacts& facts) {
  Finding finding{.check = "memory"};
  if (facts.memfd_error != 0) {
    finding.health = Health::kFail;
    finding.detail = absl::StrCat("no sealed memfd: ", SystemText(facts.memfd_error));
    finding.remedy = "let the seccomp profile have memfd_create (deploy/seccomp has one)";
    return finding;
  }
  finding.detail = "memfds can be made";
  const std::optional<uint64_t> host = HostBytes(facts);
  if (!facts.memory_max_bytes || !host) return finding;
  absl::StrAppend(&finding.detail, ", this cgroup has ", BytesText(*facts.memory_max_bytes),
                  ", the host tier ", BytesText(*host));
  if (*facts.memory_max_bytes >= *host) return finding;
  finding.health = Health::kWarn;
  finding.remedy =
      "if the agent runs with this limit, give it --host_bytes and 1 GiB: its arenas count";
  return finding;
}

// Returns whether every session has memory to write in.
Finding WorkerMemoryFinding(const NodeFacts& facts) {
  Finding finding{.check = "worker memory"};
  if (!facts.status.ok()) {
    finding.detail = "not known: the agent does not answer";
    return finding;
  }
  if (!facts.status->has_staging()) {
    finding.detail = "direct: workers write their tenant's arena, and are trusted not to spoil it";
    return finding;
  }
  const v1::StagingReport& staging = facts.status->staging();
  finding.detail = absl::StrCat("staged: ", BytesText(staging.session_bytes()), " for each of ",
                                staging.regions(), " sessions");
  if (staging.refused_regions() == 0) return finding;
  finding.health = Health::kWarn;
  absl::StrAppend(&finding.detail, ", ", staging.refused_regions(), " so far got none");
  finding.remedy =
      "sessions without one put nothing: less --staging_bytes or more --host_bytes, of which a "
      "tenant's regions together are at most its part";
  return finding;
}

Finding HugePageFinding(const NodeFacts& facts) {
  Finding finding{.check = "huge pages"};
  const std::string setting =
      facts.shmem_enabled.empty() ? "no shmem_enabled" : "shmem_enabled " + facts.shmem_enabled;
  if (facts.huge_pages) {
    finding.detail = absl::StrCat("the kernel gives 2 MiB pages for shared memory, ", setting);
    return finding;
  }
  finding.health = Health::kWarn;
  finding.detail = absl::StrCat("the kernel gives no 2 MiB pages for shared memory now, ", setting);
  if (IsOlder(facts, kLeastCollapse)) {
    finding.remedy = "Linux 6.1 or later; disk and GPU work with pages of 4 KiB, at more CPU";
  } else if (facts.shmem_enabled == "deny") {
    finding.remedy =
        "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled (deny refuses "
        "also who asks)";
  } else {
    finding.remedy =
        "free memory in whole pieces (echo 1 > /proc/sys/vm/compact_memory), then "
        "restart the agent";
  }
  return finding;
}

Finding IoUringFinding(const NodeFacts& facts) {
  Finding finding{.check = "io_uring"};
  if (facts.io_uring_error == 0) {
    finding.detail = "a ring can be made";
    return finding;
  }
  finding.health = Health::kWarn;
  finding.detail = absl::StrCat("no ring: ", SystemText(facts.io_uring_error));
  const int disabled = facts.io_uring_disabled.value_or(0);
  if (disabled > 0) {
    absl::StrAppend(&finding.detail, ", kernel.io_uring_disabled is ", disabled);
    finding.remedy =
        "sysctl kernel.io_uring_disabled=0; until then disks are read by threads (pread)";
  } else if (facts.io_uring_error == ENOSYS) {
    finding.remedy =
        "Linux 5.10 or later with io_uring, or a seccomp profile that has it "
        "(deploy/seccomp); until then disks are read by threads (pread)";
  } else if (facts.io_uring_error == ENOMEM) {
    finding.remedy = "raise RLIMIT_MEMLOCK; until then disks are read by threads (pread)";
  } else {
    finding.remedy =
        "let the seccomp profile have io_uring_setup, _enter and _register "
        "(deploy/seccomp); until then disks are read by threads (pread)";
  }
  return finding;
}

// Returns whether an agent sees a worker's end in another PID namespace.
Finding PidfdFinding(const NodeFacts& facts) {
  Finding finding{.check = "peer pidfd"};
  if (facts.peer_pidfd_error == 0) {
    finding.detail = "the agent can watch processes of any PID namespace";
    return finding;
  }
  const bool apart = facts.same_pid_namespace.has_value() && !*facts.same_pid_namespace;
  finding.health = apart ? Health::kWarn : Health::kOk;
  finding.detail = absl::StrCat("no SO_PEERPIDFD: ", SystemText(facts.peer_pidfd_error),
                                apart ? ", and the agent has another PID namespace" : "");
  if (!apart) return finding;
  finding.remedy = absl::StrCat("Linux ", kLeastPeerPidfd.first, ".", kLeastPeerPidfd.second,
                                " or later, or hostPID: until then memory that a dead worker had "
                                "reserved comes back after 30 s");
  return finding;
}

Finding ClockFinding(const NodeFacts& facts) {
  Finding finding{.check = "time namespace"};
  if (!facts.same_time_namespace) {
    finding.detail = "not compared: no agent, or its /proc entry is not for this user";
  } else if (*facts.same_time_namespace) {
    finding.detail = "the agent's, too";
  } else {
    finding.health = Health::kFail;
    finding.detail = "another one than the agent's: leases are compared on CLOCK_MONOTONIC";
    finding.remedy = "run worker and agent in one time namespace, as containers do by default";
  }
  return finding;
}

Finding DiskFinding(const DiskFacts& disk) {
  Finding finding{.check = absl::StrCat("disk ", disk.directory)};
  if (disk.open_error != 0) {
    finding.health = Health::kFail;
    finding.detail = absl::StrCat("not writable: ", SystemText(disk.open_error));
    finding.remedy = "mount it, and give it to the agent's user; run kvtier doctor as that user";
  } else if (disk.direct_error != 0) {
    finding.health = Health::kFail;
    finding.detail = absl::StrCat("writable, no O_DIRECT: ", SystemText(disk.direct_error));
    finding.remedy = "another file system (ext4, XFS), or the agent's --disk_buffered";
  } else {
    finding.detail = "writable, with O_DIRECT";
  }
  return finding;
}

// Adds a finding for each disk of the agent that is not well.
void AddAgentDisks(const NodeFacts& facts, Findings* findings) {
  if (!facts.status.ok()) return;
  for (const v1::DiskReport& disk : facts.status->disks()) {
    if (disk.health() == kHealthyDisk) continue;
    findings->push_back({.check = absl::StrCat("agent's disk ", disk.directory()),
                         .health = disk.serving() ? Health::kWarn : Health::kFail,
                         .detail = disk.health(),
                         .remedy = "mend what it names; a disk that is not open, or not used until "
                                   "the agent restarts, comes back with the agent's next start"});
  }
}

}  // namespace

std::optional<std::pair<int, int>> KernelVersion(const std::string& release) {
  std::pair<int, int> version;
  if (std::sscanf(release.c_str(), "%d.%d", &version.first, &version.second) != 2) {
    return std::nullopt;
  }
  return version;
}

Findings MachineFindings(const NodeFacts& facts) {
  Findings findings = {KernelFinding(facts),       MemlockFinding(facts),  MemoryFinding(facts),
                       WorkerMemoryFinding(facts), HugePageFinding(facts), IoUringFinding(facts),
                       PidfdFinding(facts),        ClockFinding(facts)};
  for (const DiskFacts& disk : facts.disks) findings.push_back(DiskFinding(disk));
  AddAgentDisks(facts, &findings);
  return findings;
}

}  // namespace kvtier::cli

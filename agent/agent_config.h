// AgentConfig is everything an operator can say to kvtier-agent, as flags.
#ifndef KVTIER_AGENT_AGENT_CONFIG_H_
#define KVTIER_AGENT_AGENT_CONFIG_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/disk/disk_admission.h"
#include "agent/flows/host_scrub.h"
#include "agent/limits.h"
#include "agent/tenants.h"
#include "core/eviction_policy.h"
#include "core/free_memory.h"
#include "core/tenant_settings.h"
#include "tier_disk/scrub.h"
#include "tier_host/host_shares.h"

namespace kvtier {

// The memory that workers write when they put blocks into host memory.
enum class WorkerMemory {
  kDirect,  // Workers write in the arena of their tenant.
  kStaged,  // Workers write in a region of their session, from which the agent copies at commit.
};

// Values of --host_memory.
enum class HostMemoryChoice {
  kFixed,   // Each tenant keeps the part that it begins with.
  kMoving,  // Memory moves to the tenants that need it.
  // Same as kMoving if there are tenants, workers write the arena, and there is no GPU pool.
  kAuto,
};

struct AgentConfig {
  std::string node_id;                     // Unique in the cluster; 1..63 of [a-zA-Z0-9._-].
  std::string socket_dir = "/run/kvtier";  // Directory of the Unix sockets; made if missing.
  std::string listen = "127.0.0.1:7301";   // Peers, admin and health, "host:port".
  std::string advertise;    // Address by which other nodes reach `listen`; empty: `listen`.
  std::string coordinator;  // "host:port"; empty: the agent runs alone.
  // Shortest wait for the coordinator to say where blocks are; 1 ms to kMaxLocateGrace.
  absl::Duration locate_grace = kLocateGrace;
  uint64_t host_bytes = uint64_t{1} << 30;   // Host memory of all tenants; touched at start.
  uint64_t host_max_bytes = 0;               // Largest host memory at run time; 0: where
                                             // it moves, kHostGrowth times host_bytes.
                                             // Takes addresses, no memory.
  uint64_t slab_bytes = uint64_t{64} << 20;  // Slab, largest block; 4 KiB multiple, <= host_bytes.
  HostMemoryChoice host_memory = HostMemoryChoice::kAuto;
  WorkerMemory worker_memory = WorkerMemory::kDirect;
  uint64_t staging_bytes = uint64_t{64}
                           << 20;      // Size of each session's region, when workers stage.
  std::vector<std::string> disk_dirs;  // One directory for each disk; empty: no disk tier.
  // Bytes preallocated in each of `disk_dirs`: one size for all of them, or one for each.
  std::vector<uint64_t> disk_bytes = {uint64_t{8} << 30};
  // Directory with the secret by which blocks on disk are sealed (master_secret.h); empty: blocks
  // are stored in the clear.
  std::string disk_secret_dir;
  bool disk_buffered = false;                    // Page cache and fdatasync instead of O_DIRECT.
  uint64_t segment_bytes = uint64_t{256} << 20;  // Unit of reclaim; >= slab_bytes + 4 KiB.
  EvictionPolicies eviction;                     // Order in which blocks leave each tier.
  // Bytes of the KV before a block, on one worker, at which attention costs as much as the rest of
  // computing the block; 0: the order of host memory takes all blocks to cost the same.
  uint64_t attention_bytes = 0;
  // Directory of the file that keeps the lessons of the orders of eviction over a restart; empty:
  // the first of `disk_dirs` or, without one, `socket_dir`.
  std::string lessons_dir;
  // Directory of the file that keeps tenants' settings over a restart; empty: the directory that an
  // empty `lessons_dir` means.
  std::string settings_dir;
  DiskWriteOptions disk_writes;  // Choice of the blocks that each disk writes.
  // Rate of the background verification of records; 0: they are verified only when a scrub is
  // requested.
  uint64_t scrub_bytes_per_second = kScrubBytesPerSecond;
  // Rate of the background verification of blocks in host memory; 0: they are not scrubbed.
  uint64_t host_scrub_bytes_per_second = kHostScrubBytesPerSecond;
  uint64_t gpu_bytes = 0;        // Memory of each GPU's pools; 0: no pool.
  uint64_t gpu_max_bytes = 0;    // Largest size of a pool at run time; 0: gpu_bytes.
                                 // Takes addresses, no memory.
  uint64_t gpu_block_bytes = 0;  // Size of the pools' blocks; needed with gpu_bytes.
  // Tenants that have a pool on each GPU, between which gpu_bytes is divided; empty: the first by
  // name.
  std::vector<std::string> gpu_tenants;
  std::string device = "auto";  // Names of OpenDevices(), separated by commas.
  std::string tenants_dir;      // A file a tenant, its content the secret; empty: the tenant
                                // "default", open to every worker.
  // File of tenants' settings (ParseTenantSettings()), read at the start. Settings made at run time
  // come before those of the file; empty: no file.
  std::string tenant_settings;
  std::vector<uint32_t> allow_uids;  // User ids of workers; empty: the agent's own only.
  int byte_threads = 2;              // Threads for checksums and copies; 1..64.
  bool insecure_listen = false;      // Allows `listen` beyond loopback without TLS.

  // Errors: kInvalidArgument, naming the flag and the value.
  absl::Status Validate() const;
  // Returns whether the limit leaves the agent the memory that it takes at its start. Errors:
  // kInvalidArgument, naming --host_bytes and both numbers.
  absl::Status CheckMemory(const MemoryLimit& limit) const;
  // Returns how many threads the agent may have beside its first.
  size_t ThreadsNeeded() const;
  // Returns how many threads take host memory at the start.
  static size_t HostFillThreads();
  // Returns the directory that `lessons_dir` means.
  std::string LessonsDir() const { return StateDir(lessons_dir); }
  // Returns the directory that `settings_dir` means.
  std::string SettingsDir() const { return StateDir(settings_dir); }
  // Returns what `host_memory` means.
  HostMemory MeantHostMemory() const;
  // Returns what `host_max_bytes` means.
  uint64_t MeantHostMaxBytes() const;
  // Returns the capacity of the n-th directory. REQUIRES: the configuration is valid.
  uint64_t DiskBytesOf(size_t disk) const {
    return disk_bytes.size() == 1 ? disk_bytes[0] : disk_bytes.at(disk);
  }

 private:
  std::string StateDir(const std::string& named) const {
    if (!named.empty()) return named;
    return disk_dirs.empty() ? socket_dir : disk_dirs.front();
  }
  absl::Status ValidateHost() const;
  absl::Status ValidateDisks() const;
  absl::Status ValidateStaging() const;
  absl::Status ValidateGpu() const;
};

// Return and parse the names "direct" and "staged". Errors: kInvalidArgument.
const char* WorkerMemoryName(WorkerMemory memory);
absl::StatusOr<WorkerMemory> ParseWorkerMemory(absl::string_view text);

// Return and parse the names "fixed", "moving" and "auto". Errors: kInvalidArgument.
const char* HostMemoryName(HostMemoryChoice choice);
absl::StatusOr<HostMemoryChoice> ParseHostMemory(absl::string_view text);

// Parse the names that WritePolicyName() and WriteMomentName() return. Errors: kInvalidArgument.
absl::StatusOr<WritePolicy> ParseWritePolicy(absl::string_view text);
absl::StatusOr<WriteMoment> ParseWriteMoment(absl::string_view text);

// Reads the tenants that the agent starts with from `directory` (ReadTenantSecrets()), and logs the
// files that are skipped. Empty: the one open tenant. Errors: kInvalidArgument, naming flag,
// directory and file: a file cannot be read, has a mode that is refused or holds no secret, or the
// directory has none.
absl::StatusOr<TenantTable> ReadTenants(const std::string& directory);

// Reads the file of --tenant_settings; empty: there is none. Errors: kInvalidArgument, naming flag,
// file, line, field and value; or a guarantee with which those of the file do not fit into a tier
// that the node has.
absl::StatusOr<TenantSettingsMap> ReadTenantSettings(const AgentConfig& config);

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_CONFIG_H_

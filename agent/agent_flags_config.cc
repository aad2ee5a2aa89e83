#include "agent/agent_flags_config.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "agent/limits.h"
#include "core/byte_size.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

// Returns the flag's value, or why there is none.
template <typename T>
bool Take(const absl::StatusOr<T>& parsed, T* value, std::string* error) {
  if (parsed.ok()) *value = *parsed;
  if (!parsed.ok()) *error = std::string(parsed.status().message());
  return parsed.ok();
}

// Returns the host's name; empty: it has none, or one too long for a node.
std::string HostName() {
  char name[64] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

// A size flag: "64MiB".
struct ByteSize {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  return Take(ParseBytes(text), &size->bytes, error);
}

std::string AbslUnparseFlag(const ByteSize& size) { return ByteSizeText(size.bytes); }

// "64GiB", or "64GiB,128GiB".
struct ByteSizes {
  std::vector<uint64_t> bytes;
};

bool AbslParseFlag(absl::string_view text, ByteSizes* sizes, std::string* error) {
  sizes->bytes.clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!Take(ParseBytes(part), &sizes->bytes.emplace_back(), error)) return false;
  }
  return true;
}

std::string AbslUnparseFlag(const ByteSizes& sizes) {
  const auto append = [](std::string* out, uint64_t bytes) { out->append(ByteSizeText(bytes)); };
  return absl::StrJoin(sizes.bytes, ",", append);
}

bool AbslParseFlag(absl::string_view text, WritePolicy* policy, std::string* error) {
  return Take(ParseWritePolicy(text), policy, error);
}

std::string AbslUnparseFlag(WritePolicy policy) { return WritePolicyName(policy); }

bool AbslParseFlag(absl::string_view text, WriteMoment* moment, std::string* error) {
  return Take(ParseWriteMoment(text), moment, error);
}

std::string AbslUnparseFlag(WriteMoment moment) { return WriteMomentName(moment); }

bool AbslParseFlag(absl::string_view text, EvictionPolicy* policy, std::string* error) {
  return Take(ParseEvictionPolicy(text), policy, error);
}

std::string AbslUnparseFlag(EvictionPolicy policy) {
  return std::string(EvictionPolicyName(policy));
}

bool AbslParseFlag(absl::string_view text, HostMemoryChoice* choice, std::string* error) {
  return Take(ParseHostMemory(text), choice, error);
}

std::string AbslUnparseFlag(HostMemoryChoice choice) { return HostMemoryName(choice); }

bool AbslParseFlag(absl::string_view text, WorkerMemory* memory, std::string* error) {
  return Take(ParseWorkerMemory(text), memory, error);
}

std::string AbslUnparseFlag(WorkerMemory memory) { return WorkerMemoryName(memory); }

}  // namespace kvtier

// clang-format off
ABSL_FLAG(std::string, node_id, "", "Name of this node, unique in the cluster; empty: the host's name.");
ABSL_FLAG(std::string, socket_dir, "/run/kvtier", "Directory of the workers' two Unix sockets.");
ABSL_FLAG(std::string, listen, "127.0.0.1:7301", "host:port for peers, admin and health.");
ABSL_FLAG(std::string, advertise, "", "host:port by which other nodes reach --listen; empty: the same.");
ABSL_FLAG(std::string, coordinator, "", "host:port of the coordinator; empty: this node runs alone.");
ABSL_FLAG(absl::Duration, locate_grace, kvtier::kLocateGrace, "Shortest wait for the coordinator to say where blocks are, however fast it was so far; give more on loaded machines.");
ABSL_FLAG(kvtier::EvictionPolicy, host_eviction, kvtier::EvictionPolicies().host, "Order in which blocks leave host memory: learnt (those worth least leave first, as their uses tell; follows lru while lru finds more), lru, fifo or priority.");
ABSL_FLAG(kvtier::EvictionPolicy, gpu_eviction, kvtier::EvictionPolicies().gpu, "Order in which blocks leave the GPU pool; takes the same values as --host_eviction.");
ABSL_FLAG(kvtier::EvictionPolicy, disk_eviction, kvtier::EvictionPolicies().disk, "Blocks that a disk keeps when it frees its oldest segment: learnt (those likelier to be used than most; follows lru while lru finds more), lru (those used since they were written), fifo (none) or priority (as lru, the highest priority first).");
ABSL_FLAG(std::string, lessons_dir, "", "Directory of the file eviction_lessons: what the learnt orders know, so that a restarted agent goes on from it; empty: the first --disk_dir, or --socket_dir where there is no disk.");
ABSL_FLAG(std::string, settings_dir, "", "Directory of the file tenant_settings: what `kvtier tenants set` said and what the coordinator did; empty: the first --disk_dir, or --socket_dir where there is no disk.");
ABSL_FLAG(kvtier::ByteSize, attention_bytes, {0}, "KV of one worker in front of a block at which attention costs as much as all else that computes the block: --host_eviction=learnt keeps what costs more. 0: blocks cost the same wherever they are in a prompt.");
ABSL_FLAG(kvtier::ByteSize, host_bytes, {uint64_t{1} << 30}, "Host memory for blocks, touched at start.");
ABSL_FLAG(kvtier::ByteSize, host_max_bytes, {0}, "Host memory that `kvtier host resize` may grow it to if host memory moves (--host_memory), up to 16 times --host_bytes; 0: twice --host_bytes. Reserves addresses only.");
ABSL_FLAG(kvtier::ByteSize, slab_bytes, {uint64_t{64} << 20}, "Largest block, and the unit that block sizes share.");
ABSL_FLAG(kvtier::HostMemoryChoice, host_memory, kvtier::AgentConfig().host_memory, "Whether host memory moves between tenants: moving (what one does not use of its guarantee is lent to others, and taken back), fixed (each keeps the part that it begins with; GPU workers that copy to and from host memory need it) or auto (moving with --tenants_dir, --worker_memory=direct and without --gpu_bytes).");
ABSL_FLAG(kvtier::WorkerMemory, worker_memory, kvtier::AgentConfig().worker_memory, "Where workers write host blocks: direct (in their tenant's arena) or staged (in a region of each session, which the agent copies at commit), for workers that are not trusted.");
ABSL_FLAG(kvtier::ByteSize, staging_bytes, {kvtier::AgentConfig().staging_bytes}, "Size of each session's region with --worker_memory=staged; a tenant's regions together take at most as much as its part of --host_bytes.");
ABSL_FLAG(std::vector<std::string>, disk_dir, {}, "Directories of the disk tier, one a disk, separated by commas; empty: none.");
ABSL_FLAG(kvtier::ByteSizes, disk_bytes, {{uint64_t{8} << 30}}, "Bytes preallocated in each --disk_dir: one size, or one for each.");
ABSL_FLAG(std::string, disk_secret_dir, "", "Directory of the secret (file master) that blocks on disk are encrypted with; empty: they are not.");
ABSL_FLAG(bool, disk_buffered, false, "For file systems without O_DIRECT: disk I/O through the page cache, each write synced.");
ABSL_FLAG(kvtier::ByteSize, segment_bytes, {uint64_t{256} << 20}, "Size of a segment, the unit of reclaim.");
ABSL_FLAG(kvtier::WritePolicy, disk_write_policy, kvtier::DiskWriteOptions().policy, "Which blocks are written to disk: all, second_touch, or predicted_reuse (without --disk_writes_per_day: all).");
ABSL_FLAG(kvtier::WriteMoment, disk_write_moment, kvtier::DiskWriteOptions().moment, "When blocks are written to disk: at their commit (commit), or when they are evicted from host memory (eviction).");
ABSL_FLAG(double, disk_writes_per_day, kvtier::DiskWriteOptions().drive_writes_per_day, "Budget of writes to each disk: how many times --disk_bytes may be written in a day (drive writes per day), 0 to 100; 0: no budget.");
ABSL_FLAG(kvtier::ByteSize, scrub_bytes_per_second, {kvtier::kScrubBytesPerSecond}, "Bytes a second that the agent reads in the background from each disk, to verify its blocks; 0: it verifies them only on `kvtier disk verify`.");
ABSL_FLAG(kvtier::ByteSize, host_scrub_bytes_per_second, {kvtier::kHostScrubBytesPerSecond}, "Bytes a second that the agent reads in the background from host memory, to verify its blocks; 0: none.");
ABSL_FLAG(kvtier::ByteSize, gpu_bytes, {0}, "Device memory of each GPU for blocks; 0: no GPU pool.");
ABSL_FLAG(kvtier::ByteSize, gpu_max_bytes, {0}, "Device memory that `kvtier gpu resize` may grow the pool of each GPU to; 0: --gpu_bytes.");
ABSL_FLAG(kvtier::ByteSize, gpu_block_bytes, {0}, "Size of the blocks in the GPU pools (--gpu_bytes).");
ABSL_FLAG(std::vector<std::string>, gpu_tenants, {}, "Tenants that have a pool on each GPU, such as acme,beta; --gpu_bytes is divided between them by their shares. A process that maps a pool can read all of it, so each tenant has its own. Empty: the first tenant by name.");
ABSL_FLAG(std::string, device, "auto", "auto, cuda:N or emulated; several, each with a pool of its own: cuda:0,cuda:1. Used with --gpu_bytes.");
ABSL_FLAG(std::string, tenants_dir, "", "Directory with a secret file for each tenant, one at least, read every 10 s; empty: one open tenant.");
ABSL_FLAG(std::string, tenant_settings, "", "File of tenants' shares, a line a tenant (acme host_guaranteed=10GiB disk_weight=3), read at the start; what was set at run time holds before it.");
ABSL_FLAG(std::vector<std::string>, allow_uids, {}, "User ids of workers; empty: the agent's own.");
ABSL_FLAG(int, byte_threads, 2, "Threads for checksums and copies.");
ABSL_FLAG(bool, insecure_listen, false, "Allow --listen beyond loopback without TLS.");
// clang-format on

namespace kvtier {

absl::StatusOr<AgentConfig> ConfigFromFlags() {
  AgentConfig config{
      .node_id = absl::GetFlag(FLAGS_node_id),
      .socket_dir = absl::GetFlag(FLAGS_socket_dir),
      .listen = absl::GetFlag(FLAGS_listen),
      .advertise = absl::GetFlag(FLAGS_advertise),
      .coordinator = absl::GetFlag(FLAGS_coordinator),
      .locate_grace = absl::GetFlag(FLAGS_locate_grace),
      .host_bytes = absl::GetFlag(FLAGS_host_bytes).bytes,
      .host_max_bytes = absl::GetFlag(FLAGS_host_max_bytes).bytes,
      .slab_bytes = absl::GetFlag(FLAGS_slab_bytes).bytes,
      .host_memory = absl::GetFlag(FLAGS_host_memory),
      .worker_memory = absl::GetFlag(FLAGS_worker_memory),
      .staging_bytes = absl::GetFlag(FLAGS_staging_bytes).bytes,
      .disk_dirs = absl::GetFlag(FLAGS_disk_dir),
      .disk_bytes = absl::GetFlag(FLAGS_disk_bytes).bytes,
      .disk_secret_dir = absl::GetFlag(FLAGS_disk_secret_dir),
      .disk_buffered = absl::GetFlag(FLAGS_disk_buffered),
      .segment_bytes = absl::GetFlag(FLAGS_segment_bytes).bytes,
      .eviction = {.gpu = absl::GetFlag(FLAGS_gpu_eviction),
                   .host = absl::GetFlag(FLAGS_host_eviction),
                   .disk = absl::GetFlag(FLAGS_disk_eviction)},
      .attention_bytes = absl::GetFlag(FLAGS_attention_bytes).bytes,
      .lessons_dir = absl::GetFlag(FLAGS_lessons_dir),
      .settings_dir = absl::GetFlag(FLAGS_settings_dir),
      .disk_writes = {.policy = absl::GetFlag(FLAGS_disk_write_policy),
                      .moment = absl::GetFlag(FLAGS_disk_write_moment),
                      .drive_writes_per_day = absl::GetFlag(FLAGS_disk_writes_per_day)},
      .scrub_bytes_per_second = absl::GetFlag(FLAGS_scrub_bytes_per_second).bytes,
      .host_scrub_bytes_per_second = absl::GetFlag(FLAGS_host_scrub_bytes_per_second).bytes,
      .gpu_bytes = absl::GetFlag(FLAGS_gpu_bytes).bytes,
      .gpu_max_bytes = absl::GetFlag(FLAGS_gpu_max_bytes).bytes,
      .gpu_block_bytes = absl::GetFlag(FLAGS_gpu_block_bytes).bytes,
      .gpu_tenants = absl::GetFlag(FLAGS_gpu_tenants),
      .device = absl::GetFlag(FLAGS_device),
      .tenants_dir = absl::GetFlag(FLAGS_tenants_dir),
      .tenant_settings = absl::GetFlag(FLAGS_tenant_settings),
      .byte_threads = absl::GetFlag(FLAGS_byte_threads),
      .insecure_listen = absl::GetFlag(FLAGS_insecure_listen)};
  for (const std::string& text : absl::GetFlag(FLAGS_allow_uids)) {
    uint32_t uid = 0;
    if (!absl::SimpleAtoi(text, &uid)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--allow_uids=", text, ": must be numbers of users, for example 1000,1001"));
    }
    config.allow_uids.push_back(uid);
  }
  if (config.node_id.empty()) config.node_id = HostName();
  if (config.allow_uids.empty()) config.allow_uids.push_back(geteuid());
  if (config.advertise.empty()) config.advertise = config.listen;
  KVT_RETURN_IF_ERROR(config.Validate());
  return config;
}

}  // namespace kvtier

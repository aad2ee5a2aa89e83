#include "agent/agent_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/flows/tenant_files.h"
#include "agent/limits.h"
#include "core/address.h"
#include "core/allowed_processors.h"
#include "core/log.h"
#include "core/node.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "tier_disk/directory/segment_files.h"
#include "tier_disk/io/durable_file.h"
#include "tier_disk/io/pread_disk.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {
namespace {

constexpr int kMaxByteThreads = 64;
constexpr size_t kMaxSettingsFileBytes = size_t{1} << 20;
// Divisor of a disk's usable bytes: the quotient can be guaranteed (docs/design/tenants.md,
// "Room").
constexpr uint64_t kGuaranteedDiskPart = 2;

absl::Status Invalid(const char* flag, const std::string& value, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": ", why));
}

// Returns whether `path` is `directory` or lies in it, as far as their names say.
bool IsInside(const std::string& path, const std::string& directory) {
  const auto whole = [](const std::string& name) {
    return (std::filesystem::path(name) / "").lexically_normal();
  };
  const std::filesystem::path inner = whole(path);
  const std::filesystem::path outer = whole(directory);
  // An ending separator is an empty last component.
  return std::mismatch(outer.begin(), std::prev(outer.end()), inner.begin(), inner.end()).first ==
         std::prev(outer.end());
}

// Returns the bytes of the tier that an agent of this configuration can guarantee; 0: it has no
// such tier.
uint64_t GuaranteedAtMost(const AgentConfig& config, Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return config.gpu_bytes * (1 + std::ranges::count(config.device, ','));
    case Tier::kHost:
      return config.host_bytes;
    case Tier::kDisk:
      break;
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < config.disk_dirs.size(); ++i) {
    // One segment is kept free for copies.
    const uint64_t segments = config.DiskBytesOf(i) / config.segment_bytes - 1;
    bytes += segments * config.segment_bytes / kGuaranteedDiskPart;
  }
  return bytes;
}

absl::Status CheckFit(const AgentConfig& config, const TenantSettingsMap& settings) {
  std::vector<TenantSettings> before;
  for (const auto& [name, one] : settings) {
    for (const Tier tier : kAllTiers) {
      const uint64_t bytes = GuaranteedAtMost(config, tier);
      if (bytes == 0) continue;
      KVT_RETURN_IF_ERROR(CheckGuaranteesFit(tier, bytes, one, before));
    }
    before.push_back(one);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AgentConfig::Validate() const {
  if (!NodeId::FromString(node_id).ok()) {
    return Invalid("node_id", node_id, "must be 1 to 63 of [a-zA-Z0-9._-], starting alphanumeric");
  }
  if (socket_dir.empty()) return Invalid("socket_dir", socket_dir, "must name a directory");
  const absl::StatusOr<HostPort> listen_at = ParseHostPort(listen);
  if (!listen_at.ok()) return Invalid("listen", listen, "must be host:port");
  if (!listen_at->IsLoopback() && !insecure_listen) {
    return Invalid("listen", listen,
                   "is beyond loopback and there is no TLS yet; --insecure_listen allows it");
  }
  const std::string& told = advertise.empty() ? listen : advertise;
  const absl::StatusOr<HostPort> told_to_others = ParseHostPort(told);
  if (!told_to_others.ok()) return Invalid("advertise", told, "must be host:port");
  if (!coordinator.empty() && !ParseHostPort(coordinator).ok()) {
    return Invalid("coordinator", coordinator, "must be host:port, or empty to run alone");
  }
  if (!coordinator.empty() && told_to_others->IsWildcard()) {
    return Invalid(
        "advertise", told,
        "is no address that other nodes can connect to; must be one beside --coordinator");
  }
  if (locate_grace < absl::Milliseconds(1) || locate_grace > kMaxLocateGrace) {
    return Invalid("locate_grace", absl::FormatDuration(locate_grace), "must be 1ms to 10s");
  }
  if (slab_bytes == 0 || slab_bytes % kBlockAlignment != 0 || slab_bytes > kMaxBlockBytes) {
    return Invalid("slab_bytes", absl::StrCat(slab_bytes),
                   "must be a positive multiple of 4096, at most 64MiB");
  }
  KVT_RETURN_IF_ERROR(ValidateHost());
  KVT_RETURN_IF_ERROR(ValidateStaging());
  KVT_RETURN_IF_ERROR(ValidateDisks());
  KVT_RETURN_IF_ERROR(ValidateGpu());
  if (byte_threads < 1 || byte_threads > kMaxByteThreads) {
    return Invalid("byte_threads", absl::StrCat(byte_threads), "must be 1 to 64");
  }
  return absl::OkStatus();
}

absl::Status AgentConfig::ValidateHost() const {
  if (host_bytes < slab_bytes) {
    return Invalid("host_bytes", absl::StrCat(host_bytes), "must hold one slab (--slab_bytes)");
  }
  if (host_max_bytes == 0) return absl::OkStatus();
  const std::string most = absl::StrCat(host_max_bytes);
  if (MeantHostMemory() == HostMemory::kFixed) {
    return Invalid("host_max_bytes", most,
                   "is of no use where host memory is fixed; --host_memory=moving lets it grow");
  }
  if (host_max_bytes < host_bytes) {
    return Invalid("host_max_bytes", most,
                   absl::StrCat("must be at least --host_bytes=", host_bytes).c_str());
  }
  if (host_max_bytes / kMaxHostGrowth > host_bytes) {
    return Invalid("host_max_bytes", most,
                   absl::StrCat("must be at most ", kMaxHostGrowth, " times --host_bytes=",
                                host_bytes, "; each tenant has a table of its slabs")
                       .c_str());
  }
  return absl::OkStatus();
}

absl::Status AgentConfig::ValidateStaging() const {
  if (worker_memory != WorkerMemory::kStaged) return absl::OkStatus();
  if (host_memory == HostMemoryChoice::kMoving) {
    return Invalid("host_memory", HostMemoryName(host_memory),
                   "is not for --worker_memory=staged: the kernel keeps sealed memory where it is; "
                   "make it fixed");
  }
  if (staging_bytes < slab_bytes || staging_bytes > kMaxStagingBytes ||
      staging_bytes % kBlockAlignment != 0) {
    return Invalid("staging_bytes", absl::StrCat(staging_bytes),
                   absl::StrCat("must be a multiple of 4096, at least --slab_bytes=", slab_bytes,
                                ", at most 64GiB")
                       .c_str());
  }
  if (gpu_bytes > 0) {
    return Invalid(
        "worker_memory", WorkerMemoryName(worker_memory),
        "is not for a node with --gpu_bytes: workers map that pool to write it; make it direct");
  }
  return absl::OkStatus();
}

absl::Status AgentConfig::ValidateGpu() const {
  if (gpu_bytes > 0 && (gpu_block_bytes == 0 || SlotBytes(gpu_block_bytes) > gpu_bytes)) {
    return Invalid("gpu_block_bytes", absl::StrCat(gpu_block_bytes),
                   "must be the size of the blocks that --gpu_bytes is for");
  }
  if (gpu_max_bytes == 0) return absl::OkStatus();
  const std::string most = absl::StrCat(gpu_max_bytes);
  if (gpu_tenants.size() > 1) {
    return Invalid("gpu_max_bytes", most,
                   "is of no use with several --gpu_tenants, whose pools change their size within "
                   "--gpu_bytes; leave it out");
  }
  if (gpu_bytes == 0) return Invalid("gpu_max_bytes", most, "is of no use without --gpu_bytes");
  if (gpu_max_bytes < gpu_bytes) {
    return Invalid("gpu_max_bytes", most,
                   absl::StrCat("must be at least --gpu_bytes=", gpu_bytes).c_str());
  }
  // A handle is no larger than the pool at its start.
  if (gpu_max_bytes / kMaxRegionHandles > gpu_bytes) {
    return Invalid(
        "gpu_max_bytes", most,
        absl::StrCat("must be at most ", kMaxRegionHandles, " times --gpu_bytes=", gpu_bytes)
            .c_str());
  }
  if (gpu_max_bytes / SlotBytes(gpu_block_bytes) >= ~uint32_t{0}) {
    return Invalid("gpu_max_bytes", most,
                   "makes more slots of --gpu_block_bytes than 2^32 - 2; make it smaller");
  }
  return absl::OkStatus();
}

absl::Status AgentConfig::ValidateDisks() const {
  // Negated, so that a NaN is refused as well.
  if (const double writes = disk_writes.drive_writes_per_day;
      !(writes >= 0 && writes <= kMaxDriveWritesPerDay)) {
    return Invalid("disk_writes_per_day", absl::StrCat(writes),
                   absl::StrCat("must be 0 (no budget) to ", kMaxDriveWritesPerDay).c_str());
  }
  if (disk_dirs.empty()) {
    if (disk_secret_dir.empty()) return absl::OkStatus();
    return Invalid("disk_secret_dir", disk_secret_dir,
                   "is of no use without --disk_dir; give both");
  }
  const std::string all = absl::StrJoin(disk_dirs, ",");
  if (disk_dirs.size() > kMaxDisks) return Invalid("disk_dir", all, "must name 32 at most");
  for (size_t i = 0; i < disk_dirs.size(); ++i) {
    if (disk_dirs[i].empty()) return Invalid("disk_dir", all, "has an empty name; leave it out");
    for (size_t j = 0; j < i; ++j) {
      if (IsInside(disk_dirs[i], disk_dirs[j]) || IsInside(disk_dirs[j], disk_dirs[i])) {
        return Invalid(
            "disk_dir", all,
            absl::StrCat(disk_dirs[j], " and ", disk_dirs[i],
                         " are the same directory, or one lies in the other; name separate ones")
                .c_str());
      }
    }
  }
  for (const std::string& directory : disk_dirs) {
    if (!disk_secret_dir.empty() && IsInside(disk_secret_dir, directory)) {
      return Invalid(
          "disk_secret_dir", disk_secret_dir,
          "lies in a directory of --disk_dir, with which it could be stolen; keep it elsewhere");
    }
  }
  if (disk_bytes.size() != 1 && disk_bytes.size() != disk_dirs.size()) {
    return Invalid("disk_bytes", absl::StrJoin(disk_bytes, ","),
                   absl::StrCat("must be one size, or one for each of the ", disk_dirs.size(),
                                " directories of --disk_dir")
                       .c_str());
  }
  if (segment_bytes % kBlockAlignment != 0 || segment_bytes < slab_bytes + kBlockAlignment) {
    return Invalid("segment_bytes", absl::StrCat(segment_bytes),
                   "must be a multiple of 4096 and hold a block of --slab_bytes and its header");
  }
  for (const uint64_t bytes : disk_bytes) {
    if (bytes < 3 * segment_bytes) {
      return Invalid("disk_bytes", absl::StrCat(bytes),
                     "must hold three segments (--segment_bytes): one to write, one to reclaim");
    }
    if (bytes / segment_bytes > kMaxSegments) {
      return Invalid(
          "segment_bytes", absl::StrCat(segment_bytes),
          "makes more segments of --disk_bytes than a disk can have (65536); make it larger");
    }
  }
  return absl::OkStatus();
}

absl::Status AgentConfig::CheckMemory(const MemoryLimit& limit) const {
  const std::vector<absl::string_view> devices = absl::StrSplit(device, ',');
  const uint64_t emulated = gpu_bytes * std::ranges::count(devices, absl::string_view("emulated"));
  const uint64_t beside = kMemoryAtStart + emulated + disk_dirs.size() * kMaxMemoryPerDisk;
  if (host_bytes <= limit.bytes && beside <= limit.bytes - host_bytes) return absl::OkStatus();
  return Invalid("host_bytes", absl::StrCat(host_bytes),
                 absl::StrCat("with ", beside, " bytes beside it the agent needs ",
                              host_bytes + beside, " bytes of memory, and ", limit.file, " is ",
                              limit.bytes, "; lower it or raise that limit")
                     .c_str());
}

size_t AgentConfig::ThreadsNeeded() const {
  const size_t per_disk = disk_buffered ? size_t{kPreadThreads} + 1 : kThreadsPerDisk;
  // No fetch runs yet while the agent starts.
  const size_t at_a_time = std::max(kMaxFetchesRunning, HostFillThreads());
  return kOwnThreads + at_a_time + static_cast<size_t>(byte_threads) + kHostMemoryThreads +
         disk_dirs.size() * per_disk + kLibraryThreads +
         kLibraryThreadsPerCore * std::thread::hardware_concurrency();
}

size_t AgentConfig::HostFillThreads() { return std::min(AllowedProcessors(), kMaxHostFillThreads); }

HostMemory AgentConfig::MeantHostMemory() const {
  if (host_memory == HostMemoryChoice::kFixed) return HostMemory::kFixed;
  if (host_memory == HostMemoryChoice::kMoving) return HostMemory::kMoving;
  const bool moves =
      !tenants_dir.empty() && worker_memory == WorkerMemory::kDirect && gpu_bytes == 0;
  return moves ? HostMemory::kMoving : HostMemory::kFixed;
}

uint64_t AgentConfig::MeantHostMaxBytes() const {
  if (MeantHostMemory() == HostMemory::kFixed) return host_bytes;
  return host_max_bytes > 0 ? host_max_bytes : kHostGrowth * host_bytes;
}

const char* HostMemoryName(HostMemoryChoice choice) {
  switch (choice) {
    case HostMemoryChoice::kFixed:
      return "fixed";
    case HostMemoryChoice::kMoving:
      return "moving";
    case HostMemoryChoice::kAuto:
      break;
  }
  return "auto";
}

absl::StatusOr<HostMemoryChoice> ParseHostMemory(absl::string_view text) {
  for (const HostMemoryChoice choice :
       {HostMemoryChoice::kFixed, HostMemoryChoice::kMoving, HostMemoryChoice::kAuto}) {
    if (text == HostMemoryName(choice)) return choice;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "'; must be fixed, moving or auto"));
}

const char* WorkerMemoryName(WorkerMemory memory) {
  return memory == WorkerMemory::kStaged ? "staged" : "direct";
}

absl::StatusOr<WorkerMemory> ParseWorkerMemory(absl::string_view text) {
  for (const WorkerMemory memory : {WorkerMemory::kDirect, WorkerMemory::kStaged}) {
    if (text == WorkerMemoryName(memory)) return memory;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "'; must be direct or staged"));
}

absl::StatusOr<WritePolicy> ParseWritePolicy(absl::string_view text) {
  for (const WritePolicy policy :
       {WritePolicy::kAll, WritePolicy::kSecondTouch, WritePolicy::kPredictedReuse}) {
    if (text == WritePolicyName(policy)) return policy;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "'; must be all, second_touch or predicted_reuse"));
}

absl::StatusOr<WriteMoment> ParseWriteMoment(absl::string_view text) {
  for (const WriteMoment moment : {WriteMoment::kAtCommit, WriteMoment::kAtEviction}) {
    if (text == WriteMomentName(moment)) return moment;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "'; must be commit or eviction"));
}

absl::StatusOr<TenantTable> ReadTenants(const std::string& directory) {
  if (directory.empty()) return TenantTable::Create({{.name = std::string(kOpenTenant)}});
  const absl::StatusOr<std::vector<TenantSecret>> secrets = ReadTenantSecrets(directory);
  if (!secrets.ok()) {
    return Invalid("tenants_dir", directory, std::string(secrets.status().message()).c_str());
  }
  std::vector<TenantTable::Entry> entries;
  for (const TenantSecret& tenant : *secrets) {
    if (absl::IsFailedPrecondition(tenant.secret.status())) {
      Log(LogLevel::kWarning, absl::StrCat("--tenants_dir: ", tenant.secret.status().message()));
      continue;
    }
    if (!tenant.secret.ok()) {
      return Invalid("tenants_dir", directory,
                     std::string(tenant.secret.status().message()).c_str());
    }
    entries.push_back({.name = tenant.name, .secret = *tenant.secret});
  }
  if (entries.empty()) {
    // A volume that is not mounted yet must not open the node to everybody.
    return Invalid("tenants_dir", directory,
                   "no tenant's secret file is there (is it mounted?); without the flag, tenant "
                   "\"default\" is open to every worker");
  }
  return TenantTable::Create(entries);
}

absl::StatusOr<TenantSettingsMap> ReadTenantSettings(const AgentConfig& config) {
  const std::string& path = config.tenant_settings;
  if (path.empty()) return TenantSettingsMap();
  const auto bytes = ReadFileStart(path, kMaxSettingsFileBytes + 1);
  if (!bytes.ok()) {
    return Invalid("tenant_settings", path, std::string(bytes.status().message()).c_str());
  }
  if (!bytes->has_value()) return Invalid("tenant_settings", path, "must be a file that exists");
  if ((*bytes)->size() > kMaxSettingsFileBytes) {
    return Invalid("tenant_settings", path, "must have 1 MiB at most");
  }
  absl::StatusOr<TenantSettingsMap> settings =
      ParseTenantSettings({reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size()});
  if (!settings.ok()) {
    return Invalid("tenant_settings", path, std::string(settings.status().message()).c_str());
  }
  if (const absl::Status fits = CheckFit(config, *settings); !fits.ok()) {
    return Invalid("tenant_settings", path, std::string(fits.message()).c_str());
  }
  return settings;
}

}  // namespace kvtier

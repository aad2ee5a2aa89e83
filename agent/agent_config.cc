#include "agent/agent_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/address.h"
#include "core/node.h"
#include "core/space.h"
#include "tier_disk/segment_files.h"

namespace kvtier {
namespace {

constexpr int kMaxByteThreads = 64;

absl::Status Invalid(const char* flag, const std::string& value, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": ", why));
}

}  // namespace

absl::Status AgentConfig::Validate() const {
  if (!NodeId::FromString(node_id).ok()) {
    return Invalid("node_id", node_id, "1 to 63 of [a-zA-Z0-9._-], starting alphanumeric");
  }
  if (socket_dir.empty()) return Invalid("socket_dir", socket_dir, "must be a directory");
  const absl::StatusOr<HostPort> listen_at = ParseHostPort(listen);
  if (!listen_at.ok()) return Invalid("listen", listen, "must be host:port");
  if (!listen_at->IsLoopback() && !insecure_listen) {
    return Invalid("listen", listen,
                   "is beyond loopback and there is no TLS yet; --insecure_listen allows it");
  }
  if (!advertise.empty() && !ParseHostPort(advertise).ok()) {
    return Invalid("advertise", advertise, "must be host:port");
  }
  if (!coordinator.empty() && !ParseHostPort(coordinator).ok()) {
    return Invalid("coordinator", coordinator, "must be host:port, or empty to run alone");
  }
  if (slab_bytes == 0 || slab_bytes % kBlockAlignment != 0 || slab_bytes > kMaxBlockBytes) {
    return Invalid("slab_bytes", absl::StrCat(slab_bytes),
                   "must be a positive multiple of 4096, at most 64MiB");
  }
  if (host_bytes < slab_bytes) {
    return Invalid("host_bytes", absl::StrCat(host_bytes), "must hold one slab (--slab_bytes)");
  }
  if (!disk_dir.empty()) {
    if (segment_bytes % kBlockAlignment != 0 || segment_bytes < slab_bytes + kBlockAlignment) {
      return Invalid("segment_bytes", absl::StrCat(segment_bytes),
                     "must be a multiple of 4096 and hold a block of --slab_bytes and its header");
    }
    if (disk_bytes < 3 * segment_bytes) {
      return Invalid("disk_bytes", absl::StrCat(disk_bytes),
                     "must hold three segments (--segment_bytes): one to write, one to reclaim");
    }
    if (disk_bytes / segment_bytes > kMaxSegments) {
      return Invalid("segment_bytes", absl::StrCat(segment_bytes),
                     "makes more segments of --disk_bytes than a disk can have (65536)");
    }
  }
  if (gpu_bytes > 0 && (gpu_block_bytes == 0 || SlotBytes(gpu_block_bytes) > gpu_bytes)) {
    return Invalid("gpu_block_bytes", absl::StrCat(gpu_block_bytes),
                   "must be the size of the blocks that --gpu_bytes is for");
  }
  if (byte_threads < 1 || byte_threads > kMaxByteThreads) {
    return Invalid("byte_threads", absl::StrCat(byte_threads), "must be 1 to 64");
  }
  return absl::OkStatus();
}

absl::StatusOr<TenantTable> ReadTenants(const std::string& directory) {
  std::vector<TenantTable::Entry> entries;
  if (!directory.empty()) {
    std::error_code error;
    for (std::filesystem::directory_iterator file(directory, error), end; !error && file != end;
         file.increment(error)) {
      const std::string name = file->path().filename();
      // Mounted secrets carry bookkeeping entries such as "..data".
      if (absl::StartsWith(name, ".") || !file->is_regular_file(error)) continue;
      std::ifstream stream(file->path(), std::ios::binary);
      std::string secret{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
      if (!stream.good() && !stream.eof()) {
        return absl::InvalidArgumentError(
            absl::StrCat("tenant file ", file->path().string(), ": cannot be read"));
      }
      if (absl::EndsWith(secret, "\n")) secret.pop_back();
      entries.push_back({.name = name, .secret = std::move(secret)});
    }
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tenants_dir=", directory, ": ", error.message()));
    }
  }
  if (entries.empty()) entries.push_back({.name = "default"});
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return TenantTable::Create(entries);
}

}  // namespace kvtier

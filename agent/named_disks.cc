#include "agent/named_disks.h"

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/master_secret.h"

namespace kvtier {
namespace {

void LogRecovered(const std::string& whose, const DiskTier::Recovery& recovery,
                  absl::Duration took) {
  Log(LogLevel::kInfo,
      absl::StrCat(whose, ": ", recovery.recovered_blocks, " blocks recovered in ",
                   absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1))), "; dropped ",
                   recovery.dropped_stale, " of older generations, ", recovery.dropped_corrupt,
                   " damaged, ", recovery.dropped_misfit, " outside the disk as configured, ",
                   recovery.dropped_keyless, " whose tenant's key is gone"));
}

// Reads the secret; null: none is configured.
absl::StatusOr<std::shared_ptr<const MasterSecret>> ReadSecret(const std::string& directory) {
  if (directory.empty()) return std::shared_ptr<const MasterSecret>();
  absl::StatusOr<MasterSecret> secret = MasterSecret::Read(directory);
  if (secret.ok()) return std::make_shared<const MasterSecret>(*std::move(secret));
  return absl::Status(secret.status().code(),
                      absl::StrCat("--disk_secret_dir: ", secret.status().message()));
}

// Logs how the disk is encrypted. The key check tells an operator which secret is used, and nothing
// else about the secret.
void LogEncryption(const NamedDisk& disk) {
  const std::optional<Superblock>& superblock = disk.opened->files->superblock();
  if (!superblock->key_check) return;
  Log(LogLevel::kInfo,
      absl::StrCat("disk ", disk.directory, " is encrypted (AES-256-GCM); key check ",
                   absl::Hex(*superblock->key_check, absl::kZeroPad16)));
}

}  // namespace

std::string NamedDisk::io_name() const {
  if (buffered) return "buffered";
  return opened->io == DiskIoKind::kUring ? "io_uring" : "pread";
}

absl::StatusOr<std::vector<NamedDisk>> OpenNamedDisks(Executor* executor,
                                                      const AgentConfig& config) {
  KVT_ASSIGN_OR_RETURN(const std::shared_ptr<const MasterSecret> secret,
                       ReadSecret(config.disk_secret_dir));
  std::vector<NamedDisk> disks;
  absl::Status missing;
  size_t opened = 0;
  for (size_t i = 0; i < config.disk_dirs.size(); ++i) {
    const DiskLayout layout{
        .directory = config.disk_dirs[i],
        .segment_bytes = config.segment_bytes,
        .segment_count = static_cast<uint32_t>(config.DiskBytesOf(i) / config.segment_bytes),
        .secret = secret,
        .buffered = config.disk_buffered};
    disks.push_back({.directory = layout.directory,
                     .buffered = layout.buffered,
                     .opened = OpenDisk(executor, layout, DiskIoKind::kAuto)});
    const absl::StatusOr<OpenedDisk>& disk = disks.back().opened;
    if (absl::IsNotFound(disk.status())) {
      missing.Update(disk.status());
    } else if (!disk.ok() && !absl::IsUnavailable(disk.status())) {
      return disk.status();
    }
    if (!disk.ok()) continue;
    ++opened;
    LogEncryption(disks.back());
    for (size_t j = 0; j < i; ++j) {
      if (!disks[j].opened.ok() || disks[j].opened->id != disk->id) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "--disk_dir: ", disks[j].directory, " and ", layout.directory, " are both disk ",
          disk->id.ToHex(), ": one is a copy of the other; remove one"));
    }
  }
  if (opened == 0 && !missing.ok()) return missing;
  for (const NamedDisk& disk : disks) {
    if (disk.opened.ok()) continue;
    Log(LogLevel::kError,
        absl::StrCat("disk ", disk.directory,
                     " is not used until the agent restarts: ", disk.opened.status().message()));
  }
  return disks;
}

void LogRecovery(const std::vector<NamedDisk>& disks, const DiskSet::Recovery& recovery,
                 absl::Duration took) {
  auto found = recovery.disks.begin();
  for (const NamedDisk& disk : disks) {
    if (!disk.opened.ok()) continue;
    const std::string name =
        absl::StrCat("disk ", disk.directory, " (", disk.opened->id.ToHex(), ")");
    if (found->ok()) {
      LogRecovered(name, **found, took);
    } else {
      Log(LogLevel::kError, absl::StrCat(name, " could not be recovered and is not used: ",
                                         found->status().ToString()));
    }
    ++found;
  }
  if (recovery.disks.size() < 2) return;
  LogRecovered(absl::StrCat(recovery.disks.size(), " disks"), recovery.total, took);
  if (recovery.dropped_duplicates == 0) return;
  Log(LogLevel::kInfo, absl::StrCat(recovery.dropped_duplicates,
                                    " blocks were on two disks; one copy of each is dropped"));
}

}  // namespace kvtier

#include "tier_disk/directory/open_disk.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/io/durable_file.h"
#include "tier_disk/io/pread_disk.h"
#include "tier_disk/io/uring_disk.h"

namespace kvtier {
namespace {

// Returns whether the path exists. Errors: FileError()'s. A path that cannot be examined, or a link
// whose target is missing, is an error, because it may come back.
absl::StatusOr<bool> Exists(const std::string& path) {
  struct stat unused = {};
  if (stat(path.c_str(), &unused) == 0) return true;
  const int error = errno;
  if (error == ENOENT && lstat(path.c_str(), &unused) != 0) return false;
  return FileError("cannot stat", path, error);
}

// Gives the disk an empty manifest. REQUIRES: the segments are new. The order matters: until the
// old manifest is gone, the next open comes here again, because of its damage or the missing
// superblock; and the incarnation is on the device before any record is.
absl::StatusOr<std::unique_ptr<RocksManifest>> StartEmpty(Executor* executor, SegmentFiles* files) {
  const std::string path = files->layout().manifest_path();
  KVT_ASSIGN_OR_RETURN(const bool has_manifest, Exists(path));
  if (has_manifest) {
    KVT_RETURN_IF_ERROR(RocksManifest::Destroy(path));
    KVT_RETURN_IF_ERROR(SyncDirectory(files->layout().directory));
  }
  KVT_RETURN_IF_ERROR(files->BeginIncarnation(absl::Now()));
  return RocksManifest::Open(executor, path);
}

absl::StatusOr<std::unique_ptr<RocksManifest>> OpenManifest(Executor* executor,
                                                            SegmentFiles* files) {
  if (!files->superblock()) return StartEmpty(executor, files);
  const std::string path = files->layout().manifest_path();
  absl::Status lost = absl::DataLossError(absl::StrCat("its manifest ", path, " is gone"));
  // Checks the directory first: if it is a link to a missing target, its content is unknown.
  KVT_ASSIGN_OR_RETURN(bool has_manifest, Exists(path));
  if (has_manifest) {
    KVT_ASSIGN_OR_RETURN(has_manifest, Exists(path + "/CURRENT"));
  }
  if (has_manifest) {
    absl::StatusOr<std::unique_ptr<RocksManifest>> manifest = RocksManifest::Open(executor, path);
    if (!absl::IsDataLoss(manifest.status())) return manifest;
    lost = manifest.status();
  }
  Log(LogLevel::kError,
      absl::StrCat("disk ", files->layout().directory, " starts empty: ", lost.message()));
  // Generations are in the manifest. Without it they start over, so no earlier record may stay: it
  // could verify as a record of a new generation with the same number.
  KVT_KILL_POINT("renew.damaged");
  KVT_RETURN_IF_ERROR(files->Renew());
  return StartEmpty(executor, files);
}

}  // namespace

absl::StatusOr<OpenedDisk> OpenDisk(Executor* executor, const DiskLayout& layout, DiskIoKind io) {
  OpenedDisk opened;
  KVT_ASSIGN_OR_RETURN(opened.files, SegmentFiles::Open(layout));
  KVT_KILL_POINT("open.files_ready");
  KVT_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(executor, opened.files.get()));
  const DiskIdentity& identity = opened.files->superblock()->identity;
  opened.id = identity.disk;
  if (layout.secret != nullptr) {
    OpeningId opening;
    FillRandom(opening.bytes);
    opened.keys = std::make_unique<TenantKeys>(layout.secret, identity, opening);
  }
  const std::span<const int> files = opened.files->descriptors();
  if (layout.buffered) {
    Log(LogLevel::kWarning,
        absl::StrCat("disk ", layout.directory, " is buffered: its I/O goes through the page cache",
                     " and each write is synced, slower than O_DIRECT and in memory twice"));
    opened.disk = std::make_unique<PreadDisk>(executor, files, layout.segment_bytes,
                                              PreadDisk::Durability::kSyncEachWrite);
    opened.io = DiskIoKind::kPread;
    return opened;
  }
  if (io != DiskIoKind::kPread) {
    absl::StatusOr<std::unique_ptr<UringDisk>> ring =
        UringDisk::Open(executor, files, layout.segment_bytes);
    if (ring.ok()) {
      opened.disk = *std::move(ring);
      KVT_KILL_POINT("open.disk_ready");
      opened.io = DiskIoKind::kUring;
      return opened;
    }
    if (io == DiskIoKind::kUring) return ring.status();
    Log(LogLevel::kWarning,
        absl::StrCat("disk ", layout.directory, " is slower than it could be: ",
                     ring.status().message(), "; using a pool of ", kPreadThreads,
                     " threads (a container needs a seccomp profile that allows io_uring)"));
  }
  opened.disk = std::make_unique<PreadDisk>(executor, files, layout.segment_bytes);
  KVT_KILL_POINT("open.disk_ready");
  opened.io = DiskIoKind::kPread;
  return opened;
}

}  // namespace kvtier

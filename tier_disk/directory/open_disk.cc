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
#include "tier_disk/manifest/recovery.h"

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

// Opens the manifest, whose commits end with a look whether all files are in their places.
absl::StatusOr<std::unique_ptr<RocksManifest>> OpenStore(Executor* executor, SegmentFiles* files) {
  return RocksManifest::Open(executor, files->layout().manifest_path(),
                             [files] { return files->CheckInPlace(); });
}

// Returns whether the manifest's file system has room for it. RocksDB must not find out (see
// kManifestReserveBytes).
absl::Status CheckRoom(SegmentFiles* files) {
  const std::string& directory = files->layout().directory;
  const std::string path = files->layout().manifest_path();
  const bool takes_room = files->has_taken_room();
  const absl::Status room = RocksManifest::CheckRoom(
      FileIdOf(path).ok() ? path : directory, takes_room ? kNewManifestBytes : kManifestOpenBytes);
  if (room.ok()) return room;
  if (!takes_room) return absl::UnavailableError(room.message());
  files->GiveBack();
  return absl::ResourceExhaustedError(absl::StrCat(
      "disk ", directory, ": beside ", files->layout().segment_count, " segments of ",
      files->layout().segment_bytes, " bytes, ", room.message(), ", or lower --disk_bytes"));
}

// Returns whether the manifest knows all that was written to the segments. Errors: kDataLoss.
absl::Status CheckRows(const SegmentFiles& files, RocksManifest* manifest) {
  KVT_ASSIGN_OR_RETURN(const auto generations, manifest->Generations());
  if (!generations.has_value()) return absl::OkStatus();
  return CheckGenerations(*generations, files.layout().segment_count,
                          [&](SegmentId segment, std::span<std::byte, kBlockAlignment> page) {
                            return files.ReadFirstPage(segment, page);
                          });
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
  return OpenStore(executor, files);
}

absl::StatusOr<std::unique_ptr<RocksManifest>> OpenManifest(Executor* executor,
                                                            SegmentFiles* files) {
  KVT_RETURN_IF_ERROR(CheckRoom(files));
  if (!files->superblock()) return StartEmpty(executor, files);
  const std::string path = files->layout().manifest_path();
  absl::Status lost = absl::DataLossError(absl::StrCat("its manifest ", path, " is gone"));
  // Checks the directory first: if it is a link to a missing target, its content is unknown.
  KVT_ASSIGN_OR_RETURN(bool has_manifest, Exists(path));
  if (has_manifest) {
    KVT_ASSIGN_OR_RETURN(has_manifest, Exists(path + "/CURRENT"));
  }
  if (has_manifest) {
    absl::StatusOr<std::unique_ptr<RocksManifest>> manifest = OpenStore(executor, files);
    lost = manifest.status();
    if (lost.ok()) lost = CheckRows(*files, manifest->get());
    if (lost.ok()) return manifest;
    if (!absl::IsDataLoss(lost)) return lost;
  }
  Log(LogLevel::kError,
      absl::StrCat("disk ", files->layout().directory, " starts empty: ", lost.message()));
  files->SetLost(std::string(lost.message()));
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
  KVT_RETURN_IF_ERROR(opened.files->NoteFiles(executor));
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

#include "tier_disk/open_disk.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_disk/pread_disk.h"
#include "tier_disk/uring_disk.h"

namespace kvtier {
namespace {

bool Exists(const std::string& path) {
  struct stat unused = {};
  return stat(path.c_str(), &unused) == 0;
}

absl::StatusOr<std::unique_ptr<RocksManifest>> OpenManifest(Executor* executor,
                                                            SegmentFiles* files) {
  const std::string path = files->layout().manifest_path();
  // Generations live in the manifest. Without it they start over, so no record of
  // before may stay: it would prove itself.
  if (!Exists(path + "/CURRENT")) KVT_RETURN_IF_ERROR(files->Renew());
  absl::StatusOr<std::unique_ptr<RocksManifest>> manifest = RocksManifest::Open(executor, path);
  if (!absl::IsDataLoss(manifest.status())) return manifest;
  Log(LogLevel::kError, absl::StrCat("disk ", files->layout().directory,
                                     " starts empty: ", manifest.status().message()));
  KVT_KILL_POINT("renew.damaged");
  // In this order: a crash in between leaves the damaged manifest, and we come back here.
  KVT_RETURN_IF_ERROR(files->Renew());
  KVT_RETURN_IF_ERROR(RocksManifest::Destroy(path));
  return RocksManifest::Open(executor, path);
}

}  // namespace

absl::StatusOr<OpenedDisk> OpenDisk(Executor* executor, const DiskLayout& layout, DiskIoKind io) {
  OpenedDisk opened;
  KVT_ASSIGN_OR_RETURN(opened.files, SegmentFiles::Open(layout));
  KVT_KILL_POINT("open.files_ready");
  KVT_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(executor, opened.files.get()));
  const std::span<const int> files = opened.files->descriptors();
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

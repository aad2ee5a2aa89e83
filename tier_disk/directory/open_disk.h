// OpenDisk() makes the real seams of one disk directory: files, Disk and Manifest.
#ifndef KVTIER_TIER_DISK_DIRECTORY_OPEN_DISK_H_
#define KVTIER_TIER_DISK_DIRECTORY_OPEN_DISK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/executor.h"
#include "tier_disk/cipher/tenant_keys.h"
#include "tier_disk/directory/segment_files.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/manifest/rocks_manifest.h"

namespace kvtier {

// DiskIoKind says how bytes reach the device. kAuto: io_uring, or the pread pool if the kernel
// refuses io_uring, with a warning in the log. A buffered layout always gets the pread pool, which
// syncs each write.
enum class DiskIoKind { kAuto, kUring, kPread };

// Open disk. Members are destroyed in reverse order; `files` and its lock last.
struct OpenedDisk {
  std::unique_ptr<SegmentFiles> files;
  std::unique_ptr<Disk> disk;
  std::unique_ptr<RocksManifest> manifest;
  // Keys for the one DiskTier over the disk; null: the disk is not encrypted.
  std::unique_ptr<TenantKeys> keys;
  DiskId id;                           // Id of the directory, wherever it is mounted.
  DiskIoKind io = DiskIoKind::kUring;  // Form that was opened.
  // Returns why the disk starts empty although it had content; empty: nothing was given up.
  const std::string& lost() const { return files->lost(); }
};

// Opens a disk. Does not own `executor`. Makes an empty disk of a new incarnation (logged) if the
// manifest is gone or can no longer be read, if another build made the directory, or if the disk is
// in the clear and a secret is given: its old records could not be told from new ones. A crash
// between any two steps is detected and repaired by the next call. Blocks for as long as
// preallocation takes: call it before serving. Errors: SegmentFiles::Open()'s and
// RocksManifest::Open()'s; kResourceExhausted, a disk that would be made or made larger leaves its
// manifest too little room (what was taken is free again); kUnavailable, the file system of a disk
// has become too full to open its manifest, or kUring was requested and the kernel refuses it.
absl::StatusOr<OpenedDisk> OpenDisk(Executor* executor, const DiskLayout& layout, DiskIoKind io);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_OPEN_DISK_H_

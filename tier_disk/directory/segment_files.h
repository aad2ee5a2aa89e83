// SegmentFiles owns the files of one disk directory, locked, preallocated and open
// for O_DIRECT:
//
//   <directory>/LOCK                    held while open; dies with the process
//   <directory>/superblock              which disk it is (superblock_file.h)
//   <directory>/segments/00000000.seg   one file a segment, segment_bytes long
//   <directory>/manifest/               RocksDB's (rocks_manifest.h)
//
// It knows no records and does no I/O on the files.
#ifndef KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_
#define KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tier_disk/cipher/master_secret.h"
#include "tier_disk/directory/superblock.h"

namespace kvtier {

inline constexpr uint32_t kMaxSegments = 65536;  // 16 TiB at the default size.

struct DiskLayout {
  std::string directory;                         // Created if absent; its parent exists.
  uint64_t segment_bytes = uint64_t{256} << 20;  // Multiple of 4096, 1 MiB at least.
  uint32_t segment_count = 0;                    // 2..kMaxSegments.
  // What payloads are sealed with; null: they lie in the clear.
  std::shared_ptr<const MasterSecret> secret;
  // Goes through the page cache instead of O_DIRECT, for file systems that refuse it.
  bool buffered = false;
  std::string segments_path() const { return directory + "/segments"; }
  std::string manifest_path() const { return directory + "/manifest"; }
};

class SegmentFiles {
 public:
  // Locks the directory and reads its superblock, then creates, grows, cuts or removes
  // segment files until they are what `layout` says, and has the superblock say so.
  // A directory without a superblock that can be read (a new one, one of another build,
  // one whose copies are both damaged), and one in the clear where there is a secret now,
  // gets new segment files and superblock() says none: BeginIncarnation() is the caller's
  // next step. Errors, naming the path: kInvalidArgument, the layout; kFailedPrecondition,
  // another process has the directory, a newer program made it, it is encrypted and there
  // is no secret or another one, or its file system refuses O_DIRECT or preallocation (the
  // directory is as it was); kResourceExhausted, no space,
  // with what was asked for and what is free; kUnavailable, anything else the file system
  // said.
  static absl::StatusOr<std::unique_ptr<SegmentFiles>> Open(const DiskLayout& layout);
  ~SegmentFiles();
  SegmentFiles(const SegmentFiles&) = delete;
  SegmentFiles& operator=(const SegmentFiles&) = delete;

  // Gives up the content of every segment: removes and preallocates the files anew. On
  // return no power cut brings the old ones back.
  absl::Status Renew();
  // Says in the superblock that the content starts anew: another incarnation, of the same
  // disk if it was one. `now` is of the wall clock. REQUIRES: the segments are new and
  // nothing refers to older ones.
  absl::Status BeginIncarnation(absl::Time now);

  // nullopt: what the manifest remembers is not of these segments.
  const std::optional<Superblock>& superblock() const { return superblock_; }
  const DiskLayout& layout() const { return layout_; }
  std::span<const int> descriptors() const { return descriptors_; }  // By segment.

 private:
  explicit SegmentFiles(const DiskLayout& layout) : layout_(layout) {}
  absl::Status Lock();
  absl::Status ReadSuperblock();
  // Segment files, or a manifest.
  bool HasContent() const;
  absl::Status OpenSegments();
  // `error` of a file system that is full, with figures.
  absl::Status NoRoom(const absl::Status& error) const;
  // The secret is the one that the superblock's key check is of, or the next. Errors:
  // kFailedPrecondition.
  absl::Status CheckSecret();
  absl::Status RecordGeometry();
  absl::Status RecordKeyCheck();
  absl::Status RemoveSegmentsFrom(uint32_t first);
  void CloseSegments();

  const DiskLayout layout_;
  int lock_ = -1;
  std::optional<Superblock> superblock_;
  // The disk goes on, and what it holds does not: the superblock as it is, until
  // BeginIncarnation().
  std::optional<Superblock> outdated_;
  std::vector<int> descriptors_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_

// SegmentFiles owns the files of one disk directory, locked, preallocated and open for O_DIRECT:
//
//   <directory>/LOCK                    held while open; released when the process ends
//   <directory>/superblock              which disk it is (superblock_file.h)
//   <directory>/segments/00000000.seg   one file a segment, segment_bytes long
//   <directory>/manifest/               RocksDB's (rocks_manifest.h)
//
// The class knows no records and does no I/O on the files beyond their first pages.
#ifndef KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_
#define KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/space.h"
#include "tier_disk/cipher/master_secret.h"
#include "tier_disk/directory/superblock.h"
#include "tier_disk/io/disk.h"
#include "tier_disk/io/named_directory.h"

namespace kvtier {

inline constexpr uint32_t kMaxSegments = 65536;  // 16 TiB at the default size.

struct DiskLayout {
  std::string directory;                         // Created if absent; its parent exists.
  uint64_t segment_bytes = uint64_t{256} << 20;  // A multiple of 4096, at least 1 MiB.
  uint32_t segment_count = 0;                    // Number of segments, 2..kMaxSegments.
  // Secret that seals payloads; null: they are in the clear.
  std::shared_ptr<const MasterSecret> secret;
  // Whether to use the page cache instead of O_DIRECT, for file systems that refuse O_DIRECT.
  bool buffered = false;
  std::string segments_path() const { return directory + "/segments"; }
  std::string manifest_path() const { return directory + "/manifest"; }
};

class SegmentFiles {
 public:
  // Locks the directory and reads its superblock, then creates, grows, truncates or removes segment
  // files until they match `layout`, and updates the superblock. A directory gets new segment files
  // and no superblock() if its superblock cannot be read (a new directory, one of another build, or
  // one whose copies are both damaged), or if it is in the clear and a secret is given. The
  // caller's next step is then BeginIncarnation(). Errors, naming the path: kInvalidArgument, the
  // layout; kFailedPrecondition, another process has the directory, a newer program made it, it is
  // encrypted and there is no secret or another one, or its file system refuses O_DIRECT or
  // preallocation (the directory is unchanged); kResourceExhausted, no space, with the bytes
  // requested and the bytes free (what this call allocated is free again); kNotFound, its parent is
  // missing or the agent may not use the directory; kUnavailable, any other error of the file
  // system.
  static absl::StatusOr<std::unique_ptr<SegmentFiles>> Open(const DiskLayout& layout);
  ~SegmentFiles();
  SegmentFiles(const SegmentFiles&) = delete;
  SegmentFiles& operator=(const SegmentFiles&) = delete;

  // Drops the content of every segment: removes and preallocates the files again. After it returns,
  // no power cut brings the old files back.
  absl::Status Renew();
  // Records in the superblock that the content starts empty: another incarnation, of the same disk
  // if it was one. `now` is wall-clock time. REQUIRES: the segments are new and nothing refers to
  // older ones.
  absl::Status BeginIncarnation(absl::Time now);
  // Returns why the content of the directory was given up; empty: it was not.
  const std::string& lost() const { return lost_; }
  void SetLost(std::string why) { lost_ = std::move(why); }

  // Returns whether Open() or Renew() made segment files, or made some larger.
  bool has_taken_room() const { return !taken_.empty(); }
  // Gives back the room that Open() or Renew() took, after which this object is of no more use.
  void GiveBack();

  // Notes which directories and files these are, for CheckInPlace(). Call it once, when they are
  // all made. Does not own `clock`.
  absl::Status NoteFiles(const Clock* clock);
  // Returns whether the next start finds the directory, its lock, superblock and segments by their
  // names. One thread at a time. Errors: kNotFound, naming what is gone or replaced;
  // FileError()'s.
  absl::Status CheckInPlace();
  // Reads the first page of a segment; returns false if that fails.
  bool ReadFirstPage(SegmentId segment, std::span<std::byte, kBlockAlignment> page) const;

  // Returns the superblock; nullopt: the content of the manifest does not belong to these segments.
  const std::optional<Superblock>& superblock() const { return superblock_; }
  const DiskLayout& layout() const { return layout_; }
  // Returns the descriptors by segment.
  std::span<const int> descriptors() const { return descriptors_; }

 private:
  explicit SegmentFiles(const DiskLayout& layout) : layout_(layout) {}
  absl::Status Lock();
  absl::Status ReadSuperblock();
  // Returns whether there are segment files, or a manifest.
  bool HasContent() const;
  absl::Status OpenSegments();
  // Gives back what was taken, and returns `error` of a file system that is full, with figures.
  absl::Status NoRoom(const absl::Status& error);
  // Checks that the secret, or the previous one, matches the superblock's key check. Errors:
  // kFailedPrecondition.
  absl::Status CheckSecret();
  absl::Status RecordGeometry();
  absl::Status RecordKeyCheck();
  absl::Status RemoveSegmentsFrom(uint32_t first);
  void CloseSegments();
  absl::Status OpenSegment(uint32_t segment);

  const DiskLayout layout_;
  int lock_ = -1;
  std::optional<Superblock> superblock_;
  // Superblock of a disk whose content starts empty: BeginIncarnation() keeps the disk's id.
  std::optional<Superblock> outdated_;
  std::vector<int> descriptors_;
  // Segments that this object made or made larger, with their size before; 0: there was no file.
  std::vector<std::pair<uint32_t, uint64_t>> taken_;
  std::string lost_;
  // Set by NoteFiles().
  std::unique_ptr<NamedDirectory> named_;
  std::unique_ptr<NamedDirectory> named_segments_;
  FileId superblock_id_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_SEGMENT_FILES_H_

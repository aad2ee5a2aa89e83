// SegmentFiles owns the files of one disk directory, locked, preallocated and open
// for O_DIRECT:
//
//   <directory>/LOCK                    held while open; dies with the process
//   <directory>/segments/00000000.seg   one file a segment, segment_bytes long
//   <directory>/manifest/               RocksDB's (rocks_manifest.h)
//
// It knows no records and does no I/O on the files.
#ifndef KVTIER_TIER_DISK_SEGMENT_FILES_H_
#define KVTIER_TIER_DISK_SEGMENT_FILES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

inline constexpr uint32_t kMaxSegments = 65536;  // 16 TiB at the default size.

struct DiskLayout {
  std::string directory;                         // Created if absent; its parent exists.
  uint64_t segment_bytes = uint64_t{256} << 20;  // Multiple of 4096, 1 MiB at least.
  uint32_t segment_count = 0;                    // 2..kMaxSegments.
  std::string segments_path() const { return directory + "/segments"; }
  std::string manifest_path() const { return directory + "/manifest"; }
};

class SegmentFiles {
 public:
  // Locks the directory, then creates, grows, cuts or removes segment files until
  // they are what `layout` says. Errors, naming the path: kInvalidArgument, the
  // layout; kFailedPrecondition, another process has the directory, or its file
  // system refuses O_DIRECT or preallocation; kResourceExhausted, no space;
  // kUnavailable, anything else the file system said.
  static absl::StatusOr<std::unique_ptr<SegmentFiles>> Open(const DiskLayout& layout);
  ~SegmentFiles();
  SegmentFiles(const SegmentFiles&) = delete;
  SegmentFiles& operator=(const SegmentFiles&) = delete;

  // Gives up the content of every segment: removes and preallocates the files anew.
  absl::Status Renew();

  const DiskLayout& layout() const { return layout_; }
  std::span<const int> descriptors() const { return descriptors_; }  // By segment.

 private:
  explicit SegmentFiles(const DiskLayout& layout) : layout_(layout) {}
  absl::Status Lock();
  absl::Status OpenSegments();
  absl::Status RemoveSegmentsFrom(uint32_t first);
  void CloseSegments();

  const DiskLayout layout_;
  int lock_ = -1;
  std::vector<int> descriptors_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_SEGMENT_FILES_H_

// NamedDirectory tells whether a path still names the directory that was opened, and its names
// still the files that were. A program goes on writing files that somebody has removed, renamed,
// replaced or mounted over, and the next start does not find what it wrote.
//
// A look at every file would cost too much for each commit. Each change of a name in a directory
// also changes the directory's ctime, so while that stays, one stat of the path suffices.
//
// Blocks. One thread at a time.
#ifndef KVTIER_TIER_DISK_IO_NAMED_DIRECTORY_H_
#define KVTIER_TIER_DISK_IO_NAMED_DIRECTORY_H_

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"

namespace kvtier {

// File systems count ctimes in steps of at most this: two changes within it may have one ctime.
inline constexpr absl::Duration kCtimeStep = absl::Seconds(2);

// Device and inode of a file.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// Return the id of the file that a path names (links are followed), or of an open file. Errors:
// kNotFound, nothing has the name; else FileError()'s.
absl::StatusOr<FileId> FileIdOf(const std::string& path);
absl::StatusOr<FileId> FileIdOf(int descriptor);

class NamedDirectory {
 public:
  // Opens the directory, so that no other one gets its inode. Does not own `clock`. Errors:
  // FileError()'s.
  static absl::StatusOr<std::unique_ptr<NamedDirectory>> Open(const std::string& path,
                                                              const Clock* clock);
  ~NamedDirectory();
  NamedDirectory(const NamedDirectory&) = delete;
  NamedDirectory& operator=(const NamedDirectory&) = delete;

  // Returns whether the path names this directory, and `look` finds its files in place. Calls
  // `look` only if names may have changed since it last returned OK. Errors: kNotFound, naming
  // the path, it names nothing or another directory; FileError()'s; those of `look`.
  absl::Status Check(absl::FunctionRef<absl::Status()> look);
  // Returns whether the name in the directory is that of this file. Errors: kNotFound, naming the
  // file; FileError()'s.
  absl::Status CheckFile(const std::string& name, const FileId& id) const;

 private:
  NamedDirectory(std::string path, int descriptor, FileId id, const Clock* clock)
      : path_(std::move(path)), descriptor_(descriptor), id_(id), clock_(clock) {}

  const std::string path_;
  const int descriptor_;
  const FileId id_;
  const Clock* const clock_;
  timespec ctime_{};                              // The ctime that the last check found.
  absl::Time ctime_seen_ = absl::InfinitePast();  // Time of the first check that found it.
  bool in_place_ = false;  // Whether no name has changed since a `look` that returned OK.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_NAMED_DIRECTORY_H_

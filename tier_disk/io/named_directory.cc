#include "tier_disk/io/named_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_disk/io/durable_file.h"

namespace kvtier {
namespace {

FileId IdOf(const struct stat& file) { return {.device = file.st_dev, .inode = file.st_ino}; }

absl::Status Stat(const std::string& path, struct stat* file) {
  if (stat(path.c_str(), file) == 0) return absl::OkStatus();
  if (errno == ENOENT || errno == ENOTDIR)
    return absl::NotFoundError(absl::StrCat(path, " is gone"));
  return FileError("cannot stat", path, errno);
}

absl::Status Replaced(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, " is not what was opened by that name"));
}

}  // namespace

absl::StatusOr<FileId> FileIdOf(const std::string& path) {
  struct stat file = {};
  KVT_RETURN_IF_ERROR(Stat(path, &file));
  return IdOf(file);
}

absl::StatusOr<FileId> FileIdOf(int descriptor) {
  struct stat file = {};
  if (fstat(descriptor, &file) == 0) return IdOf(file);
  return FileError("cannot stat", "an open file", errno);
}

absl::StatusOr<std::unique_ptr<NamedDirectory>> NamedDirectory::Open(const std::string& path,
                                                                     const Clock* clock) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError("cannot open", path, errno);
  struct stat file = {};
  if (fstat(descriptor, &file) != 0) {
    const absl::Status failed = FileError("cannot stat", path, errno);
    close(descriptor);
    return failed;
  }
  return std::unique_ptr<NamedDirectory>(new NamedDirectory(path, descriptor, IdOf(file), clock));
}

NamedDirectory::~NamedDirectory() { close(descriptor_); }

absl::Status NamedDirectory::Check(absl::FunctionRef<absl::Status()> look) {
  struct stat file = {};
  KVT_RETURN_IF_ERROR(Stat(path_, &file));
  if (IdOf(file) != id_) return Replaced(path_);
  const absl::Time now = clock_->Now();
  if (file.st_ctim.tv_sec != ctime_.tv_sec || file.st_ctim.tv_nsec != ctime_.tv_nsec) {
    ctime_ = file.st_ctim;
    ctime_seen_ = now;
    in_place_ = false;
  }
  if (in_place_) return absl::OkStatus();
  KVT_RETURN_IF_ERROR(look());
  // A change after a look that came sooner may have the same ctime.
  in_place_ = now - ctime_seen_ >= kCtimeStep;
  return absl::OkStatus();
}

absl::Status NamedDirectory::CheckFile(const std::string& name, const FileId& id) const {
  const std::string path = absl::StrCat(path_, "/", name);
  KVT_ASSIGN_OR_RETURN(const FileId found, FileIdOf(path));
  return found == id ? absl::OkStatus() : Replaced(path);
}

}  // namespace kvtier

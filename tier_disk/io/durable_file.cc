#include "tier_disk/io/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// OpenFile closes its descriptor in its destructor; -1 if opening failed, with the reason in errno.
// A pipe, which whoever has its other end could keep silent for ever, does not hold up the opening.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status WriteSynced(const OpenFile& file, const std::string& path, uint64_t offset,
                         std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError("cannot write", path, written < 0 ? errno : EIO);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (fdatasync(file.fd()) != 0) return FileError("cannot sync", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(absl::string_view what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::StatusOr<std::optional<std::vector<std::byte>>> ReadFileStart(const std::string& path,
                                                                    size_t limit) {
  const OpenFile file(path, O_RDONLY);
  if (file.fd() < 0 && errno == ENOENT) return std::nullopt;
  if (file.fd() < 0) return FileError("cannot open", path, errno);
  struct stat status = {};
  if (fstat(file.fd(), &status) != 0) return FileError("cannot stat", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": it must be a regular file"));
  }
  std::vector<std::byte> bytes(limit);
  size_t size = 0;
  while (size < limit) {
    const ssize_t got =
        pread(file.fd(), bytes.data() + size, limit - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("cannot read", path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return std::optional(std::move(bytes));
}

absl::Status ReplaceFile(const std::string& directory, const std::string& name,
                         std::span<const std::byte> bytes) {
  const std::string path = absl::StrCat(directory, "/", name);
  const std::string made = path + ".new";
  {
    const OpenFile file(made, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.fd() < 0) return FileError("cannot create", made, errno);
    KVT_RETURN_IF_ERROR(WriteSynced(file, made, 0, bytes));
  }
  if (std::rename(made.c_str(), path.c_str()) != 0) return FileError("cannot make", path, errno);
  return SyncDirectory(directory);
}

absl::Status OverwriteFile(const std::string& path, uint64_t offset,
                           std::span<const std::byte> bytes) {
  const OpenFile file(path, O_WRONLY);
  if (file.fd() < 0) return FileError("cannot open", path, errno);
  return WriteSynced(file, path, offset, bytes);
}

absl::Status SyncDirectory(const std::string& path) {
  const OpenFile directory(path, O_RDONLY | O_DIRECTORY);
  if (directory.fd() < 0) return FileError("cannot open", path, errno);
  if (fsync(directory.fd()) != 0) return FileError("cannot sync", path, errno);
  return absl::OkStatus();
}

}  // namespace kvtier

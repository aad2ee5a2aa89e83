#include "tier_disk/cipher/master_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"

namespace kvtier {
namespace {

constexpr char kCurrent[] = "master";
constexpr char kPrevious[] = "master.previous";
// Link to the current version. Kubernetes keeps each version of a secret in a directory of its own,
// to which this link points; the files beside it are links through it.
constexpr char kVersionLink[] = "..data";
constexpr mode_t kRefusedModes = S_IRWXO | S_IWGRP;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

absl::Status SecretError(absl::string_view what, const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(text)
                                             : absl::UnavailableError(text);
}

absl::Status CheckFile(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no plain file; name a directory whose secrets are files"));
  }
  if ((file.st_mode & kRefusedModes) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has mode %04o, which lets others read it or the group write it; set 0400 or 0440 "
        "(in Kubernetes the volume's defaultMode)",
        path, file.st_mode & 07777U));
  }
  if (static_cast<uint64_t>(file.st_size) < kMinMasterBytes ||
      static_cast<uint64_t>(file.st_size) > kMaxMasterBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", file.st_size, " bytes; must be ",
                                                   kMinMasterBytes, " to ", kMaxMasterBytes));
  }
  return absl::OkStatus();
}

// Reads one file. `path` is for messages only: the file is opened relative to `directory`.
absl::StatusOr<KeyMaterial> ReadMaterial(const Descriptor& directory, const char* name,
                                         const std::string& path) {
  // NONBLOCK, so that a pipe of that name does not hold up the start.
  const Descriptor file(openat(directory.number(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return SecretError("open", path, errno);
  struct stat status = {};
  if (fstat(file.number(), &status) != 0) return SecretError("stat", path, errno);
  KVT_RETURN_IF_ERROR(CheckFile(status, path));
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  size_t taken = 0;
  while (taken < bytes.size()) {
    const ssize_t count = read(file.number(), bytes.data() + taken, bytes.size() - taken);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = errno;
      Wipe(bytes);
      if (count < 0) return SecretError("read", path, error);
      return absl::UnavailableError(
          absl::StrCat(path, " became shorter while it was read; start the agent again"));
    }
    taken += static_cast<size_t>(count);
  }
  return KeyMaterial(std::move(bytes));
}

}  // namespace

KeyMaterial::KeyMaterial(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {
  KVT_CHECK(bytes_.size() >= kMinMasterBytes && bytes_.size() <= kMaxMasterBytes);
}

KeyMaterial::~KeyMaterial() { Wipe(bytes_); }

KeyMaterial& KeyMaterial::operator=(KeyMaterial&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // `other` wipes the bytes that this object had.
  return *this;
}

absl::StatusOr<MasterSecret> MasterSecret::Read(const std::string& directory) {
  // Opens one version of the mount. Between two opens by path it could be replaced, and a new
  // `master` be read with the old `master.previous`.
  const std::string version = absl::StrCat(directory, "/", kVersionLink);
  int opened = open(version.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0 && errno == ENOENT) {
    opened = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  const int error = errno;
  const Descriptor folder(opened);
  if (folder.number() < 0) return SecretError("open", directory, error);
  KVT_ASSIGN_OR_RETURN(KeyMaterial current,
                       ReadMaterial(folder, kCurrent, absl::StrCat(directory, "/", kCurrent)));
  MasterSecret secret{.current = std::move(current)};
  const std::string previous_path = absl::StrCat(directory, "/", kPrevious);
  absl::StatusOr<KeyMaterial> previous = ReadMaterial(folder, kPrevious, previous_path);
  if (absl::IsNotFound(previous.status())) return secret;
  KVT_RETURN_IF_ERROR(previous.status());
  secret.previous = *std::move(previous);
  const std::span<const uint8_t> now = secret.current.bytes();
  const std::span<const uint8_t> before = secret.previous->bytes();
  if (std::equal(now.begin(), now.end(), before.begin(), before.end())) {
    return absl::InvalidArgumentError(absl::StrCat(previous_path, " is the same as ", kCurrent,
                                                   "; remove it, or write the new secret to ",
                                                   kCurrent));
  }
  return secret;
}

}  // namespace kvtier

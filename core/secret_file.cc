#include "core/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

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

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("secret file ", path, " ", why));
}

absl::Status CannotRead(const std::string& path, int error) {
  const std::string text =
      absl::StrCat("secret file ", path, " cannot be read: ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

SecretFileVersion VersionOf(const struct stat& file) {
  return {.device = file.st_dev,
          .inode = file.st_ino,
          .bytes = file.st_size,
          .modified_ns = NanosecondsOf(file.st_mtim),
          .changed_ns = NanosecondsOf(file.st_ctim)};
}

absl::Status CheckFile(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) return Refused(path, "is no plain file; name a readable file");
  if ((file.st_mode & kRefusedModes) == 0) return absl::OkStatus();
  return Refused(path, absl::StrFormat("has mode %04o, which lets others use it or the group write "
                                       "it; set 0600 or 0440 (in Kubernetes the volume's "
                                       "defaultMode)",
                                       file.st_mode & 07777U));
}

// Reads to the end, or one byte more than a secret and its newline may have.
absl::StatusOr<std::string> ReadToEnd(const Descriptor& file, const std::string& path) {
  std::string content(kMaxSecretBytes + 2, '\0');
  size_t taken = 0;
  while (taken < content.size()) {
    const ssize_t count = read(file.number(), content.data() + taken, content.size() - taken);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(path, errno);
    if (count == 0) break;
    taken += static_cast<size_t>(count);
  }
  content.resize(taken);
  return content;
}

absl::StatusOr<std::string> CheckedSecret(std::string content, const std::string& path) {
  std::string secret = SecretIn(std::move(content));
  if (secret.empty()) return Refused(path, "holds no secret; write one into it");
  if (secret.size() <= kMaxSecretBytes) return secret;
  return Refused(path,
                 absl::StrCat("has more than ", kMaxSecretBytes, " bytes, so it is no secret"));
}

}  // namespace

std::string SecretIn(std::string content) {
  if (absl::EndsWith(content, "\n")) content.pop_back();
  return content;
}

std::string ContentOf(absl::string_view secret) {
  return absl::StrCat(secret, absl::EndsWith(secret, "\n") ? "\n" : "");
}

absl::StatusOr<SecretFile> ReadSecretFileNow(const std::string& path) {
  // NONBLOCK, so that a pipe of that name does not hold up the caller.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return CannotRead(path, errno);
  struct stat before = {};
  struct stat after = {};
  if (fstat(file.number(), &before) != 0) return CannotRead(path, errno);
  KVT_RETURN_IF_ERROR(CheckFile(before, path));
  KVT_ASSIGN_OR_RETURN(std::string content, ReadToEnd(file, path));
  if (fstat(file.number(), &after) != 0) return CannotRead(path, errno);
  const SecretFileVersion version = VersionOf(before);
  if (version != VersionOf(after)) {
    return absl::UnavailableError(
        absl::StrCat("secret file ", path, " was written while it was read; try again"));
  }
  KVT_ASSIGN_OR_RETURN(std::string secret, CheckedSecret(std::move(content), path));
  return SecretFile{.secret = std::move(secret), .version = version};
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  absl::StatusOr<SecretFile> last = ReadSecretFileNow(path);
  for (absl::Duration waited; waited < kMaxSecretWait; waited += kSecretSettleTime) {
    if (!last.ok() && !absl::IsUnavailable(last.status())) return last.status();
    absl::SleepFor(kSecretSettleTime);
    absl::StatusOr<SecretFile> now = ReadSecretFileNow(path);
    if (last.ok() && now.ok() && now->version == last->version) return std::move(now->secret);
    last = std::move(now);
  }
  return absl::UnavailableError(absl::StrCat("secret file ", path, " still changes after ",
                                             absl::FormatDuration(kMaxSecretWait),
                                             "; write it elsewhere, and rename it"));
}

absl::StatusOr<std::string> ReadSecretFileOrPipe(const std::string& path) {
  struct stat named = {};
  if (stat(path.c_str(), &named) != 0) return CannotRead(path, errno);
  if (!S_ISFIFO(named.st_mode)) return ReadSecretFile(path);
  const Descriptor pipe(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (pipe.number() < 0) return CannotRead(path, errno);
  KVT_ASSIGN_OR_RETURN(std::string content, ReadToEnd(pipe, path));
  return CheckedSecret(std::move(content), path);
}

absl::string_view EndOfOtherFile(absl::string_view name) {
  for (const absl::string_view end : {"~", ".bak", ".orig", ".swp", ".tmp", ".md"}) {
    if (absl::EndsWith(name, end)) return end;
  }
  return "";
}

}  // namespace kvtier

// A secret file holds the secret of a tenant. All programs read it here, so that one file is one
// secret for all of them:
//
//   the secret is every byte of the file, less one newline (0x0A) at its end if there is one;
//   blanks, carriage returns, zeros and further newlines are bytes of the secret like any other.
//
// A file is refused that others may use or the group may write, and one that changes while it is
// read: a half-written secret is another secret.
//
// Blocks; any thread.
#ifndef KVTIER_CORE_SECRET_FILE_H_
#define KVTIER_CORE_SECRET_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kvtier {

inline constexpr size_t kMaxSecretBytes = size_t{64} << 10;
// A file that stays the same for so long is whole.
inline constexpr absl::Duration kSecretSettleTime = absl::Milliseconds(250);
// Longest wait for a file that changes again and again.
inline constexpr absl::Duration kMaxSecretWait = absl::Seconds(5);

// Returns the secret in the content of a file.
std::string SecretIn(std::string content);
// Returns the content of a file that holds the secret: SecretIn() of it is the secret.
std::string ContentOf(absl::string_view secret);

// Tells one version of a file from another.
struct SecretFileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // Times of the file system, which are compared with each other only.
  int64_t changed_ns = 0;
  friend bool operator==(const SecretFileVersion&, const SecretFileVersion&) = default;
};

struct SecretFile {
  std::string secret;
  SecretFileVersion version;
};

// Reads a file as it is now. Errors, which name the path: kUnavailable, it changed while it was
// read; kNotFound, there is none; kInvalidArgument, it is no plain file, has a mode with a bit for
// others or write for the group, holds no secret or more than kMaxSecretBytes, or cannot be read.
absl::StatusOr<SecretFile> ReadSecretFileNow(const std::string& path);

// Reads a file once it has stayed the same for kSecretSettleTime. Errors: ReadSecretFileNow()'s;
// kUnavailable, it still changes after kMaxSecretWait.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);
// Reads to the end of a pipe, or a file as ReadSecretFile() does.
absl::StatusOr<std::string> ReadSecretFileOrPipe(const std::string& path);

// Returns the end of a name by which editors, backups and pages of text are told from secret files
// ("~", ".bak", ".md"...); empty: the name has no such end.
absl::string_view EndOfOtherFile(absl::string_view name);

}  // namespace kvtier

#endif  // KVTIER_CORE_SECRET_FILE_H_

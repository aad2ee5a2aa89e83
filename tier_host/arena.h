// Arena is one memfd of host memory, mapped by the agent and by its workers. It
// knows nothing of slots or keys.
#ifndef KVTIER_TIER_HOST_ARENA_H_
#define KVTIER_TIER_HOST_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace kvtier {

// Thread-safe: immutable after Create(). The memory goes when the last mapping and
// descriptor, in any process, are gone.
class Arena {
 public:
  // Makes a memfd of `bytes`, sealed against shrinking and growing (a truncation
  // would kill its readers by SIGBUS), mapped here and touched, so that memory is
  // charged to the agent and missing memory shows now.
  // REQUIRES: `bytes` is a positive multiple of 4096.
  // Errors: kResourceExhausted, with errno's text.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const std::string& name, uint64_t bytes);
  ~Arena();

  std::span<std::byte> bytes() const { return bytes_; }
  // For workers trusted to write reserved slots.
  int read_write_fd() const { return read_write_fd_; }
  // Reopened read-only: can be mapped for reading, never for writing.
  int read_only_fd() const { return read_only_fd_; }

 private:
  Arena(std::span<std::byte> bytes, int read_write_fd, int read_only_fd)
      : bytes_(bytes), read_write_fd_(read_write_fd), read_only_fd_(read_only_fd) {}
  const std::span<std::byte> bytes_;
  const int read_write_fd_;
  const int read_only_fd_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_ARENA_H_

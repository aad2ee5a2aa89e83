// Arena is one memfd of host memory, mapped by the agent and by its workers. It
// knows nothing of slots or keys.
#ifndef KVTIER_TIER_HOST_ARENA_H_
#define KVTIER_TIER_HOST_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// Thread-safe: immutable after Create(). The memory goes when the last mapping and
// descriptor, in any process, are gone.
class Arena {
 public:
  // Makes a memfd of `bytes`, sealed against shrinking and growing (a truncation
  // would kill its readers by SIGBUS), mapped here and touched, so that memory is
  // charged to the agent and missing memory shows now; in huge pages as far as the
  // kernel has them. `name` shows in /proc/PID/maps. REQUIRES: `bytes` is a positive multiple of
  // 4096. Errors: kResourceExhausted, with errno's text.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const std::string& name, uint64_t bytes);
  ~Arena();

  std::span<std::byte> bytes() const { return bytes_; }
  // False: some of it lies in small pages, and disks move it slower (core/huge_pages.h).
  bool huge_pages() const { return huge_pages_; }
  // For workers trusted to write reserved slots.
  int read_write_fd() const { return read_write_fd_; }
  // Reopened read-only: can be mapped for reading, never for writing. The file's
  // mode is 0, so a process of another user cannot reopen it for writing through
  // /proc either; one of the agent's own user, or root, can.
  int read_only_fd() const { return read_only_fd_; }

 private:
  explicit Arena(int read_write_fd) : read_write_fd_(read_write_fd) {}
  // Everything after memfd_create; the destructor undoes what was done.
  absl::Status Fill(const std::string& name, uint64_t bytes);

  const int read_write_fd_;
  // All are set once, by Fill().
  int read_only_fd_ = -1;
  std::span<std::byte> bytes_;
  bool huge_pages_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_ARENA_H_

// Mapping is shared memory of the agent, mapped into this process: an arena to read, an arena to
// write, or the GPU pool. The memory stays mapped until its last user is gone, even if the agent
// that made it is long dead, so that no reader ever faults. A pool's handles come and go at fixed
// addresses; where one is gone, reads give zeros. In a forked child the whole mapping is private
// zeros (fork_guard.h).
#ifndef KVTIER_CLIENT_MAPPING_H_
#define KVTIER_CLIENT_MAPPING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fork_guard.h"

namespace kvtier {

// Thread-safe: immutable, but for the handles of a pool.
class Mapping {
 public:
  enum class Access { kRead, kReadWrite };

  // Maps the first `bytes` of `fd`, which may be closed afterwards. Errors:
  // kFailedPrecondition, the file is shorter than `bytes` or not sealed against
  // shrinking (a truncation would kill us by SIGBUS); kUnavailable with errno's text.
  static absl::StatusOr<std::shared_ptr<const Mapping>> Map(int fd, uint64_t bytes, Access access);
  // Maps handle i, all `handle_bytes` of it, at i * handle_bytes of a range that has
  // addresses for `max_handles`; handles that are not there yet do not count in size().
  // REQUIRES: handles.size() <= max_handles. Errors: as Map().
  static absl::StatusOr<std::shared_ptr<Mapping>> MapHandles(std::span<const int> handles,
                                                             uint64_t handle_bytes,
                                                             size_t max_handles);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Maps other memory as handle `index`, or one more handle after the last. For mappings of
  // MapHandles() only; one thread at a time changes handles. REQUIRES: the handles before it are
  // mapped, and there are addresses for it. Errors: as Map(); then nothing has changed.
  absl::Status PutHandle(size_t index, int fd, uint64_t handle_bytes);
  // Unmaps the handles from number `count` on. REQUIRES: no more than are mapped.
  void CutHandles(size_t count, uint64_t handle_bytes);

  size_t size() const { return size_.load(std::memory_order_acquire); }
  // Returns the bytes; nullopt: [offset, offset + length) is not inside the mapping.
  std::optional<std::span<const std::byte>> Read(uint64_t offset, uint64_t length) const;
  // REQUIRES: mapped kReadWrite.
  std::optional<std::span<std::byte>> Write(uint64_t offset, uint64_t length) const;

 private:
  // `range`: all addresses, to be unmapped by the destructor.
  Mapping(std::span<std::byte> range, size_t size, Access access)
      : range_(range), access_(access), size_(size) {
    KeepMemoryFromChildren(range_);
  }
  bool Holds(uint64_t offset, uint64_t length) const {
    const size_t now = size();
    return offset <= now && length <= now - offset;
  }

  const std::span<std::byte> range_;
  const Access access_;
  // Mapped bytes. A release store pairs with the acquire in size(): a thread that sees the size
  // sees the handles.
  std::atomic<size_t> size_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_MAPPING_H_

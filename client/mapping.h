// Mapping is shared memory of the agent in this process: an arena to read, an arena
// to write, or the GPU pool. It stays mapped until its last user is gone, also when
// the agent that made it is long dead, so that no reader ever faults.
#ifndef KVTIER_CLIENT_MAPPING_H_
#define KVTIER_CLIENT_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace kvtier {

// Thread-safe: immutable.
class Mapping {
 public:
  enum class Access { kRead, kReadWrite };

  // Maps the first `bytes` of `fd`, which may be closed afterwards. Errors:
  // kFailedPrecondition, the file is shorter than `bytes` or not sealed against
  // shrinking (a truncation would kill us by SIGBUS); kUnavailable with errno's text.
  static absl::StatusOr<std::shared_ptr<const Mapping>> Map(int fd, uint64_t bytes, Access access);
  // Maps handle i, all `handle_bytes` of it, at i * handle_bytes of a range that has
  // addresses for `max_handles`; what is not there yet does not count to size().
  // REQUIRES: handles.size() <= max_handles. Errors: as Map().
  static absl::StatusOr<std::shared_ptr<const Mapping>> MapHandles(std::span<const int> handles,
                                                                   uint64_t handle_bytes,
                                                                   size_t max_handles);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  size_t size() const { return bytes_.size(); }
  // nullopt: [offset, offset + length) is not inside the mapping.
  std::optional<std::span<const std::byte>> Read(uint64_t offset, uint64_t length) const;
  // REQUIRES: mapped kReadWrite.
  std::optional<std::span<std::byte>> Write(uint64_t offset, uint64_t length) const;

 private:
  // `range`: what is unmapped at the end, `bytes` and addresses behind it.
  Mapping(std::span<std::byte> bytes, size_t range, Access access)
      : bytes_(bytes), range_(range), access_(access) {}
  bool Holds(uint64_t offset, uint64_t length) const {
    return offset <= bytes_.size() && length <= bytes_.size() - offset;
  }

  const std::span<std::byte> bytes_;
  const size_t range_;
  const Access access_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_MAPPING_H_

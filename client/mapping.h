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
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  size_t size() const { return bytes_.size(); }
  // nullopt: [offset, offset + length) is not inside the mapping.
  std::optional<std::span<const std::byte>> Read(uint64_t offset, uint64_t length) const;
  // REQUIRES: mapped kReadWrite.
  std::optional<std::span<std::byte>> Write(uint64_t offset, uint64_t length) const;

 private:
  Mapping(std::span<std::byte> bytes, Access access) : bytes_(bytes), access_(access) {}
  bool Holds(uint64_t offset, uint64_t length) const {
    return offset <= bytes_.size() && length <= bytes_.size() - offset;
  }

  const std::span<std::byte> bytes_;
  const Access access_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_MAPPING_H_

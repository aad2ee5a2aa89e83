// BlockMemory is the memory in which this worker reads or writes the blocks of one call: an arena
// or a GPU pool that is mapped in this process, or a GPU pool that only the worker's own device
// reaches. In such a pool a block has an offset and no bytes.
#ifndef KVTIER_CLIENT_BLOCK_MEMORY_H_
#define KVTIER_CLIENT_BLOCK_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "client/mapping.h"
#include "client/session.h"

namespace kvtier {

// A value. Thread-compatible.
class BlockMemory {
 public:
  BlockMemory() = default;  // Holds no memory.
  // Arena() and GpuPool() return an object for which none() is true if there is no memory: `arena`
  // is null, the node has no pool for this session, or neither this worker nor its device reaches
  // the pool.
  static BlockMemory Arena(std::shared_ptr<const Mapping> arena);
  static BlockMemory GpuPool(const std::shared_ptr<const Session>& session);
  bool none() const { return mapping_ == nullptr && pool_ == nullptr; }

  // Maps the pool at the version that an answer refers to, if it has changed. Returns false if that
  // failed: the answer's slots cannot be used then, and the caller gives them back.
  bool Follow(uint64_t version, absl::Duration timeout);
  // Read() and Write() return the bytes: an empty span if only the device reaches them, nullopt if
  // they are not inside the memory. REQUIRES of Write(): the arena is mapped for writing.
  std::optional<std::span<const std::byte>> Read(uint64_t offset, uint64_t length) const;
  std::optional<std::span<std::byte>> Write(uint64_t offset, uint64_t length) const;
  // Returns an object that keeps the memory mapped while it lives; for a pool that the device maps
  // it keeps the handles open.
  std::shared_ptr<const void> keep() const;
  // Returns the mapping; null: nothing is mapped.
  const std::shared_ptr<const Mapping>& mapping() const { return mapping_; }

 private:
  bool DeviceHolds(uint64_t offset, uint64_t length) const;

  std::shared_ptr<const Session> session_;  // Session of the GPU pool; null for an arena.
  std::shared_ptr<const Mapping> mapping_;
  // GPU pool that only the device reaches; null if the memory is mapped.
  std::shared_ptr<const GpuMemory> pool_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BLOCK_MEMORY_H_

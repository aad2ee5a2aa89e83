// BlockMemory is where the blocks of one call's target lie for this worker: memory that is
// mapped here, or a GPU pool that only the worker's own device reaches. Then a block has an
// offset and no bytes.
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
  BlockMemory() = default;  // None.
  // None, where there is none: `arena` is null; the node has no pool for this session, or
  // only one that nothing of this worker's reaches.
  static BlockMemory Arena(std::shared_ptr<const Mapping> arena);
  static BlockMemory GpuPool(const std::shared_ptr<const Session>& session);
  bool none() const { return mapping_ == nullptr && pool_ == nullptr; }

  // Maps a pool as an answer means it, if it has changed. False: its slots are of no use to
  // us, and what it granted is to be given back.
  bool Follow(uint64_t version, absl::Duration timeout);
  // The bytes; none of them where only the device reaches them. nullopt: not inside.
  // REQUIRES of Write(): the arena is the writing one.
  std::optional<std::span<const std::byte>> Read(uint64_t offset, uint64_t length) const;
  std::optional<std::span<std::byte>> Write(uint64_t offset, uint64_t length) const;
  // While this lives the memory stays mapped; of a pool that the device maps, its handles stay
  // open.
  std::shared_ptr<const void> keep() const;
  // Null: nothing is mapped.
  const std::shared_ptr<const Mapping>& mapping() const { return mapping_; }

 private:
  bool DeviceHolds(uint64_t offset, uint64_t length) const;

  std::shared_ptr<const Session> session_;  // Null: an arena.
  std::shared_ptr<const Mapping> mapping_;
  std::shared_ptr<const GpuMemory> pool_;  // Null: the memory is mapped.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BLOCK_MEMORY_H_

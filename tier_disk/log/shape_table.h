// ShapeTable numbers the shapes of blocks: space, length, owner and the key that seals them. A
// million blocks of one model and tenant share a shape, so an index entry names it with three bytes
// instead of fifty-six.
//
// Pure bookkeeping. Executor thread only. A shape lives while it is acquired.
#ifndef KVTIER_TIER_DISK_LOG_SHAPE_TABLE_H_
#define KVTIER_TIER_DISK_LOG_SHAPE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/block_key.h"
#include "tier_disk/disk_block.h"

namespace kvtier {

struct BlockShape {
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  TenantTag owner{};
  KeyId key_id{};
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BlockShape& shape) {
    return H::combine(std::move(h), shape.space, shape.length, shape.owner, shape.key_id);
  }
};

using ShapeId = uint32_t;

class ShapeTable {
 public:
  // Limit of ids: index entries keep them in 24 bits.
  static constexpr size_t kMaxShapes = size_t{1} << 24;

  // Makes an empty table. REQUIRES: capacity <= kMaxShapes.
  explicit ShapeTable(size_t capacity = kMaxShapes) : capacity_(capacity) {}
  // Returns whether Acquire(shape) has room.
  bool Fits(const BlockShape& shape) const;
  // Returns the shape's id. Each Acquire() is paired with one Release(). REQUIRES: Fits(shape).
  ShapeId Acquire(const BlockShape& shape);
  void Release(ShapeId id);
  const BlockShape& At(ShapeId id) const { return shapes_[id].shape; }

  size_t size() const { return ids_.size(); }
  uint64_t memory_bytes() const;

 private:
  struct Counted {
    BlockShape shape;
    uint64_t holders = 0;
  };
  const size_t capacity_;
  std::vector<Counted> shapes_;  // Shapes by id.
  std::vector<ShapeId> free_;
  absl::flat_hash_map<BlockShape, ShapeId> ids_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_SHAPE_TABLE_H_

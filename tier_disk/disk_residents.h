// DiskResidents says which blocks this node's disks can serve. Only the disk tier's own index knows
// that, so no other code keeps a second list of a million keys. It has two forms: DiskTier for one
// disk, and DiskSet for several.
#ifndef KVTIER_TIER_DISK_DISK_RESIDENTS_H_
#define KVTIER_TIER_DISK_DISK_RESIDENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier {

// Place in a walk over all blocks of the disks.
struct DiskWalk {
  size_t disk = 0;
  uint32_t record = 0;
};

// DiskResidents lists the blocks of the disks. Executor thread only.
class DiskResidents {
 public:
  virtual ~DiskResidents() = default;
  virtual bool Contains(const BlockKey& key) const = 0;
  // Returns whether a block here names `key` as its parent; `key` itself need not be here. A copy
  // that is about to be erased may still count.
  virtual bool HasChildOf(const BlockKey& key) const = 0;
  // Calls `visit` with the blocks here that name `key` as their parent, until it returns false.
  virtual void ForEachChildOf(const BlockKey& key,
                              absl::FunctionRef<bool(const BlockKey&)> visit) const = 0;
  virtual size_t block_count() const = 0;
  // Adds the blocks from `*at` on to `keys`, and moves `*at` on. It looks at `limit` places at
  // most, so it may find no block. Returns false if it came to the end. Between two calls blocks
  // may come and go: the calls find each block once that is here from the first to the last of
  // them.
  virtual bool KeysFrom(DiskWalk* at, size_t limit, std::vector<BlockKey>* keys) const = 0;
  // Returns every block. There may be millions: a task that serves others walks by KeysFrom().
  std::vector<BlockKey> Keys() const {
    std::vector<BlockKey> keys;
    for (DiskWalk at; KeysFrom(&at, SIZE_MAX, &keys);) {
    }
    return keys;
  }
  // Marks the block and its ancestors as used, also when host memory or a peer served the block.
  // Touched blocks are kept longer than others. Ignores a block that is not here.
  virtual void Touch(const BlockKey& key, const ReuseHint& hint) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_RESIDENTS_H_

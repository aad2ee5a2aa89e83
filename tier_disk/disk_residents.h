// DiskResidents answers which blocks this node's disks can serve. The disk tier's own
// index is the only place that knows, so nobody else keeps a second list of a million
// keys. Two forms: DiskTier, one disk, and DiskSet, several.
#ifndef KVTIER_TIER_DISK_DISK_RESIDENTS_H_
#define KVTIER_TIER_DISK_DISK_RESIDENTS_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier {

// Executor thread only.
class DiskResidents {
 public:
  virtual ~DiskResidents() = default;
  virtual bool Contains(const BlockKey& key) const = 0;
  // A block here names `key` as its parent; `key` itself need not be here. (A copy that is
  // about to be erased may still count.)
  virtual bool HasChildOf(const BlockKey& key) const = 0;
  // Calls `visit` with the blocks here that name `key` as their parent, until it returns false.
  virtual void ForEachChildOf(const BlockKey& key,
                              absl::FunctionRef<bool(const BlockKey&)> visit) const = 0;
  virtual size_t block_count() const = 0;
  // Every block, in an order that depends only on what the disks hold.
  virtual std::vector<BlockKey> Keys() const = 0;
  // The block was of use, wherever it was served from; so were its ancestors. What is
  // touched outlives what is not. Ignores what is not here.
  virtual void Touch(const BlockKey& key, const ReuseHint& hint) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_RESIDENTS_H_

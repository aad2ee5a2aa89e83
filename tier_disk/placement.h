// Placement says which of several disks a block belongs on: weighted rendezvous
// hashing. Each disk draws a lot for the block, scaled by its capacity, and the
// highest wins, so a disk gets its share of the blocks, and adding or removing one
// moves the blocks it wins or had and no others.
//
// Pure, immutable, thread-safe. The same on every machine and in every process: disks
// are told apart by their id, not by their position or path.
#ifndef KVTIER_TIER_DISK_PLACEMENT_H_
#define KVTIER_TIER_DISK_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block_key.h"
#include "tier_disk/cipher/disk_identity.h"

namespace kvtier {

// What one disk asks for: blocks in proportion to its bytes.
struct DiskShare {
  DiskId id;
  uint64_t capacity_bytes = 0;
};

class Placement {
 public:
  // REQUIRES: at least one disk, no id twice, no capacity zero.
  explicit Placement(std::vector<DiskShare> disks);

  // Index, in the constructor's order, of the disk on which the block belongs.
  size_t Preferred(const BlockKey& key) const;
  // All disks, the preferred first, then where the block goes if that one does not
  // take it, and so on: without the first the second would be the preferred.
  std::vector<size_t> Order(const BlockKey& key) const;

 private:
  // The larger the better. -capacity / ln(u), u uniform in (0, 1) by key and id: the
  // logarithmic method of Schindelhauer and Schomaker, "Weighted Distributed Hash
  // Tables" (SPAA 2005). The first of exponential lots wins in proportion to its rate.
  double Lot(const DiskShare& disk, const BlockKey& key) const;

  const std::vector<DiskShare> disks_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_PLACEMENT_H_

// Placement says on which of several disks a block belongs, by weighted rendezvous hashing. Each
// disk draws a lot for the block, scaled by its capacity, and the highest lot wins. So each disk
// gets its share of the blocks, and adding or removing a disk moves only the blocks that it wins or
// had.
//
// Pure, immutable, thread-safe. The result is the same on every machine and in every process: disks
// are identified by their ids, not by their positions or paths.
#ifndef KVTIER_TIER_DISK_PLACEMENT_H_
#define KVTIER_TIER_DISK_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block_key.h"
#include "tier_disk/cipher/disk_identity.h"

namespace kvtier {

// Share of one disk: it gets blocks in proportion to its bytes.
struct DiskShare {
  DiskId id;
  uint64_t capacity_bytes = 0;
};

class Placement {
 public:
  // Makes a placement. REQUIRES: at least one disk, no id twice, no capacity zero.
  explicit Placement(std::vector<DiskShare> disks);

  // Returns the index, in the constructor's order, of the disk on which the block belongs.
  size_t Preferred(const BlockKey& key) const;
  // Returns all disks in the order in which the block tries them: the preferred first. Without the
  // first disk the second would be the preferred.
  std::vector<size_t> Order(const BlockKey& key) const;

 private:
  // Returns the disk's lot; the largest wins. It is -capacity / ln(u), u uniform in (0, 1) by key
  // and id: the logarithmic method of Schindelhauer and Schomaker, "Weighted Distributed Hash
  // Tables" (SPAA 2005). Of exponential lots, each is first with a probability proportional to its
  // rate.
  double Lot(const DiskShare& disk, const BlockKey& key) const;

  const std::vector<DiskShare> disks_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_PLACEMENT_H_

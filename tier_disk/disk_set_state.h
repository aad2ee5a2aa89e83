// Holds DiskSet's state of one disk, shared by its files: disk_set.cc, disk_set_contents.cc,
// disk_set_tenants.cc. Private to tier_disk.
#ifndef KVTIER_TIER_DISK_DISK_SET_STATE_H_
#define KVTIER_TIER_DISK_DISK_SET_STATE_H_

#include <algorithm>

#include "absl/container/btree_set.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

struct DiskSet::Disk {
  explicit Disk(const Member& member) : id(member.id), tier(member.tier), watched(member.disk) {}

  bool Has(const BlockKey& key) const { return !hidden.contains(key) && tier->Contains(key); }
  // Returns how many blocks here are not hidden.
  size_t visible() const { return tier->block_count() - hidden.size(); }

  const DiskId id;
  DiskTier* const tier;
  WatchedDisk* const watched;
  absl::StatusOr<DiskTier::Recovery> recovery = absl::DeadlineExceededError("not open yet");
  bool serving = false;    // Whether its blocks can be found.
  bool announced = false;  // Whether its blocks, or some of them, were announced.
  bool updating = false;   // Whether UpdateAnnouncements() runs.
  bool erasing = false;    // Whether EraseHidden() runs.
  // Keys of copies that must not be served: the blocks were erased, or put on another disk, while
  // this disk was out of service. The tier's index has all of them, and so bounds their number.
  absl::btree_set<BlockKey> hidden;
  Calls calls;  // Calls in flight.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DISK_SET_STATE_H_

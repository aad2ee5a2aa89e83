// Decides which part of a manifest image can be trusted on the disk as it is configured now. Pure;
// DiskTier::Open() acts on the result. Recover() reads no record: every Get() verifies the record
// that it reads. CheckGenerations() comes before it, and reads the first page of each segment.
#ifndef KVTIER_TIER_DISK_MANIFEST_RECOVERY_H_
#define KVTIER_TIER_DISK_MANIFEST_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/space.h"
#include "tier_disk/log/segment_log.h"
#include "tier_disk/manifest/manifest.h"

namespace kvtier {

struct RecoveredDisk {
  std::vector<DiskEntry> live;              // Live entries by segment and offset; no two overlap.
  std::vector<SegmentLog::Found> segments;  // New generations where nothing is live.
  ManifestBatch repair;                     // Erases other entries, stores new generations.
  uint64_t dropped_stale = 0;
  uint64_t dropped_corrupt = 0;
  uint64_t dropped_misfit = 0;
  uint64_t dropped_keyless = 0;
};

// Returns whether a record is not sealed.
inline bool LiesInTheClear(KeyId key_id) { return key_id == KeyId{}; }

// Returns whether the manifest has forgotten generations: kDataLoss, naming a segment that begins
// with a record of a generation that no row says any more. A row of it was on the device before the
// record, so rows are lost, and new records could get the numbers of old ones. `generations` are
// those of the manifest; `first_page` reads the first page of a segment, and returns false if it
// cannot.
absl::Status CheckGenerations(
    const std::vector<ManifestBatch::Generation>& generations, uint32_t segment_count,
    absl::FunctionRef<bool(SegmentId, std::span<std::byte, kBlockAlignment>)> first_page);

// Recovers. `readable` says whether records with a key id (zero: in the clear) can be read.
RecoveredDisk Recover(ManifestImage image, uint32_t segment_count, uint64_t segment_bytes,
                      absl::FunctionRef<bool(KeyId)> readable = LiesInTheClear);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_RECOVERY_H_

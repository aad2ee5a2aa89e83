// Measures how long a disk of many small blocks takes from opening its files to serving.
#ifndef KVTIER_BENCH_DISK_RECOVERY_H_
#define KVTIER_BENCH_DISK_RECOVERY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kvtier::bench {

struct DiskRecoveryFigures {
  double warm_seconds = 0;              // Time between OpenDisk() and the end of DiskTier::Open().
  double commit_seconds_per_block = 0;  // Commit time of the manifest, in batches of 64 puts.
  double manifest_bytes_per_block = 0;  // Bytes on disk for the manifest afterwards.
  double index_bytes_per_block = 0;
};

// Measures a disk of `blocks` 4 KiB blocks in chains of a hundred at `directory`, which is made and
// removed. The manifest is the one that a killed process leaves; no record is written (recovery
// reads none). Errors: kResourceExhausted, no room for the segments.
absl::StatusOr<DiskRecoveryFigures> MeasureDiskRecovery(const std::string& directory,
                                                        uint64_t blocks);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_DISK_RECOVERY_H_

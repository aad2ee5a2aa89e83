// Manifest remembers, across kill -9, which record of which segment holds which
// block. It is written after the data and before the index (law 2). Two forms:
// RocksManifest and the simulator's.
#ifndef KVTIER_TIER_DISK_MANIFEST_MANIFEST_H_
#define KVTIER_TIER_DISK_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "core/task.h"
#include "tier_disk/cipher/tenant_salt.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/io/disk.h"

namespace kvtier {

// Applied whole or not at all. Order inside a batch: erases, generations, puts, salts.
struct ManifestBatch {
  std::vector<BlockKey> erases;
  struct Generation {
    SegmentId segment{};
    uint64_t generation = 0;
  };
  std::vector<Generation> generations;
  std::vector<DiskEntry> puts;
  std::vector<TenantSalt> salts;  // Of tenants that have none.
};

// What is remembered, plus what could not be read back.
struct ManifestImage {
  std::vector<DiskEntry> entries;
  std::vector<ManifestBatch::Generation> generations;
  std::vector<TenantSalt> salts;
  uint64_t dropped_corrupt = 0;  // Values that failed their own checksum or format.
};

// Executor thread only.
class Manifest {
 public:
  virtual ~Manifest() = default;
  // On return the batch survives kill -9 of the process (not yet a power cut: the
  // last batches may be lost then, and become misses); one with generations or salts
  // survives that too. Errors: kUnavailable; kResourceExhausted, there is no room for its
  // puts, and nothing of it was applied.
  virtual Task<absl::Status> Commit(ManifestBatch batch) = 0;
  // On return the tenant's salt is in no file of the store any more, whether it was there
  // or not; nor is it after a power cut. What a device keeps of blocks that its file
  // system gave up is beyond it. Errors: kUnavailable, it may still be in a file: call
  // again.
  virtual Task<absl::Status> EraseSalt(std::string tenant) = 0;
  // Memory that it takes now.
  virtual uint64_t memory_bytes() const { return 0; }
  // OK: at the last commit there was room for more rows. kResourceExhausted: there is
  // none, so nothing new is to be put; small changes still go through.
  virtual absl::Status HasRoom() const { return absl::OkStatus(); }
  // Reads everything. Damaged values are counted and left out, never an error.
  // Errors: kUnavailable, the store cannot be opened or read.
  virtual Task<absl::StatusOr<ManifestImage>> Load() = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_MANIFEST_H_

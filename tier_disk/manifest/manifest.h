// Manifest remembers, across kill -9, which record of which segment holds which block. It is
// written after the data and before the index (law 2). It has two forms: RocksManifest and the
// simulator's.
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

// Batch of changes, applied whole or not at all, in this order: erases, generations, puts, salts.
struct ManifestBatch {
  std::vector<BlockKey> erases;
  struct Generation {
    SegmentId segment{};
    uint64_t generation = 0;
  };
  std::vector<Generation> generations;
  std::vector<DiskEntry> puts;
  std::vector<TenantSalt> salts;  // Salts of tenants that have none.
};

// Content of the manifest, with a count of what could not be read.
struct ManifestImage {
  std::vector<DiskEntry> entries;
  std::vector<ManifestBatch::Generation> generations;
  std::vector<TenantSalt> salts;
  uint64_t dropped_corrupt = 0;  // Number of values that failed their checksum or format.
};

// Manifest stores rows. Executor thread only.
class Manifest {
 public:
  virtual ~Manifest() = default;
  // Commits a batch. On return it survives kill -9 of the process, but not yet a power cut: the
  // last batches may then be lost, and their blocks become misses. A batch with generations or
  // salts survives a power cut too. An empty batch asks whether what was committed before survives.
  // Errors: kUnavailable; kResourceExhausted, there is no room for its puts, and nothing of it was
  // applied; kNotFound, naming what is gone: the next start does not find the files that were
  // written, so nothing survives from now on.
  virtual Task<absl::Status> Commit(ManifestBatch batch) = 0;
  // Erases the tenant's salt. On return it is in no file of the store any more, whether it was
  // there or not, not even after a power cut. It cannot erase copies that the device keeps in
  // storage that the file system has freed. Errors: kUnavailable, it may still be in a file: call
  // again; kNotFound, as Commit().
  virtual Task<absl::Status> EraseSalt(std::string tenant) = 0;
  // Returns the bytes of memory that the manifest takes now.
  virtual uint64_t memory_bytes() const { return 0; }
  // Returns OK if there was room for more rows at the last commit. kResourceExhausted: there was
  // none, so callers should put no new blocks; small changes still succeed.
  virtual absl::Status HasRoom() const { return absl::OkStatus(); }
  // Reads everything. Damaged values are counted and left out, never an error. Errors:
  // kUnavailable, the store cannot be opened or read.
  virtual Task<absl::StatusOr<ManifestImage>> Load() = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_MANIFEST_H_

// RocksManifest is the Manifest seam over RocksDB, on one thread of its own.
//
// Durability point: Commit() returns when the kernel has the write-ahead log's
// bytes. kill -9 loses nothing; a power cut may lose the last batches, whose blocks
// are then misses, and their records space until reclaim. What is synced (generations,
// salts) is not lost.
#ifndef KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_
#define KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/byte_workers.h"
#include "tier_disk/manifest/manifest.h"

namespace rocksdb {
class DB;
}

namespace kvtier {

// New rows are declined when the file system has less free than this: two memtables to
// be flushed, the log that follows them (preallocated), a compaction, and room for what
// is already on its way. RocksDB 7.8 must never meet ENOSPC: a log that met it stays
// broken until the store is opened again, whatever Resume() says, and Debian's build,
// which has its assertions on, can even abort.
inline constexpr uint64_t kManifestReserveBytes = uint64_t{64} << 20;

class RocksManifest final : public Manifest {
 public:
  // Opens the store in directory `path`, making it if it is absent, and proves the checksums of
  // its tables. Errors: kDataLoss, files of the store are gone or damaged, and every one that is
  // there could be read (Destroy() it and start empty); kUnavailable, the file system's, which may
  // pass, or another process has it.
  static absl::StatusOr<std::unique_ptr<RocksManifest>> Open(Executor* executor,
                                                             const std::string& path);
  // Removes the store's files. REQUIRES: it is not open.
  static absl::Status Destroy(const std::string& path);
  // What a store holds that nobody has open, damaged rows by their keys; writes nothing
  // (fsck). Errors: Open()'s; kNotFound, there is no store.
  struct Offline {
    ManifestImage image;
    std::vector<std::string> damaged_rows;
  };
  static absl::StatusOr<Offline> ReadOffline(const std::string& path);
  // Erases these rows of such a store, durably. Errors: Open()'s.
  static absl::Status EraseOffline(const std::string& path, const std::vector<std::string>& rows);
  ~RocksManifest() override;  // REQUIRES: no call is in flight.

  Task<absl::Status> Commit(ManifestBatch batch) override;
  // Rewrites the tables that hold the row, and removes the log that does: as long as that
  // takes, no commit is answered.
  Task<absl::Status> EraseSalt(std::string tenant) override;
  // Memtables, cached blocks and what open tables need: bounded by the store's options.
  uint64_t memory_bytes() const override;
  // What the last commit with puts found; once there was no room, asks each time.
  absl::Status HasRoom() const override;
  Task<absl::StatusOr<ManifestImage>> Load() override;

 private:
  RocksManifest(Executor* executor, std::string path, std::unique_ptr<rocksdb::DB> db);
  // Asks the file system: one write into a full one would break the store until it is
  // opened again. OK when that does not answer: then nothing is known.
  absl::Status LookForRoom() const;
  absl::Status CommitNow(const ManifestBatch& batch);
  absl::Status EraseSaltNow(const std::string& tenant);
  absl::StatusOr<ManifestImage> LoadNow();

  const std::string path_;
  mutable std::atomic<bool> has_room_ = true;
  std::unique_ptr<rocksdb::DB> db_;
  BytePool thread_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_

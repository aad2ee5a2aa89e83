// RocksManifest is the Manifest seam over RocksDB, on one thread of its own.
//
// Durability point: Commit() returns when the kernel has the bytes of the write-ahead log. kill -9
// loses nothing. A power cut may lose the last batches: their blocks become misses, and their
// records waste space until reclaim. Synced changes (generations, salts) are not lost.
#ifndef KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_
#define KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/byte_threads.h"
#include "tier_disk/io/named_directory.h"
#include "tier_disk/manifest/manifest.h"

namespace rocksdb {
class DB;
}

namespace kvtier {

// Free bytes of the file system below which new rows are declined: two memtables to be flushed, the
// log that follows them (preallocated), a compaction, and room for writes in flight. RocksDB 7.8
// must never meet ENOSPC: a log that met it stays broken until the store is opened again, whatever
// Resume() says, and Debian's build, which has its assertions on, can even abort.
inline constexpr uint64_t kManifestReserveBytes = uint64_t{64} << 20;
// Free bytes without which a store is not opened: recovery flushes the whole log in the worst case.
inline constexpr uint64_t kManifestOpenBytes = uint64_t{32} << 20;
// Free bytes without which no store is made: the reserve, and what the store takes at once.
inline constexpr uint64_t kNewManifestBytes = kManifestReserveBytes + (uint64_t{16} << 20);

class RocksManifest final : public Manifest {
 public:
  // Says whether the files beside the store are where the next start looks for them: an error ends
  // each commit. Called on the manifest's thread.
  using InPlace = absl::AnyInvocable<absl::Status()>;
  // Opens the store in directory `path`, creating it if it is absent, and verifies the checksums of
  // its tables. Errors: kDataLoss, files of the store are gone or damaged, and every file that is
  // there could be read (Destroy() it and start empty); kUnavailable, an error of the file system,
  // which may pass, or another process has the store open.
  static absl::StatusOr<std::unique_ptr<RocksManifest>> Open(Executor* executor,
                                                             const std::string& path,
                                                             InPlace in_place = nullptr);
  // Returns OK if the file system of `path` has so many bytes free, or does not say. Errors:
  // kResourceExhausted, with both numbers.
  static absl::Status CheckRoom(const std::string& path, uint64_t bytes);
  // Returns the generations of segments; nullopt: a row of them is damaged, which Load() repairs.
  // Blocks. Errors: kUnavailable, kDataLoss.
  absl::StatusOr<std::optional<std::vector<ManifestBatch::Generation>>> Generations();
  // Removes the store's files. REQUIRES: it is not open.
  static absl::Status Destroy(const std::string& path);
  // Content of a store that no process has open, with the keys of damaged rows. Reading it writes
  // nothing (fsck). Errors: Open()'s; kNotFound, there is no store.
  struct Offline {
    ManifestImage image;
    std::vector<std::string> damaged_rows;
  };
  static absl::StatusOr<Offline> ReadOffline(const std::string& path);
  // Erases these rows, durably, of a store that no process has open. Errors: Open()'s.
  static absl::Status EraseOffline(const std::string& path, const std::vector<std::string>& rows);
  ~RocksManifest() override;  // REQUIRES: no call is in flight.

  Task<absl::Status> Commit(ManifestBatch batch) override;
  // Erases the row: rewrites the tables that hold it, and removes the log that holds it. No commit
  // is answered while that runs.
  Task<absl::Status> EraseSalt(std::string tenant) override;
  // Returns the memory of memtables, the block cache and open tables; the store's options bound it.
  uint64_t memory_bytes() const override;
  // Returns the result of Open() or of the last commit with puts; once there was no room, asks the
  // file system each time.
  absl::Status HasRoom() const override;
  Task<absl::StatusOr<ManifestImage>> Load() override;

 private:
  RocksManifest(Executor* executor, std::string path, std::unique_ptr<rocksdb::DB> db,
                std::unique_ptr<NamedDirectory> directory, InPlace in_place);
  // Asks the file system for its free bytes, because one write into a full file system would break
  // the store until it is opened again. OK if the file system does not answer, as nothing is known
  // then.
  absl::Status LookForRoom() const;
  // Returns whether the next start finds what was committed. Errors: kNotFound, from then on of
  // every call.
  absl::Status CheckInPlace();
  // Compares the files that RocksDB needs with those that had their names before.
  absl::Status LookAtFiles();
  absl::StatusOr<std::map<std::string, FileId>> FilesOfStore() const;
  absl::Status CommitNow(const ManifestBatch& batch);
  absl::Status EraseSaltNow(const std::string& tenant);
  absl::StatusOr<ManifestImage> LoadNow();

  const std::string path_;
  mutable std::atomic<bool> has_room_ = true;
  std::unique_ptr<rocksdb::DB> db_;
  // Used by `thread_` alone.
  const std::unique_ptr<NamedDirectory> directory_;
  InPlace in_place_;
  std::map<std::string, FileId> files_;  // Files that RocksDB needed at the last look, by name.
  absl::Status gone_;                    // Result of the first check that found something gone.
  BytePool thread_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_ROCKS_MANIFEST_H_

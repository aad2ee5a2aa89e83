// Fsck checks the directory of a disk whose agent does not run: superblock, segment files, manifest
// rows, and the bytes of every live record. It blocks, on the caller's thread, and needs no
// executor. docs/design/disk_scrub.md.
#ifndef KVTIER_TIER_DISK_FSCK_H_
#define KVTIER_TIER_DISK_FSCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_disk/cipher/master_secret.h"
#include "tier_disk/directory/superblock.h"

namespace kvtier {

// Maximum number of findings that are reported one by one; all of them are counted.
inline constexpr size_t kMaxFindings = 100;

struct FsckOptions {
  std::string directory;
  // Whether to erase the manifest rows of damaged records, and the damaged rows. If false nothing
  // is written.
  bool repair = false;
  // Secret of an encrypted disk. Null: headers are verified, and sealed payloads are not.
  std::shared_ptr<const MasterSecret> secret{};
  // Called after each record, with the bytes of records read so far and in all.
  std::function<void(uint64_t done, uint64_t total)> on_progress;
};

struct FsckReport {
  enum class SuperblockState : uint8_t { kNone, kGood, kOneCopyDamaged, kDamaged };
  SuperblockState superblock_state = SuperblockState::kNone;  // Every state but kGood is damage.
  std::optional<Superblock> superblock;

  uint32_t segments = 0;  // Number of segments by the superblock; without one, by the last file.
  uint64_t segment_bytes = 0;
  uint32_t segments_missing = 0;
  uint32_t segments_short = 0;  // Number of files shorter than segment_bytes.

  bool rows_are_lost = false;  // Result of CheckGenerations().
  uint64_t rows_good = 0;
  uint64_t rows_damaged = 0;
  // Number of rows of an older generation, which a crash leaves; that is no damage.
  uint64_t rows_stale = 0;
  uint64_t rows_misfit = 0;   // Number of rows outside the segments, or overlapping another.
  uint64_t rows_keyless = 0;  // Number of rows under a destroyed key; that is no damage.

  uint64_t records = 0;  // Number of live records that were read and verified, whatever the result.
  uint64_t bytes = 0;    // Bytes of the records, headers included.
  uint64_t records_damaged = 0;
  uint64_t payloads_unchecked = 0;  // Number of sealed payloads for which no secret was given.
  // Number of records that the device could not read; their rows are never erased.
  uint64_t records_unreadable = 0;

  uint64_t rows_erased = 0;           // Number of rows that the repair erased.
  std::vector<std::string> findings;  // Findings of one line each, at most kMaxFindings.

  bool clean() const;  // Returns whether there is no damage, as far as could be checked.
};

// Checks a directory. Errors: kNotFound, it is no disk's directory; kFailedPrecondition, an agent
// runs on it, a newer program made it, or the secret is another disk's; kDataLoss, the manifest
// cannot be opened; kUnavailable, the file system's.
absl::StatusOr<FsckReport> Fsck(const FsckOptions& options);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_FSCK_H_

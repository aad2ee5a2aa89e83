// Fsck looks at the directory of a disk whose agent does not run: superblock, segment
// files, manifest rows, and the bytes of every live record. It blocks, on the caller's
// thread, and needs no executor. docs/design/disk_scrub.md.
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

// Findings that are told one by one; all of them are counted.
inline constexpr size_t kMaxFindings = 100;

struct FsckOptions {
  std::string directory;
  // Erases the manifest rows of damaged records, and the damaged rows. Without it
  // nothing is written.
  bool repair = false;
  // Of an encrypted disk: without it headers are verified, and payloads are not.
  std::shared_ptr<const MasterSecret> secret{};
  // Called after each record with the bytes of records read, and of all to be read.
  std::function<void(uint64_t done, uint64_t total)> on_progress;
};

struct FsckReport {
  enum class SuperblockState : uint8_t { kNone, kGood, kOneCopyDamaged, kDamaged };
  SuperblockState superblock_state = SuperblockState::kNone;  // All but kGood is damage.
  std::optional<Superblock> superblock;

  uint32_t segments = 0;  // As the superblock has it, else up to the last file.
  uint64_t segment_bytes = 0;
  uint32_t segments_missing = 0;
  uint32_t segments_short = 0;  // The file ends before segment_bytes.

  uint64_t rows_good = 0;
  uint64_t rows_damaged = 0;
  uint64_t rows_stale = 0;    // Of an older generation: a crash leaves such; no damage.
  uint64_t rows_misfit = 0;   // Outside the segments, or over another record.
  uint64_t rows_keyless = 0;  // Sealed under a key that exists no longer; no damage.

  uint64_t records = 0;  // Live ones, read and verified, whatever came of it.
  uint64_t bytes = 0;    // Of those, headers included.
  uint64_t records_damaged = 0;
  uint64_t payloads_unchecked = 0;  // Sealed, and no secret was given.
  uint64_t records_unreadable = 0;  // The device failed: their rows are never erased.

  uint64_t rows_erased = 0;           // By the repair.
  std::vector<std::string> findings;  // A line each, kMaxFindings at most.

  bool clean() const;  // Of damage, as far as could be checked.
};

// Errors: kNotFound, this is no disk's directory; kFailedPrecondition, an agent runs on
// it, a newer program made it, or the secret is another disk's; kDataLoss, the manifest cannot be
// opened; kUnavailable, the file system's.
absl::StatusOr<FsckReport> Fsck(const FsckOptions& options);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_FSCK_H_

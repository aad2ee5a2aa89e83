// SuperblockFile keeps the superblock of one disk directory on its device. It reads, makes and
// changes `<directory>/superblock` so that a crash between any two steps leaves a file that the
// next Read() understands.
//
// Not thread-safe; the caller holds the directory's lock. Blocks.
#ifndef KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_FILE_H_
#define KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_FILE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_disk/directory/superblock.h"

namespace kvtier {

inline constexpr char kSuperblockName[] = "superblock";

class SuperblockFile {
 public:
  explicit SuperblockFile(std::string directory) : directory_(std::move(directory)) {}

  // Reads the superblock; nullopt: there is none. Completes a change that a crash interrupted.
  // Errors, naming the file: DecodeSuperblock()'s, of which kFailedPrecondition means that nothing
  // in the directory may be touched; the file system's.
  absl::StatusOr<std::optional<Superblock>> Read();
  // Creates the file, whatever was there, or leaves everything unchanged. Errors: the file
  // system's.
  absl::Status Create(const Superblock& superblock);
  // Changes the file in place, one copy after the other. REQUIRES: Read() or Create() left the
  // file, and `superblock` has a higher sequence. Errors: the file system's; the old or the new
  // superblock is then valid.
  absl::Status Change(const Superblock& superblock);

 private:
  std::string path() const { return directory_ + "/" + kSuperblockName; }
  absl::Status WriteCopy(const Superblock& superblock, SuperblockCopy copy);

  const std::string directory_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_FILE_H_

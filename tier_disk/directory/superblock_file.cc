#include "tier_disk/directory/superblock_file.h"

#include <array>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_disk/io/durable_file.h"

namespace kvtier {

absl::StatusOr<std::optional<Superblock>> SuperblockFile::Read() {
  KVT_ASSIGN_OR_RETURN(const std::optional<std::vector<std::byte>> file,
                       ReadFileStart(path(), kSuperblockFileBytes));
  if (!file) return std::nullopt;
  const absl::StatusOr<DecodedSuperblock> decoded = DecodeSuperblock(*file);
  if (!decoded.ok()) {
    return absl::Status(decoded.status().code(),
                        absl::StrCat(path(), ": ", decoded.status().message()));
  }
  if (decoded->superblock && decoded->copies_differ) {
    KVT_RETURN_IF_ERROR(WriteCopy(*decoded->superblock, decoded->write_first));
  }
  return decoded->superblock;
}

absl::Status SuperblockFile::Create(const Superblock& superblock) {
  return ReplaceFile(directory_, kSuperblockName, EncodeSuperblockFile(superblock));
}

absl::Status SuperblockFile::Change(const Superblock& superblock) {
  // Both copies are equal now, so either may be written first.
  KVT_RETURN_IF_ERROR(WriteCopy(superblock, SuperblockCopy::kA));
  return WriteCopy(superblock, SuperblockCopy::kB);
}

absl::Status SuperblockFile::WriteCopy(const Superblock& superblock, SuperblockCopy copy) {
  std::array<std::byte, kSuperblockBytes> page;
  EncodeSuperblock(superblock, page);
  return OverwriteFile(path(), OffsetOf(copy), page);
}

}  // namespace kvtier

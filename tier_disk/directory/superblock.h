// Superblock is the page that says what a disk directory holds: the layout's version,
// the geometry of its segment files, which disk and which making of it this is, and
// what a program must know to read it. A file of two pages, copies A and B:
//
//   superblock file = A:4096 B:4096     both the same at rest
//
// The copy with the higher sequence number is the newest; a torn or rotten one fails
// its checksum and the other counts. To change anything: encode with the sequence + 1,
// write and sync the copy `write_first`, then write and sync the other. A power cut
// anywhere leaves one valid copy, the old or the new; and since both are the same
// afterwards, one that rots later takes nothing back. A new file is made whole under
// another name (EncodeSuperblockFile), synced and renamed. What reads a file of two
// different copies completes the change: it writes the newest to the other place.
//
// Magic, version, sequence and the checksum keep their place in every version to come, so
// that any program can tell a newer disk from a damaged one.
//
// Pure: bytes in, bytes out; the file is the caller's.
#ifndef KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_H_
#define KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tier_disk/cipher/disk_identity.h"

namespace kvtier {

inline constexpr size_t kSuperblockBytes = 4096;  // A page: written whole or torn, never shared.
inline constexpr size_t kSuperblockFileBytes = 2 * kSuperblockBytes;
inline constexpr uint32_t kDiskLayoutVersion = 1;

// Bits of `incompatible`: who does not know one cannot read the disk.
inline constexpr uint64_t kFeatureEncrypted = 1 << 0;  // Payloads are sealed (record_cipher.h).
inline constexpr uint64_t kKnownIncompatibleFeatures = kFeatureEncrypted;

struct DiskGeometry {
  uint64_t segment_bytes = 0;  // Multiple of 4096.
  uint32_t segment_count = 0;  // 2..kMaxSegments.
  friend bool operator==(const DiskGeometry&, const DiskGeometry&) = default;
};

struct Superblock {
  uint64_t sequence = 1;  // Counts the changes of this page.
  DiskIdentity identity;
  DiskGeometry geometry;
  absl::Time created = absl::UnixEpoch();  // Of this incarnation; whole microseconds count.
  // TenantKeys::key_check() of an encrypted disk; sets kFeatureEncrypted.
  std::optional<uint64_t> key_check{};
  // Bits that a program need not know; those it does not know it keeps.
  uint64_t compatible = 0;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

enum class SuperblockCopy { kA, kB };
constexpr uint64_t OffsetOf(SuperblockCopy copy) {
  return copy == SuperblockCopy::kA ? 0 : kSuperblockBytes;
}

// Contents of a superblock file.
struct DecodedSuperblock {
  std::optional<Superblock> superblock;             // nullopt: there is no file.
  SuperblockCopy write_first = SuperblockCopy::kA;  // Damaged, or not the newest.
  bool copies_differ = false;  // One is damaged or older: the other is to be written there.
};

// One copy. REQUIRES: ids that are not zero, a sequence that is not zero, a geometry
// within its limits.
void EncodeSuperblock(const Superblock& superblock, std::span<std::byte, kSuperblockBytes> page);
// Both, of a new file.
std::array<std::byte, kSuperblockFileBytes> EncodeSuperblockFile(const Superblock& superblock);

// Reads a whole file; an empty span is a disk without one, and a copy that ends early
// a damaged one. Errors: kDataLoss, neither copy proves itself, or they have
// another program's magic, or the one that counts contradicts itself, or two of one sequence
// differ: nobody can tell what the disk holds, make it anew; kFailedPrecondition, naming both
// sides: a newer layout, features that this program does not know, another alignment. Nothing on
// such a disk may be touched: another program can read it.
absl::StatusOr<DecodedSuperblock> DecodeSuperblock(std::span<const std::byte> file);

// Whether the files that are configured are those of the disk. Errors:
// kFailedPrecondition, naming the first field that differs and both values: open it as
// it is, or resize it and change the superblock.
absl::Status CheckGeometry(const Superblock& superblock, const DiskGeometry& configured);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_H_

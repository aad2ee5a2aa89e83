// Superblock is the page that says what a disk directory holds: the layout's version, the geometry
// of its segment files, which disk and which incarnation this is, and what a program must know to
// read it. It is stored in a file of two pages, copies A and B:
//
//   superblock file = A:4096 B:4096     both the same at rest
//
// The copy with the higher sequence number is the newest; a torn or rotten copy fails its checksum,
// and the other one counts. To change anything, encode with the sequence + 1, write and sync the
// copy `write_first`, then write and sync the other. A power cut at any time leaves one valid copy,
// the old or the new. Since both are equal afterwards, a copy that rots later loses nothing. A new
// file is written whole under another name (EncodeSuperblockFile), synced and renamed. A reader
// that finds two different copies completes the change: it writes the newest to the other place.
//
// Magic, version, sequence and the checksum keep their place in every future version, so that any
// program can tell a newer disk from a damaged one.
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

// Size of one copy: a page of its own, of which a write may be torn.
inline constexpr size_t kSuperblockBytes = 4096;
inline constexpr size_t kSuperblockFileBytes = 2 * kSuperblockBytes;
inline constexpr uint32_t kDiskLayoutVersion = 1;

// Bits of `incompatible`: a program that does not know one of them cannot read the disk.
inline constexpr uint64_t kFeatureEncrypted = 1 << 0;  // Payloads are sealed (record_cipher.h).
inline constexpr uint64_t kKnownIncompatibleFeatures = kFeatureEncrypted;

struct DiskGeometry {
  uint64_t segment_bytes = 0;  // A multiple of 4096.
  uint32_t segment_count = 0;  // Number of segments, 2..kMaxSegments.
  friend bool operator==(const DiskGeometry&, const DiskGeometry&) = default;
};

struct Superblock {
  uint64_t sequence = 1;  // Rises by one with every change of this page, from 1.
  DiskIdentity identity;
  DiskGeometry geometry;
  absl::Time created = absl::UnixEpoch();  // Time of this incarnation, in whole microseconds.
  // TenantKeys::key_check() of an encrypted disk; sets kFeatureEncrypted.
  std::optional<uint64_t> key_check{};
  // Feature bits that a program need not know to use the disk. It keeps the bits that it does not
  // know.
  uint64_t compatible = 0;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

enum class SuperblockCopy { kA, kB };
constexpr uint64_t OffsetOf(SuperblockCopy copy) {
  return copy == SuperblockCopy::kA ? 0 : kSuperblockBytes;
}

// Content of a superblock file.
struct DecodedSuperblock {
  std::optional<Superblock> superblock;             // nullopt: there is no file.
  SuperblockCopy write_first = SuperblockCopy::kA;  // Copy that is damaged, or not the newest.
  // Whether one copy is damaged or older, so that the newest must be written over it.
  bool copies_differ = false;
};

// Encodes one copy. REQUIRES: ids that are not zero, a sequence that is not zero, a geometry within
// its limits.
void EncodeSuperblock(const Superblock& superblock, std::span<std::byte, kSuperblockBytes> page);
// Encodes both copies of a new file.
std::array<std::byte, kSuperblockFileBytes> EncodeSuperblockFile(const Superblock& superblock);

// Decodes a whole file. An empty span is a disk without a superblock, and a copy that ends early is
// damaged. Errors: kDataLoss, neither copy is valid, or they have another program's magic, or the
// newest contradicts itself, or two of one sequence differ: the content of the disk is unknown,
// make it again; kFailedPrecondition, naming both sides: a newer layout, features that this program
// does not know, another alignment. Nothing on such a disk may be touched, because another program
// can read it.
absl::StatusOr<DecodedSuperblock> DecodeSuperblock(std::span<const std::byte> file);

// Checks that the configured geometry is the disk's. Errors: kFailedPrecondition, naming the first
// field that differs and both values: open the disk as it is, or resize it and change the
// superblock.
absl::Status CheckGeometry(const Superblock& superblock, const DiskGeometry& configured);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_DIRECTORY_SUPERBLOCK_H_

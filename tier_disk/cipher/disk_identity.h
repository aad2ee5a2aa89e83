// Defines three random numbers of 128 bits: which disk, which incarnation of its content, and which
// opening of that. Each has a type of its own, so that none is taken for another. The caller draws
// them (FillRandom in secret_key.h). All zero means that the caller forgot to draw one, and no code
// accepts that.
#ifndef KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_
#define KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace kvtier {

// Id of a disk. Drawn when a directory first becomes a disk; stays as long as it is one, wherever
// it is mounted.
struct DiskId {
  std::array<uint8_t, 16> bytes{};
  friend auto operator<=>(const DiskId&, const DiskId&) = default;
  std::string ToHex() const;  // Returns 32 lower-case digits.
};

// Id of an incarnation. Drawn with every fresh start of the disk's content: at first, and when the
// manifest was lost and its generations start over.
struct IncarnationId {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const IncarnationId&, const IncarnationId&) = default;
};

// Id of an opening. Every process that opens the disk draws one, each time, and stores it only
// beside what was sealed under it.
struct OpeningId {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const OpeningId&, const OpeningId&) = default;
};

// Identity that the superblock stores.
struct DiskIdentity {
  DiskId disk;
  IncarnationId incarnation;
  friend bool operator==(const DiskIdentity&, const DiskIdentity&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_

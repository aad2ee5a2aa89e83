// Which disk, which making of it, and which opening of that: three random numbers of
// 128 bits, from the widest to the narrowest. A type each, so that none is taken for
// another. Drawn by the caller (FillRandom in secret_key.h); all zero means that it
// was forgotten, and nobody accepts it.
#ifndef KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_
#define KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace kvtier {

// Drawn when a directory first becomes a disk; stays for as long as it is one, wherever
// it is mounted.
struct DiskId {
  std::array<uint8_t, 16> bytes{};
  friend auto operator<=>(const DiskId&, const DiskId&) = default;
  std::string ToHex() const;  // 32 lower-case digits.
};

// Drawn with every fresh start of the disk's content: at first, and when the manifest
// was lost and its generations start over.
struct IncarnationId {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const IncarnationId&, const IncarnationId&) = default;
};

// Drawn by every process that opens the disk, each time, and never stored but beside
// what was sealed under it.
struct OpeningId {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const OpeningId&, const OpeningId&) = default;
};

// What the superblock remembers.
struct DiskIdentity {
  DiskId disk;
  IncarnationId incarnation;
  friend bool operator==(const DiskIdentity&, const DiskIdentity&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_DISK_IDENTITY_H_

// A record is one block at rest: a 4 KiB header page that says whose bytes follow and
// where they must lie, then the payload, padded to 4 KiB. docs/design/disk.md has the
// grammar. The payload lies in the clear and is proven by its sum, or it is sealed and
// proven by its tag (record_cipher.h); the header says which, and the index knows.
//
// Pure: bytes in, bytes out. VerifyRecord() and OpenRecord() are the gate through which
// everything that comes back from a disk passes (law 3).
#ifndef KVTIER_TIER_DISK_LOG_RECORD_H_
#define KVTIER_TIER_DISK_LOG_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checksum.h"
#include "core/space.h"
#include "tier_disk/cipher/record_cipher.h"
#include "tier_disk/disk_block.h"

namespace kvtier {

inline constexpr size_t kRecordHeaderBytes = 4096;  // One O_DIRECT page.
inline constexpr uint32_t kRecordVersion = 1;

// Bytes that the record of a block of `length` payload bytes takes in a segment.
constexpr uint64_t RecordBytes(uint64_t length) { return kRecordHeaderBytes + SlotBytes(length); }

// What a header page says: whose bytes follow, where they belong, what proves them.
struct RecordHeader {
  BlockKey key;
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  RecordPlace place;
  PayloadSum sum;                      // Of a payload in the clear; else zero.
  std::optional<CipherProof> proof{};  // Of a sealed one.
};

// The header of a block in the clear, and of a sealed one.
RecordHeader HeaderOf(const DiskEntry& entry, const PayloadSum& sum);
RecordHeader HeaderOf(const DiskEntry& entry, const CipherProof& proof);

// True when a record of generation `written` is current in a segment of
// generation `segment`.
bool SameGeneration(uint64_t written, uint64_t segment);

void EncodeRecordHeader(const RecordHeader& header, std::span<std::byte, kRecordHeaderBytes> page);

// Reads any header page. Errors: kDataLoss, it is no header of this version, or one
// that contradicts itself (seal, padding).
absl::StatusOr<RecordHeader> DecodeRecordHeader(
    std::span<const std::byte, kRecordHeaderBytes> page);

// Proves that the page is the header of `expected`, written for that very place; says
// nothing of the payload. Errors: kDataLoss, naming what differs.
absl::StatusOr<RecordHeader> VerifyHeader(const DiskEntry& expected,
                                          std::span<const std::byte, kRecordHeaderBytes> page);

// Proves that the page and the payload are the record of `expected`, written for that
// very place, and returns the payload's sum. Errors: kDataLoss, naming what differs.
// REQUIRES: the block is in the clear.
absl::StatusOr<PayloadSum> VerifyRecord(const DiskEntry& expected,
                                        std::span<const std::byte, kRecordHeaderBytes> page,
                                        std::span<const std::byte> payload);

// The same for a sealed block: proves the payload, opens it in place, and returns the sum
// of what it is. Wiped on any error. Errors: as VerifyRecord(). REQUIRES: `cipher` is of
// the block's key.
absl::StatusOr<PayloadSum> OpenRecord(const DiskEntry& expected, const RecordCipher& cipher,
                                      std::span<const std::byte, kRecordHeaderBytes> page,
                                      std::span<std::byte> payload);

// Seals for the place of `entry`: `slot` begins with the payload and becomes what is
// written behind the header. Call it once for a place that was reserved (RecordCipher).
// Errors: kDataLoss, the payload has not the sum `*sum`, if there is one: once sealed,
// damage of before would prove itself; kFailedPrecondition, no nonce for the place.
// REQUIRES: `cipher` is of the block's key; slot.size() == SlotBytes(length).
absl::StatusOr<RecordHeader> SealRecord(const DiskEntry& entry, const RecordCipher& cipher,
                                        const PayloadSum* sum, std::span<std::byte> slot);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECORD_H_

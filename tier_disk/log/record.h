// A record is one block on disk: a 4 KiB header page that identifies the bytes that follow and
// where they must lie, then the payload, padded to 4 KiB. docs/design/disk.md has the grammar. The
// payload is in the clear and proven by its sum, or it is sealed and proven by its tag
// (record_cipher.h); the header says which, and the index knows.
//
// Pure: bytes in, bytes out. VerifyRecord() and OpenRecord() are the gate through which everything
// read from a disk passes (law 3).
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

// Returns the bytes in a segment of the record of a block of `length` payload bytes.
constexpr uint64_t RecordBytes(uint64_t length) { return kRecordHeaderBytes + SlotBytes(length); }

// Content of a header page: which block follows, where it belongs, what proves it.
struct RecordHeader {
  BlockKey key;
  SpaceDigest space;
  uint64_t length = 0;  // Payload bytes.
  RecordPlace place;
  PayloadSum sum;                      // Sum of a payload in the clear; else zero.
  std::optional<CipherProof> proof{};  // Proof of a sealed payload.
};

// Return the header of a record in the clear, and of a sealed one.
RecordHeader HeaderOf(const DiskEntry& entry, const PayloadSum& sum);
RecordHeader HeaderOf(const DiskEntry& entry, const CipherProof& proof);

// Returns whether a record of generation `written` is current in a segment of generation `segment`.
bool SameGeneration(uint64_t written, uint64_t segment);

void EncodeRecordHeader(const RecordHeader& header, std::span<std::byte, kRecordHeaderBytes> page);

// Reads any header page. Errors: kDataLoss, it is no header of this version, or one that
// contradicts itself (seal, padding).
absl::StatusOr<RecordHeader> DecodeRecordHeader(
    std::span<const std::byte, kRecordHeaderBytes> page);

// Proves that the page is the header of `expected`, written for exactly that place; does not check
// the payload. Errors: kDataLoss, naming what differs.
absl::StatusOr<RecordHeader> VerifyHeader(const DiskEntry& expected,
                                          std::span<const std::byte, kRecordHeaderBytes> page);

// Proves that the page and the payload are the record of `expected`, written for exactly that
// place, and returns the payload's sum. Errors: kDataLoss, naming what differs. REQUIRES: the block
// is in the clear.
absl::StatusOr<PayloadSum> VerifyRecord(const DiskEntry& expected,
                                        std::span<const std::byte, kRecordHeaderBytes> page,
                                        std::span<const std::byte> payload);

// Verifies a sealed block: proves the payload, opens it in place, and returns the sum of the opened
// payload. Wipes the payload on any error. Errors: as VerifyRecord(). REQUIRES: `cipher` is for the
// block's key.
absl::StatusOr<PayloadSum> OpenRecord(const DiskEntry& expected, const RecordCipher& cipher,
                                      std::span<const std::byte, kRecordHeaderBytes> page,
                                      std::span<std::byte> payload);

// Seals for the place of `entry`: `slot` begins with the payload and becomes the bytes to write
// after the header. Call it once for a place that was reserved (RecordCipher). Errors: kDataLoss,
// there is a `sum` and the payload does not have it (without this check, sealing would make earlier
// damage valid); kFailedPrecondition, there is no nonce for the place. REQUIRES: `cipher` is for
// the block's key; slot.size() == SlotBytes(length).
absl::StatusOr<RecordHeader> SealRecord(const DiskEntry& entry, const RecordCipher& cipher,
                                        const PayloadSum* sum, std::span<std::byte> slot);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_RECORD_H_

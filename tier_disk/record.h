// A record is one block at rest: a 4 KiB header page that says whose bytes follow,
// then the payload, padded to 4 KiB. docs/design/disk.md has the grammar.
//
// Pure: bytes in, bytes out. VerifyRecord() is the gate through which everything
// that comes back from a disk passes (law 3).
#ifndef KVTIER_TIER_DISK_RECORD_H_
#define KVTIER_TIER_DISK_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checksum.h"
#include "core/space.h"

namespace kvtier {

inline constexpr size_t kRecordHeaderBytes = 4096;  // One O_DIRECT page.
inline constexpr uint32_t kRecordVersion = 1;

// Bytes that the record of a block of `length` payload bytes takes in a segment.
constexpr uint64_t RecordBytes(uint64_t length) { return kRecordHeaderBytes + SlotBytes(length); }

// What the header says: whose bytes follow, and what proves it.
struct Record {
  BlockIdentity identity;
  PayloadSum sum;
  uint64_t seal = 0;
};

// The record that `identity` must have where it lies: seals it.
Record SealRecord(const BlockIdentity& identity, const PayloadSum& sum);

// True when a record of generation `written` is current in a segment of
// generation `segment`.
bool SameGeneration(uint64_t written, uint64_t segment);

void EncodeRecordHeader(const Record& record, std::span<std::byte, kRecordHeaderBytes> header);

// Reads any header page. Errors: kDataLoss, it is no header of this version, or one
// that contradicts itself (seal, padding).
absl::StatusOr<Record> DecodeRecordHeader(std::span<const std::byte, kRecordHeaderBytes> header);

// Proves that the page and the payload are the record `expected`, as index and
// manifest know it. Errors: kDataLoss, naming what differs.
absl::Status VerifyRecord(const Record& expected,
                          std::span<const std::byte, kRecordHeaderBytes> header,
                          std::span<const std::byte> payload);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_RECORD_H_

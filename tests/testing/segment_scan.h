// Finds the records in the segment files of a stopped agent's disk, so that a test can damage
// them. It reads every page and uses no manifest.
#ifndef KVTIER_TESTS_TESTING_SEGMENT_SCAN_H_
#define KVTIER_TESTS_TESTING_SEGMENT_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "tier_disk/log/record.h"

namespace kvtier::testing {

struct FoundRecord {
  std::string file;
  uint64_t offset = 0;  // Offset of the header; the payload follows at + kRecordHeaderBytes.
  RecordHeader header;
};

// Returns the record of every header page in every segment below `disk_dir`, live or left over.
std::vector<FoundRecord> ScanSegments(const std::string& disk_dir);
// Returns the record of `key` with the highest generation, which is the live one.
std::optional<FoundRecord> FindRecord(const std::string& disk_dir, const BlockKey& key);

// Returns the whole record, header and padded payload.
std::vector<std::byte> ReadRecord(const FoundRecord& place);
void OverwriteRecord(const FoundRecord& place, const std::vector<std::byte>& bytes);
// Flips one bit `offset` bytes into the record.
void FlipBit(const FoundRecord& place, uint64_t offset);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SEGMENT_SCAN_H_

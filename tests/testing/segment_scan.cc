#include "tests/testing/segment_scan.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <span>

#include "core/check.h"

namespace kvtier::testing {

std::vector<FoundRecord> ScanSegments(const std::string& disk_dir) {
  std::vector<FoundRecord> found;
  for (const auto& file : std::filesystem::directory_iterator(disk_dir + "/segments")) {
    std::ifstream stream(file.path(), std::ios::binary);
    std::array<std::byte, kRecordHeaderBytes> page;
    for (uint64_t offset = 0; stream.read(reinterpret_cast<char*>(page.data()), page.size());
         offset += page.size()) {
      const absl::StatusOr<RecordHeader> header = DecodeRecordHeader(page);
      if (header.ok()) {
        found.push_back({.file = file.path(), .offset = offset, .header = *header});
      }
    }
  }
  return found;
}

std::optional<FoundRecord> FindRecord(const std::string& disk_dir, const BlockKey& key) {
  std::optional<FoundRecord> newest;
  for (const FoundRecord& record : ScanSegments(disk_dir)) {
    if (record.header.key != key) continue;
    if (!newest || record.header.place.generation > newest->header.place.generation) {
      newest = record;
    }
  }
  return newest;
}

std::vector<std::byte> ReadRecord(const FoundRecord& place) {
  std::vector<std::byte> bytes(RecordBytes(place.header.length));
  std::ifstream stream(place.file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(place.offset));
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  KVT_CHECK(stream.good());
  return bytes;
}

void OverwriteRecord(const FoundRecord& place, const std::vector<std::byte>& bytes) {
  std::fstream stream(place.file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(place.offset));
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  stream.flush();
  KVT_CHECK(stream.good());
}

void FlipBit(const FoundRecord& place, uint64_t offset) {
  std::vector<std::byte> bytes = ReadRecord(place);
  bytes.at(offset) ^= std::byte{0x10};
  OverwriteRecord(place, bytes);
}

}  // namespace kvtier::testing

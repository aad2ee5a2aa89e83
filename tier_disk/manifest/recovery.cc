#include "tier_disk/manifest/recovery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tier_disk/io/page_buffer.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

bool Fits(const DiskEntry& entry, uint32_t segment_count, uint64_t segment_bytes) {
  const auto& [block, place] = entry;
  if (static_cast<uint32_t>(place.segment) >= segment_count) return false;
  if (block.length == 0 || block.length > kMaxBlockBytes) return false;
  if (place.offset % kBlockAlignment != 0 || place.offset > segment_bytes) return false;
  return RecordBytes(block.length) <= segment_bytes - place.offset;
}

// Draws a new generation for every segment in which nothing is live: a process that died may have
// written records there that no manifest entry names. `last` is the largest generation that any row
// names, including rows of lost generations.
void RenewEmptySegments(uint64_t last, RecoveredDisk* disk) {
  for (const SegmentLog::Found& segment : disk->segments) {
    last = std::max(last, segment.generation);
  }
  for (size_t i = 0; i < disk->segments.size(); ++i) {
    SegmentLog::Found& segment = disk->segments[i];
    if (segment.holds_records) continue;
    segment.generation = ++last;
    disk->repair.generations.push_back(
        {.segment = SegmentId{static_cast<uint32_t>(i)}, .generation = segment.generation});
  }
}

}  // namespace

absl::Status CheckGenerations(
    const std::vector<ManifestBatch::Generation>& generations, uint32_t segment_count,
    absl::FunctionRef<bool(SegmentId, std::span<std::byte, kBlockAlignment>)> first_page) {
  std::vector<uint64_t> known(segment_count);
  for (const ManifestBatch::Generation& stored : generations) {
    const auto index = static_cast<size_t>(stored.segment);
    if (index < segment_count) known[index] = stored.generation;
  }
  PageBuffer page(kBlockAlignment);
  const auto bytes = page.bytes().first<kBlockAlignment>();
  for (uint32_t i = 0; i < segment_count; ++i) {
    if (!first_page(SegmentId{i}, bytes)) continue;
    const absl::StatusOr<RecordHeader> header = DecodeRecordHeader(bytes);
    const bool counts = header.ok() && header->place.segment == SegmentId{i};
    if (!counts || header->place.generation <= known[i]) continue;
    return absl::DataLossError(
        absl::StrCat("its manifest has lost rows: segment ", i, " has a record of generation ",
                     header->place.generation, ", and the manifest says generation ", known[i]));
  }
  return absl::OkStatus();
}

RecoveredDisk Recover(ManifestImage image, uint32_t segment_count, uint64_t segment_bytes,
                      absl::FunctionRef<bool(KeyId)> readable) {
  RecoveredDisk disk;
  disk.dropped_corrupt = image.dropped_corrupt;
  disk.segments.resize(segment_count);
  for (const ManifestBatch::Generation& stored : image.generations) {
    const auto index = static_cast<size_t>(stored.segment);
    if (index < segment_count) disk.segments[index].generation = stored.generation;
  }

  std::sort(image.entries.begin(), image.entries.end(), [](const DiskEntry& a, const DiskEntry& b) {
    return std::tie(a.place.segment, a.place.offset, a.block.key) <
           std::tie(b.place.segment, b.place.offset, b.block.key);
  });
  SegmentId segment{};
  uint64_t end = 0;  // End of the last live record in `segment`.
  uint64_t last_generation = 0;
  for (const DiskEntry& entry : image.entries) {
    const RecordPlace& place = entry.place;
    last_generation = std::max(last_generation, place.generation);
    const bool overlaps = place.segment == segment && place.offset < end;
    uint64_t* dropped = nullptr;
    if (!Fits(entry, segment_count, segment_bytes)) {
      dropped = &disk.dropped_misfit;
    } else if (!SameGeneration(place.generation,
                               disk.segments[static_cast<size_t>(place.segment)].generation)) {
      dropped = &disk.dropped_stale;
    } else if (!readable(entry.block.key_id)) {
      dropped = &disk.dropped_keyless;
    } else if (overlaps) {
      dropped = &disk.dropped_misfit;
    }
    if (dropped != nullptr) {
      ++*dropped;
      disk.repair.erases.push_back(entry.block.key);
      continue;
    }
    segment = place.segment;
    end = place.offset + RecordBytes(entry.block.length);
    disk.segments[static_cast<size_t>(segment)].holds_records = true;
    disk.live.push_back(entry);
  }
  RenewEmptySegments(last_generation, &disk);
  return disk;
}

}  // namespace kvtier

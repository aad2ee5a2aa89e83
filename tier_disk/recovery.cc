#include "tier_disk/recovery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/space.h"
#include "tier_disk/record.h"

namespace kvtier {
namespace {

bool Fits(const ManifestEntry& entry, uint32_t segment_count, uint64_t segment_bytes) {
  if (static_cast<uint32_t>(entry.segment) >= segment_count) return false;
  if (entry.length == 0 || entry.length > kMaxBlockBytes) return false;
  if (entry.offset % kBlockAlignment != 0 || entry.offset > segment_bytes) return false;
  return RecordBytes(entry.length) <= segment_bytes - entry.offset;
}

bool SealHolds(const ManifestEntry& entry) {
  const BlockIdentity identity{.key = entry.key,
                               .space = entry.space,
                               .length = entry.length,
                               .generation = entry.generation};
  return SealRecord(identity, entry.sum).seal == entry.seal;
}

// Draws a new generation for every segment in which nothing is live: a process that
// died may have written records there that no manifest entry tells of.
void RenewEmptySegments(RecoveredDisk* disk) {
  uint64_t last = 0;
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

RecoveredDisk Recover(ManifestImage image, uint32_t segment_count, uint64_t segment_bytes) {
  RecoveredDisk disk;
  disk.dropped_corrupt = image.dropped_corrupt;
  disk.segments.resize(segment_count);
  for (const ManifestBatch::Generation& stored : image.generations) {
    const auto index = static_cast<size_t>(stored.segment);
    if (index < segment_count) disk.segments[index].generation = stored.generation;
  }

  std::sort(image.entries.begin(), image.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) {
              return std::tie(a.segment, a.offset, a.key) < std::tie(b.segment, b.offset, b.key);
            });
  SegmentId segment{};
  uint64_t end = 0;  // Of the last live record in `segment`.
  for (const ManifestEntry& entry : image.entries) {
    const bool overlaps = entry.segment == segment && entry.offset < end;
    uint64_t* dropped = nullptr;
    if (!Fits(entry, segment_count, segment_bytes)) {
      dropped = &disk.dropped_misfit;
    } else if (!SameGeneration(entry.generation,
                               disk.segments[static_cast<size_t>(entry.segment)].generation)) {
      dropped = &disk.dropped_stale;
    } else if (!SealHolds(entry)) {
      dropped = &disk.dropped_corrupt;
    }
    if (dropped == nullptr && overlaps) dropped = &disk.dropped_misfit;
    if (dropped != nullptr) {
      ++*dropped;
      disk.repair.erases.push_back(entry.key);
      continue;
    }
    segment = entry.segment;
    end = entry.offset + RecordBytes(entry.length);
    disk.segments[static_cast<size_t>(segment)].holds_records = true;
    disk.live.push_back(entry);
  }
  RenewEmptySegments(&disk);
  return disk;
}

}  // namespace kvtier

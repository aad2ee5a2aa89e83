#include "bench/disk_recovery.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/byte_threads.h"
#include "core/call_on_executor.h"
#include "core/status_macros.h"
#include "core/thread_executor.h"
#include "tests/testing/numbered_key.h"
#include "tier_disk/directory/open_disk.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/log/record.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kSegmentBytes = uint64_t{128} << 20;
constexpr uint64_t kPerSegment = kSegmentBytes / RecordBytes(kBlockBytes);
constexpr uint64_t kChain = 100;
constexpr uint64_t kBatch = 64;  // Same as the tier's puts in flight.
constexpr uint64_t kGeneration = 5;

DiskEntry EntryOf(const std::vector<BlockKey>& keys, uint64_t i) {
  DiskEntry entry{.block = {.key = keys[i], .length = kBlockBytes},
                  .place = {.segment = SegmentId{static_cast<uint32_t>(i / kPerSegment)},
                            .generation = kGeneration + i / kPerSegment,
                            .offset = i % kPerSegment * RecordBytes(kBlockBytes)}};
  if (i % kChain != 0) entry.block.parent = keys[i - 1];
  return entry;
}

uint64_t BytesBelow(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(path, error)) {
    bytes += file.file_size(error);
  }
  return bytes;
}

// Fills the manifest and returns the seconds that its commits took for each block.
absl::StatusOr<double> Fill(Executor* executor, const DiskLayout& layout, uint64_t blocks) {
  KVT_ASSIGN_OR_RETURN(const OpenedDisk disk, OpenDisk(executor, layout, DiskIoKind::kAuto));
  ManifestBatch generations;
  for (uint32_t i = 0; i < layout.segment_count; ++i) {
    generations.generations.push_back({SegmentId{i}, kGeneration + i});
  }
  KVT_RETURN_IF_ERROR(AwaitOn(executor, disk.manifest->Commit(std::move(generations))));
  std::vector<BlockKey> keys(blocks);  // Named before the time is measured.
  for (uint64_t i = 0; i < blocks; ++i) keys[i] = testing::NumberedKey(i);
  const absl::Time started = absl::Now();
  for (uint64_t i = 0; i < blocks; i += kBatch) {
    ManifestBatch batch;
    const uint64_t end = std::min(i + kBatch, blocks);
    for (uint64_t j = i; j < end; ++j) batch.puts.push_back(EntryOf(keys, j));
    KVT_RETURN_IF_ERROR(AwaitOn(executor, disk.manifest->Commit(std::move(batch))));
  }
  return absl::ToDoubleSeconds(absl::Now() - started) / static_cast<double>(blocks);
}

}  // namespace

absl::StatusOr<DiskRecoveryFigures> MeasureDiskRecovery(const std::string& directory,
                                                        uint64_t blocks) {
  const auto count = static_cast<double>(blocks);
  const DiskLayout layout{.directory = directory,
                          .segment_bytes = kSegmentBytes,
                          .segment_count = static_cast<uint32_t>(blocks / kPerSegment + 2)};
  ThreadExecutor executor("bench-executor");
  BytePool pool(&executor, "bench-bytes", 1);
  DiskRecoveryFigures figures;
  KVT_ASSIGN_OR_RETURN(figures.commit_seconds_per_block, Fill(&executor, layout, blocks));
  figures.manifest_bytes_per_block =
      static_cast<double>(BytesBelow(layout.manifest_path())) / count;
  const absl::Time started = absl::Now();
  KVT_ASSIGN_OR_RETURN(const OpenedDisk disk, OpenDisk(&executor, layout, DiskIoKind::kAuto));
  DiskTier tier(&executor, &pool, disk.disk.get(), disk.manifest.get(),
                [](DiskTier::Change, const BlockKey&, TenantTag) {});
  KVT_ASSIGN_OR_RETURN(const DiskTier::Recovery recovery, AwaitOn(&executor, tier.Open()));
  figures.warm_seconds = absl::ToDoubleSeconds(absl::Now() - started);
  figures.index_bytes_per_block = static_cast<double>(tier.index_bytes()) / count;
  if (recovery.recovered_blocks == blocks) return figures;
  return absl::InternalError("not every block came back");
}

}  // namespace kvtier::bench

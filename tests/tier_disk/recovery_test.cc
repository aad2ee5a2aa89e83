#include "tier_disk/manifest/recovery.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/numbered_key.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

constexpr uint64_t kSegmentBytes = uint64_t{1} << 20;

DiskEntry Entry(uint64_t number, uint32_t segment, uint64_t generation, uint64_t offset) {
  return {.block = {.key = testing::NumberedKey(number), .length = 4096},
          .place = {.segment = SegmentId{segment}, .generation = generation, .offset = offset}};
}

ManifestImage Image(std::vector<DiskEntry> entries) {
  return {.entries = std::move(entries),
          .generations = {{SegmentId{0}, 5}, {SegmentId{1}, 7}, {SegmentId{2}, 6}}};
}

TEST(RecoveryTest, KeepsWhatIsCurrent) {
  const RecoveredDisk disk =
      Recover(Image({Entry(2, 0, 5, 8192), Entry(1, 0, 5, 0)}), 3, kSegmentBytes);
  ASSERT_EQ(disk.live.size(), 2);
  EXPECT_EQ(disk.live[0].place.offset, 0);  // Sorted by place.
  EXPECT_TRUE(disk.repair.erases.empty());
  EXPECT_TRUE(disk.segments[0].holds_records);
  EXPECT_EQ(disk.segments[0].generation, 5);
}

TEST(RecoveryTest, DropsAnOlderGeneration) {
  const RecoveredDisk disk = Recover(Image({Entry(1, 1, 6, 0)}), 3, kSegmentBytes);
  EXPECT_TRUE(disk.live.empty());
  EXPECT_EQ(disk.dropped_stale, 1);
  EXPECT_EQ(disk.repair.erases, std::vector<BlockKey>{testing::NumberedKey(1)});
}

TEST(RecoveryTest, DropsWhatTheDiskHasNoRoomFor) {
  DiskEntry too_long = Entry(4, 0, 5, 0);
  too_long.block.length = kSegmentBytes;
  DiskEntry overflowing = Entry(5, 0, 5, 0);
  overflowing.place.offset = ~uint64_t{4095};
  const RecoveredDisk disk =
      Recover(Image({Entry(1, 3, 5, 0), Entry(2, 0, 5, 100), Entry(3, 0, 5, kSegmentBytes - 4096),
                     too_long, overflowing}),
              3, kSegmentBytes);
  EXPECT_TRUE(disk.live.empty());
  EXPECT_EQ(disk.dropped_misfit, 5);
}

TEST(RecoveryTest, DropsTheSecondOfTwoThatOverlap) {
  const RecoveredDisk disk =
      Recover(Image({Entry(1, 0, 5, 0), Entry(2, 0, 5, 4096)}), 3, kSegmentBytes);
  ASSERT_EQ(disk.live.size(), 1);
  EXPECT_EQ(disk.live[0].block.key, testing::NumberedKey(1));
  EXPECT_EQ(disk.dropped_misfit, 1);
}

// The row of a generation was damaged, but the blocks' rows still name the generation.
TEST(RecoveryTest, ALostGenerationIsNotDrawnAgain) {
  ManifestImage image = Image({Entry(1, 1, 9, 0)});
  image.generations = {{SegmentId{0}, 5}, {SegmentId{2}, 6}};
  const RecoveredDisk disk = Recover(std::move(image), 3, kSegmentBytes);
  EXPECT_EQ(disk.dropped_stale, 1);
  for (const SegmentLog::Found& segment : disk.segments) EXPECT_GT(segment.generation, 9);
}

// A process that died may have written records that no entry names, so the generation under which
// the segment is written next must be new.
TEST(RecoveryTest, EmptySegmentsGetGenerationsAboveAllOthers) {
  const RecoveredDisk disk = Recover(Image({Entry(1, 0, 5, 0)}), 4, kSegmentBytes);
  ASSERT_EQ(disk.repair.generations.size(), 3);
  for (const ManifestBatch::Generation& renewed : disk.repair.generations) {
    EXPECT_GT(renewed.generation, 7);
    EXPECT_EQ(disk.segments[static_cast<size_t>(renewed.segment)].generation, renewed.generation);
  }
}

}  // namespace
}  // namespace kvtier

#include "tier_disk/log/segment_log.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

using Use = SegmentLog::Use;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSegmentBytes = 8 * kPage;

std::vector<SegmentLog::Found> Fresh(size_t count) {
  std::vector<SegmentLog::Found> found(count);
  for (size_t i = 0; i < count; ++i) found[i].generation = i + 1;
  return found;
}

// Fills one segment with a single finished record.
RecordPlace FillSegment(SegmentLog* log) {
  const auto place = log->Reserve(kSegmentBytes, Use::kPut);
  EXPECT_TRUE(place.has_value());
  log->EndWrite(*place);
  return *place;
}

TEST(SegmentLogTest, RecordsFollowEachOtherAndDoNotOverlap) {
  SegmentLog log(Fresh(3), kSegmentBytes);
  const auto first = log.Reserve(2 * kPage, Use::kPut);
  const auto second = log.Reserve(3 * kPage, Use::kPut);
  EXPECT_EQ(first->segment, second->segment);
  EXPECT_EQ(second->offset, first->offset + 2 * kPage);
  log.Audit();
}

TEST(SegmentLogTest, ARecordThatDoesNotFitOpensTheNextSegment) {
  SegmentLog log(Fresh(3), kSegmentBytes);
  const auto first = log.Reserve(5 * kPage, Use::kPut);
  const auto second = log.Reserve(4 * kPage, Use::kPut);
  EXPECT_NE(first->segment, second->segment);
  EXPECT_EQ(second->offset, 0);
  log.Audit();
}

TEST(SegmentLogTest, PutsLeaveTheReserveToReclaim) {
  SegmentLog log(Fresh(2), kSegmentBytes);
  FillSegment(&log);
  EXPECT_FALSE(log.Reserve(kPage, Use::kPut).has_value());
  EXPECT_TRUE(log.Reserve(kPage, Use::kReclaim).has_value());
  log.Audit();
}

// Half of a segment is set aside: puts use the other half of the segment that reclaim opened.
TEST(SegmentLogTest, PutsLeaveWhatIsSetAsideOfTheSegmentThatWasTheReserve) {
  SegmentLog log(Fresh(2), kSegmentBytes);
  FillSegment(&log);
  EXPECT_EQ(log.reclaim_room(), kSegmentBytes);
  log.ReserveForReclaim(4 * kPage);
  EXPECT_TRUE(log.Reserve(kPage, Use::kReclaim).has_value());
  log.ReserveForReclaim(3 * kPage);
  EXPECT_TRUE(log.Reserve(4 * kPage, Use::kPut).has_value());
  EXPECT_FALSE(log.Reserve(kPage, Use::kPut).has_value());
  EXPECT_FALSE(log.Reserve(6 * kPage, Use::kPut).has_value());  // Seals nothing either.
  EXPECT_EQ(log.reclaim_room(), 3 * kPage);
  EXPECT_TRUE(log.Reserve(3 * kPage, Use::kReclaim).has_value());
  log.Audit();
}

TEST(SegmentLogTest, SegmentWithAWriteInFlightIsNotReclaimable) {
  SegmentLog log(Fresh(2), kSegmentBytes);
  const auto place = log.Reserve(kSegmentBytes, Use::kPut);
  EXPECT_FALSE(log.Reserve(kPage, Use::kPut).has_value());  // Seals the segment.
  EXPECT_TRUE(log.Reclaimable().empty());
  log.EndWrite(*place);
  EXPECT_EQ(log.Reclaimable(), std::vector<SegmentId>{place->segment});
}

TEST(SegmentLogTest, AFreedSegmentComesBackUnderItsNewGeneration) {
  SegmentLog log(Fresh(2), kSegmentBytes);
  const RecordPlace old = FillSegment(&log);
  EXPECT_FALSE(log.Reserve(kPage, Use::kPut).has_value());
  log.BeginReclaim(old.segment);
  const uint64_t generation = log.NextGeneration();
  EXPECT_GT(generation, 2);  // Exceeds every generation of the disk.
  log.Free(old.segment, generation);
  EXPECT_EQ(log.generation(old.segment), generation);
  EXPECT_TRUE(log.Reserve(kPage, Use::kPut).has_value());
  log.Audit();
}

TEST(SegmentLogTest, RecoveredSegmentsAreNeverAppendedTo) {
  std::vector<SegmentLog::Found> found = Fresh(3);
  found[1].holds_records = true;
  SegmentLog log(found, kSegmentBytes);
  for (int i = 0; i < 8; ++i) {
    const auto place = log.Reserve(kPage, Use::kPut);
    EXPECT_NE(place->segment, SegmentId{1});
    log.EndWrite(*place);
  }
}

TEST(SegmentLogTest, RecoveredSegmentsAreReclaimedOldestFirst) {
  std::vector<SegmentLog::Found> found = Fresh(3);
  found[0] = {.generation = 30, .holds_records = true};
  found[1] = {.generation = 10, .holds_records = true};
  found[2] = {.generation = 20, .holds_records = true};
  const SegmentLog log(found, kSegmentBytes);
  const std::vector<SegmentId> expected = {SegmentId{1}, SegmentId{2}, SegmentId{0}};
  EXPECT_EQ(log.Reclaimable(), expected);
}

}  // namespace
}  // namespace kvtier

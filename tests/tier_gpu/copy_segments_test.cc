#include "kernels/copy_segments.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/testing/copy_cases.h"

namespace kvtier::kernels {
namespace {

using testing::CopyCase;
using testing::CopyCases;

constexpr std::byte kPoison{0xa5};

std::vector<std::byte> Noise(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  return noise;
}

// Copies byte by byte, by the description in the header alone.
void CopyPlainly(StridedSegment segment, std::vector<CopyAxis> outer) {
  if (!outer.empty()) {
    const CopyAxis axis = outer.back();
    outer.pop_back();
    for (uint32_t i = 0; i < axis.count; ++i) {
      CopyPlainly(segment, outer);
      segment.source += axis.source_stride;
      segment.destination += axis.destination_stride;
    }
    return;
  }
  for (uint32_t run = 0; run < segment.runs; ++run) {
    for (uint64_t i = 0; i < segment.run_bytes; ++i) {
      segment.destination[run * segment.destination_stride + i] =
          segment.source[run * segment.source_stride + i];
    }
  }
}

TEST(CopySegmentsTest, TheReferenceWritesTheRunsAndNothingElse) {
  for (const CopyCase& shape : CopyCases()) {
    SCOPED_TRACE(::testing::Message() << shape);
    const std::vector<std::byte> source = Noise(shape.source_bytes());
    std::vector<std::byte> expected(shape.destination_bytes(), kPoison);
    std::vector<std::byte> copied(shape.destination_bytes(), kPoison);
    for (const StridedSegment& segment : shape.Segments(source.data(), expected.data())) {
      CopyPlainly(segment, {shape.outer.axes, shape.outer.axes + 3});
    }
    const auto segments = shape.Segments(source.data(), copied.data());
    EXPECT_EQ(CopySegmentsOnHost(
                  {.segments = segments.data(), .count = shape.segments, .outer = shape.outer}),
              0);
    EXPECT_EQ(copied, expected);
  }
}

TEST(CopySegmentsTest, ScatterUndoesGather) {
  constexpr uint64_t kRun = 304;
  constexpr uint64_t kStride = 1000;
  constexpr uint32_t kRuns = 9;
  const std::vector<std::byte> paged = Noise(kRuns * kStride);
  std::vector<std::byte> packed(kRuns * kRun);
  std::vector<std::byte> back = paged;
  const StridedSegment gather = {.source = paged.data(),
                                 .destination = packed.data(),
                                 .run_bytes = kRun,
                                 .source_stride = kStride,
                                 .destination_stride = kRun,
                                 .runs = kRuns};
  ASSERT_EQ(CopySegmentsOnHost({.segments = &gather, .count = 1}), 0);
  for (uint32_t run = 0; run < kRuns; ++run) std::memset(&back[run * kStride], 0, kRun);
  const StridedSegment scatter = {.source = packed.data(),
                                  .destination = back.data(),
                                  .run_bytes = kRun,
                                  .source_stride = kRun,
                                  .destination_stride = kStride,
                                  .runs = kRuns};
  ASSERT_EQ(CopySegmentsOnHost({.segments = &scatter, .count = 1}), 0);
  EXPECT_EQ(back, paged);
}

TEST(CopySegmentsTest, TheWidePathTakesOnlyWhatIsAlignedThroughout) {
  const StridedSegment aligned = {
      .run_bytes = 4096, .source_stride = 8192, .destination_stride = 4096, .runs = 2};
  EXPECT_TRUE(Takes16Bytes(0x1000, 0x2000, aligned));
  EXPECT_FALSE(Takes16Bytes(0x1008, 0x2000, aligned));
  EXPECT_FALSE(Takes16Bytes(0x1000, 0x2001, aligned));
  StridedSegment odd = aligned;
  odd.run_bytes = 4088;
  EXPECT_FALSE(Takes16Bytes(0x1000, 0x2000, odd));
  odd = aligned;
  odd.source_stride += 8;
  EXPECT_FALSE(Takes16Bytes(0x1000, 0x2000, odd));
  odd = aligned;
  odd.destination_stride += 8;
  EXPECT_FALSE(Takes16Bytes(0x1000, 0x2000, odd));
  odd.runs = 1;
  EXPECT_TRUE(Takes16Bytes(0x1000, 0x2000, odd)) << "the stride of a single run is not used";
}

TEST(CopySegmentsTest, ALaunchThatCannotRunIsRefused) {
  const StridedSegment segment;
  EXPECT_EQ(CopySegmentsOnHost({.segments = nullptr, .count = 1}), kInvalidLaunch);
  EXPECT_EQ(CopySegmentsOnHost({.segments = &segment, .count = 1, .thread_blocks = 0}),
            kInvalidLaunch);
}

}  // namespace
}  // namespace kvtier::kernels

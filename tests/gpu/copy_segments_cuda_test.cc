// The device form of kernels::CopySegments against its reference.
#include <gtest/gtest.h>

#include "kernels/copy_segments.h"
#ifdef KVTIER_HAVE_CUDA
#include <cstring>
#include <vector>

#include "tests/testing/copy_cases.h"
#include "tests/testing/device_memory.h"
#include "tests/testing/layout_cases.h"
#endif

namespace kvtier::kernels {
namespace {

#ifndef KVTIER_HAVE_CUDA

TEST(CopySegmentsOnDeviceTest, MatchesTheReference) {
  GTEST_SKIP() << "NOT TESTED: this build has no CUDA";
}

#else

using testing::CopyCase;
using testing::CopyCases;
using testing::Noise;
using testing::OnDevice;
using testing::ThreadBlockCounts;

class CopySegmentsOnDeviceTest : public testing::DeviceFormTest {};

// What a launch left: the whole destination, and sums where it was asked for them.
struct Copied {
  std::vector<std::byte> bytes;
  std::vector<PayloadSum> sums;

  friend bool operator==(const Copied&, const Copied&) = default;
};

Copied CopyOnHost(const CopyCase& shape, const std::vector<std::byte>& source, uint32_t room) {
  Copied copied = {std::vector<std::byte>(shape.destination_bytes(), std::byte{0xa5}),
                   std::vector<PayloadSum>(shape.segments)};
  LaneSums unused;
  const auto segments = shape.Segments(source.data(), copied.bytes.data());
  CopySegmentsLaunch launch = {
      .segments = segments.data(), .count = shape.segments, .outer = shape.outer};
  if (room > 0) launch.sum = {.sums = copied.sums.data(), .pieces = &unused, .room = room};
  EXPECT_EQ(CopySegmentsOnHost(launch), 0);
  return copied;
}

Copied CopyOnDevice(const CopyCase& shape, const std::vector<std::byte>& source, uint32_t room,
                    uint32_t thread_blocks) {
  OnDevice<std::byte> from(source);
  OnDevice<std::byte> to(std::vector<std::byte>(shape.destination_bytes(), std::byte{0xa5}));
  OnDevice<StridedSegment> segments(shape.Segments(from.data(), to.data()));
  OnDevice<PayloadSum> sums(std::vector<PayloadSum>(shape.segments));
  OnDevice<LaneSums> pieces(size_t{shape.segments} * room);
  CopySegmentsLaunch launch = {.segments = segments.data(),
                               .count = shape.segments,
                               .outer = shape.outer,
                               .thread_blocks = thread_blocks};
  if (room > 0) launch.sum = {.sums = sums.data(), .pieces = pieces.data(), .room = room};
  EXPECT_EQ(CopySegmentsOnDevice(launch), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return {to.Read(), sums.Read()};
}

void ExpectTheReferences(const CopyCase& shape, uint32_t thread_blocks) {
  SCOPED_TRACE(::testing::Message() << shape << ", " << thread_blocks << " thread blocks");
  const std::vector<std::byte> source = Noise(shape.source_bytes());
  EXPECT_TRUE(CopyOnDevice(shape, source, 0, thread_blocks) == CopyOnHost(shape, source, 0));
  // Of a room that is too small for some, no sum is taken and no piece written.
  for (const uint64_t room : {PiecesOf(shape.segment_bytes()), uint64_t{3}}) {
    EXPECT_TRUE(CopyOnDevice(shape, source, room, thread_blocks) == CopyOnHost(shape, source, room))
        << "sums, room for " << room << " pieces";
  }
}

TEST_F(CopySegmentsOnDeviceTest, MatchesTheReference) {
  for (const CopyCase& shape : CopyCases()) {
    for (const uint32_t thread_blocks : ThreadBlockCounts()) {
      ExpectTheReferences(shape, thread_blocks);
    }
  }
}

TEST_F(CopySegmentsOnDeviceTest, SumsOfWholeBlocksAreTheReferences) {
  const uint64_t block = testing::kSanitized ? 300000 : 2 << 20;
  CopyCase gather = {.segments = 3,
                     .runs = 4,
                     .run_bytes = block / 4,
                     .source_stride = block / 4 + 4096,
                     .destination_stride = block / 4};
  ExpectTheReferences(gather, 8);
  gather.run_bytes -= 7;
  ExpectTheReferences(gather, 2);
}

// Two blocks at once, from one layout to another. The blocks are of `whole`, of which the
// move takes the first tokens: what is behind them stays as it was.
void ExpectMoved(const testing::Move& move, const KvShape& whole) {
  const uint64_t from_bytes = (testing::ExtentOf(move.from, whole, move.row_bytes) + 15) & ~15;
  const uint64_t to_bytes = (testing::ExtentOf(move.to, whole, move.row_bytes) + 15) & ~15;
  const std::vector<std::byte> source = Noise(2 * from_bytes);
  std::vector<std::byte> expected(2 * to_bytes, std::byte{0xa5});
  OnDevice<std::byte> from(source);
  OnDevice<std::byte> to(expected);
  const BlockMove made = MoveBetween(move.shape, move.row_bytes, move.from, move.to);
  std::vector<StridedSegment> list;
  for (uint64_t i = 0; i < 2; ++i) {
    move.Plainly(&source[i * from_bytes], &expected[i * to_bytes]);
    list.push_back(made.Between(from.data() + i * from_bytes, to.data() + i * to_bytes));
  }
  OnDevice<StridedSegment> segments(list);
  ASSERT_EQ(CopySegmentsOnDevice({.segments = segments.data(), .count = 2, .outer = made.outer}),
            0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(to.Read() == expected);
}

TEST_F(CopySegmentsOnDeviceTest, EveryLayoutBecomesEveryOther) {
  constexpr KvShape kShapes[] = {
      {.layers = 3, .tokens = 16, .kv_heads = 4, .head_dim = 64},
      {.layers = 2, .tokens = 5, .kv_heads = 3, .head_dim = 48},
      {.layers = 3, .axes = 1, .tokens = 7, .kv_heads = 1, .head_dim = 576},
  };
  for (const KvShape& shape : kShapes) {
    const uint64_t row = uint64_t{shape.head_dim} * 2;
    for (const testing::NamedLayout& from : testing::BlockLayouts(shape, row)) {
      for (const testing::NamedLayout& to : testing::BlockLayouts(shape, row)) {
        SCOPED_TRACE(from.name + " to " + to.name);
        ExpectMoved({shape, row, from.layout, to.layout}, shape);
      }
    }
  }
}

// A copy on write takes the tokens that the block has, between slots of one layout.
TEST_F(CopySegmentsOnDeviceTest, APartOfABlockIsCopiedAndTheRestLeft) {
  constexpr KvShape kShapes[] = {
      {.layers = 3, .tokens = 16, .kv_heads = 4, .head_dim = 64},
      {.layers = 2, .tokens = 16, .kv_heads = 3, .head_dim = 50},  // Rows of 100 bytes: not wide.
      {.layers = 3, .axes = 1, .tokens = 16, .kv_heads = 1, .head_dim = 576},
  };
  for (const KvShape& whole : kShapes) {
    const uint64_t row = uint64_t{whole.head_dim} * 2;
    for (const testing::NamedLayout& layout : testing::BlockLayouts(whole, row)) {
      for (const uint32_t tokens : {1U, 7U, 15U}) {
        SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << layout.name);
        KvShape part = whole;
        part.tokens = tokens;
        ExpectMoved({part, row, layout.layout, layout.layout}, whole);
      }
    }
  }
}

TEST_F(CopySegmentsOnDeviceTest, ALaunchThatCannotRunIsRefused) {
  const StridedSegment segment;
  PayloadSum sum;
  EXPECT_EQ(CopySegmentsOnDevice({.segments = nullptr, .count = 1}), kInvalidLaunch);
  EXPECT_EQ(CopySegmentsOnDevice({.segments = &segment, .count = 1, .thread_blocks = 0}),
            kInvalidLaunch);
  EXPECT_EQ(CopySegmentsOnDevice({.segments = &segment, .count = 1, .sum = {.sums = &sum}}),
            kInvalidLaunch);
  EXPECT_EQ(CopySegmentsOnDevice({}), 0) << "no segments need no list";
}

#endif

}  // namespace
}  // namespace kvtier::kernels

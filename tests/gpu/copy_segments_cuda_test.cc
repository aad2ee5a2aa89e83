// Compares the device form of kernels::CopySegments with its reference.
#include <gtest/gtest.h>

#include "kernels/copy_segments.h"
#ifdef KVTIER_HAVE_CUDA
#include <algorithm>
#include <random>
#include <vector>

#include "tests/testing/copy_cases.h"
#include "tests/testing/device_memory.h"
#include "tests/testing/layout_cases.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
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

// Result of a launch: the whole destination, and the sums that were requested.
struct Copied {
  std::vector<std::byte> bytes;
  std::vector<PayloadSum> sums;

  friend bool operator==(const Copied&, const Copied&) = default;
};

Copied CopyOnHost(const CopyCase& shape, const std::vector<std::byte>& source, uint32_t room) {
  Copied copied = {std::vector<std::byte>(shape.destination_bytes(), std::byte{0xa5}),
                   std::vector<PayloadSum>(shape.segments)};
  LaneSums unused;
  uint32_t none = 0;
  const auto segments = shape.Segments(source.data(), copied.bytes.data());
  CopySegmentsLaunch launch = {
      .segments = segments.data(), .count = shape.segments, .outer = shape.outer};
  if (room > 0)
    launch.sum = {.sums = copied.sums.data(), .pieces = &unused, .arrived = &none, .room = room};
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
  OnDevice<uint32_t> arrived(std::vector<uint32_t>{0});
  CopySegmentsLaunch launch = {.segments = segments.data(),
                               .count = shape.segments,
                               .outer = shape.outer,
                               .thread_blocks = thread_blocks};
  if (room > 0) {
    launch.sum = {
        .sums = sums.data(), .pieces = pieces.data(), .arrived = arrived.data(), .room = room};
  }
  EXPECT_EQ(CopySegmentsOnDevice(launch), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(arrived.Read(), std::vector<uint32_t>{0});
  return {to.Read(), sums.Read()};
}

// MixedSegments are different segments of one launch: empty, a byte, a run of words, many units;
// wide and narrow; many more than a thread block holds at once, or few.
class MixedSegments {
 public:
  MixedSegments(uint32_t count, uint64_t most_bytes, std::mt19937_64& random) {
    for (uint32_t i = 0; i < count; ++i) {
      const bool wide = random() % 2 == 0;
      const uint64_t step = wide ? 16 : 1;
      // Most runs are short, because the exponent is drawn.
      const uint64_t bytes = (random() % most_bytes) >> random() % 12;
      Piece piece = {.runs = 1 + static_cast<uint32_t>(random() % 5)};
      piece.run_bytes = bytes / piece.runs / step * step;
      piece.source_stride = piece.run_bytes + step * (random() % 9);
      piece.destination_stride = piece.run_bytes + step * (random() % 9);
      source_bytes_ = Up(source_bytes_, step) + step * (random() % 4);
      destination_bytes_ = Up(destination_bytes_, step) + step * (random() % 4);
      piece.from = source_bytes_;
      piece.to = destination_bytes_;
      source_bytes_ += piece.runs * piece.source_stride;
      destination_bytes_ += piece.runs * piece.destination_stride;
      longest_ = std::max(longest_, piece.runs * piece.run_bytes);
      pieces_.push_back(piece);
    }
  }

  uint32_t count() const { return static_cast<uint32_t>(pieces_.size()); }
  uint64_t source_bytes() const { return source_bytes_ + 16; }
  uint64_t destination_bytes() const { return destination_bytes_ + 16; }
  uint64_t longest() const { return longest_; }

  std::vector<StridedSegment> Segments(const std::byte* source, std::byte* destination) const {
    std::vector<StridedSegment> list;
    for (const Piece& piece : pieces_) {
      list.push_back({.source = source + piece.from,
                      .destination = destination + piece.to,
                      .run_bytes = piece.run_bytes,
                      .source_stride = piece.source_stride,
                      .destination_stride = piece.destination_stride,
                      .runs = piece.runs});
    }
    return list;
  }

 private:
  struct Piece {
    uint32_t runs = 1;
    uint64_t run_bytes = 0;
    uint64_t source_stride = 0;
    uint64_t destination_stride = 0;
    uint64_t from = 0;
    uint64_t to = 0;
  };
  static uint64_t Up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

  std::vector<Piece> pieces_;
  uint64_t source_bytes_ = 0;
  uint64_t destination_bytes_ = 0;
  uint64_t longest_ = 0;
};

// Runs one launch of `shape`, by either form.
template <typename Bytes, typename Sums, typename Form>
void Launch(const MixedSegments& shape, const StridedSegment* segments, Bytes* pieces, Sums* sums,
            uint32_t* arrived, uint32_t thread_blocks, Form form) {
  CopySegmentsLaunch launch = {
      .segments = segments, .count = shape.count(), .thread_blocks = thread_blocks};
  launch.sum = {.sums = sums,
                .pieces = pieces,
                .arrived = arrived,
                .room = static_cast<uint32_t>(PiecesOf(shape.longest()))};
  if (sums == nullptr) launch.sum = {};
  EXPECT_EQ(form(launch), 0);
}

void ExpectTheReferences(const MixedSegments& shape, bool summed, uint32_t thread_blocks) {
  SCOPED_TRACE(::testing::Message() << shape.count() << " segments, " << shape.source_bytes()
                                    << " bytes, " << thread_blocks << " thread blocks");
  const std::vector<std::byte> source = Noise(shape.source_bytes());
  std::vector<std::byte> expected(shape.destination_bytes(), std::byte{0xa5});
  OnDevice<std::byte> from(source);
  OnDevice<std::byte> to(expected);
  std::vector<PayloadSum> expected_sums(shape.count());
  OnDevice<PayloadSum> sums(expected_sums);
  OnDevice<LaneSums> pieces(size_t{shape.count()} * PiecesOf(shape.longest()));
  const std::vector<StridedSegment> on_host = shape.Segments(source.data(), expected.data());
  OnDevice<uint32_t> arrived(std::vector<uint32_t>(1));
  LaneSums unused;
  uint32_t unused_too = 0;
  Launch(shape, on_host.data(), &unused, summed ? expected_sums.data() : nullptr, &unused_too, 1,
         CopySegmentsOnHost);
  OnDevice<StridedSegment> segments(shape.Segments(from.data(), to.data()));
  Launch(shape, segments.data(), pieces.data(), summed ? sums.data() : nullptr, arrived.data(),
         thread_blocks, CopySegmentsOnDevice);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(to.Read() == expected);
  // The launch must set `arrived` back to zero for the next launch.
  EXPECT_EQ(arrived.Read(), std::vector<uint32_t>(1));
  EXPECT_TRUE(!summed || sums.Read() == expected_sums);
}

void ExpectTheReferences(const CopyCase& shape, uint32_t thread_blocks) {
  SCOPED_TRACE(::testing::Message() << shape << ", " << thread_blocks << " thread blocks");
  const std::vector<std::byte> source = Noise(shape.source_bytes());
  EXPECT_TRUE(CopyOnDevice(shape, source, 0, thread_blocks) == CopyOnHost(shape, source, 0));
  // If the room is too small for some segments, these get no sum and no piece is written for them.
  for (const uint64_t room : {PiecesOf(shape.segment_bytes()), uint64_t{3}}) {
    EXPECT_TRUE(CopyOnDevice(shape, source, room, thread_blocks) == CopyOnHost(shape, source, room))
        << "sums, room for " << room << " pieces";
  }
}

TEST_F(CopySegmentsOnDeviceTest, MatchesTheReference) {
  for (const CopyCase& shape : CopyCases()) {
    const uint64_t bytes = shape.segments * shape.segment_bytes();
    if (testing::kSanitized && bytes > 1'000'000) continue;
    for (const uint32_t thread_blocks : ThreadBlockCounts()) {
      ExpectTheReferences(shape, thread_blocks);
    }
  }
}

TEST_F(CopySegmentsOnDeviceTest, AnySegmentsOfOneLaunchAreTheReferences) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < (testing::kSanitized ? 3 : 200); ++round) {
    const uint32_t count = 1 + static_cast<uint32_t>(random() % (random() % 2 == 0 ? 20 : 700));
    const MixedSegments shape(count, count < 100 ? 60000 : 4000, random);
    ExpectTheReferences(shape, round % 2 == 0, 1 + static_cast<uint32_t>(random() % 12));
  }
}

// A thread block has several tiles in a row, or a single one.
TEST_F(CopySegmentsOnDeviceTest, ThousandsOfTinySegmentsAreTheReferences) {
  std::mt19937_64 random(testing::TestSeed());
  for (const uint32_t thread_blocks : {1U, 3U, 8U}) {
    for (const bool summed : {false, true}) {
      const MixedSegments shape(testing::kSanitized ? 1200 : 5000, 300, random);
      ExpectTheReferences(shape, summed, thread_blocks);
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

// Moves two blocks at once from one layout to another. The blocks have the shape `whole`, of which
// the move takes the first tokens; bytes after them stay unchanged.
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

// A copy on write copies the tokens that the block has, between slots of one layout.
TEST_F(CopySegmentsOnDeviceTest, APartOfABlockIsCopiedAndTheRestLeft) {
  constexpr KvShape kShapes[] = {
      {.layers = 3, .tokens = 16, .kv_heads = 4, .head_dim = 64},
      // Rows of 100 bytes, which are not wide.
      {.layers = 2, .tokens = 16, .kv_heads = 3, .head_dim = 50},
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

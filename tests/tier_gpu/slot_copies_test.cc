#include "tier_gpu/plan/slot_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using Segments = std::vector<CopySegment>;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// The test uses addresses only: nothing is read or written.
std::byte* const kHost = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);  // NOLINT

SlotCopy Copy(uint64_t device_offset, uint64_t host_offset, uint64_t bytes) {
  return {.device_offset = device_offset, .host = {kHost + host_offset, bytes}};
}

TEST(SlotCopiesTest, NeighboursOnBothSidesAreOneSegment) {
  const std::vector<SlotCopy> blocks = {Copy(0, 0, kMiB), Copy(kMiB, kMiB, kMiB),
                                        Copy(3 * kMiB, 2 * kMiB, kMiB)};
  const auto batches = PlanSlotCopies(blocks, {.base = kHost}, 64 * kMiB);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_EQ(batches[0], (Segments{{0, kHost, 2 * kMiB}, {3 * kMiB, kHost + 2 * kMiB, kMiB}}));
}

TEST(SlotCopiesTest, CopiesAreCutAtBordersOfChunksAndHandles) {
  const std::vector<SlotCopy> blocks = {Copy(3 * kMiB, 1 * kMiB, 2 * kMiB),
                                        Copy(5 * kMiB, 3 * kMiB, kMiB)};
  const auto batches = PlanSlotCopies(blocks, {.base = kHost, .chunk_bytes = 3 * kMiB}, 4 * kMiB);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_EQ(batches[0], (Segments{{3 * kMiB, kHost + kMiB, kMiB},
                                  {4 * kMiB, kHost + 2 * kMiB, kMiB},
                                  {5 * kMiB, kHost + 3 * kMiB, kMiB}}));
}

TEST(SlotCopiesTest, EveryByteOnceWithinEveryLimit) {
  std::mt19937_64 random(testing::TestSeed());
  for (int draw = 0; draw < 500; ++draw) {
    const uint64_t slot = 4096 * (1 + random() % (draw % 5 == 0 ? 2000 : 20));
    const uint64_t handle = 2 * kMiB * (1 + random() % 8);
    const PinnedChunks chunks = {.base = kHost, .chunk_bytes = 4096 * (random() % 3000)};
    std::vector<uint64_t> slots(1 + random() % 1500);
    std::iota(slots.begin(), slots.end(), 0);
    if (draw % 2 == 0) std::ranges::shuffle(slots, random);
    std::vector<SlotCopy> blocks;
    for (uint64_t i = 0; i < slots.size(); ++i) {
      blocks.push_back(Copy(slots[i] * slot, i * slot, slot));
    }
    uint64_t next = 0;  // Offset in host memory: blocks are in its order.
    for (const Segments& batch : PlanSlotCopies(blocks, chunks, handle)) {
      uint64_t bytes = 0;
      for (const CopySegment& segment : batch) {
        ASSERT_EQ(segment.host, kHost + next);
        ASSERT_EQ(segment.device_offset, slots[next / slot] * slot + next % slot);
        ASSERT_LE(segment.device_offset % handle + segment.bytes, handle);
        if (chunks.chunk_bytes > 0) {
          ASSERT_LE(next % chunks.chunk_bytes + segment.bytes, chunks.chunk_bytes);
        }
        next += segment.bytes;
        bytes += segment.bytes;
      }
      ASSERT_LE(batch.size(), kMaxCopySegments);
      ASSERT_TRUE(bytes <= kMaxCopyBytes || batch.size() == 1);
    }
    ASSERT_EQ(next, slots.size() * slot);
  }
}

}  // namespace
}  // namespace kvtier

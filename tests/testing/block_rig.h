// Parts of tests of Device::SubmitBlocks(): pools of blocks in the layouts of engines, with each
// layout's formula, and the bytes that the kernels' host forms would store.
#ifndef KVTIER_TESTS_TESTING_BLOCK_RIG_H_
#define KVTIER_TESTS_TESTING_BLOCK_RIG_H_

#include <algorithm>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "tests/testing/device_rig.h"
#include "tests/testing/kv_values.h"

namespace kvtier::testing {

inline constexpr uint32_t kBlockSlots = 12;
inline constexpr KvShape kBlockShape = {
    .layers = 3, .axes = 2, .tokens = 16, .kv_heads = 4, .head_dim = 32};
inline constexpr uint64_t kBlockRaw = RawBytes(kBlockShape);  // 24 KiB.
// Range of the region in which the tests keep blocks. Bytes between the blocks must not change.
inline constexpr uint64_t kImageAt = 4096;
inline constexpr uint64_t kImageBytes = uint64_t{1} << 20;

// Slots of blocks on the device.
struct BlockPool {
  std::string name;
  BlockGeometry geometry;
  uint64_t slot_stride = 0;
};

inline BlockPool PoolOf(const std::string& name, const kernels::BlockLayout& layout) {
  BlockPool pool = {.name = name,
                    .geometry = {.shape = kBlockShape,
                                 .row_bytes = 64,
                                 .token_stride = layout.token,
                                 .head_stride = layout.head},
                    .slot_stride = kBlockRaw};
  for (uint64_t i = 0; i < Planes(kBlockShape); ++i) {
    pool.geometry.planes.push_back(i / 2 * layout.layer + i % 2 * layout.axis);
  }
  return pool;
}

inline std::vector<BlockPool> BlockPools() {
  std::vector<BlockPool> pools = {
      PoolOf("tokens first", kernels::TokenMajorLayout(kBlockShape, 64)),
      PoolOf("heads first", kernels::HeadMajorLayout(kBlockShape, 64)),
      PoolOf("K and V fused", kernels::FusedLayout(kBlockShape, 64))};
  // These pools have one tensor each for K and V of every layer, at equal or at unequal distances.
  const uint64_t plane_bytes = RawPlaneBytes(kBlockShape);
  for (const size_t first : {0, 1}) {
    BlockPool even = pools[first];
    even.name += ", tensors apart";
    even.slot_stride = plane_bytes;
    for (uint64_t i = 0; i < even.geometry.planes.size(); ++i) {
      even.geometry.planes[i] = i * (kBlockSlots * plane_bytes + 64);
    }
    BlockPool uneven = even;
    uneven.name += " and downwards, at odd places";
    for (uint64_t i = 0; i < uneven.geometry.planes.size(); ++i) {
      uneven.geometry.planes[i] = (5 - i) * (kBlockSlots * plane_bytes + 70) + i;
    }
    pools.push_back(even);
    pools.push_back(uneven);
  }
  // This pool has each head of all slots together: [plane][head][slot][token].
  BlockPool heads = pools[0];
  heads.name = "heads outside of slots";
  heads.slot_stride = plane_bytes / kBlockShape.kv_heads;
  heads.geometry.token_stride = 64;
  heads.geometry.head_stride = kBlockSlots * heads.slot_stride;
  for (uint64_t i = 0; i < heads.geometry.planes.size(); ++i) {
    heads.geometry.planes[i] = i * kBlockSlots * plane_bytes;
  }
  pools.push_back(heads);
  return pools;
}

// Returns the offset of row `row` of the raw block from the block's own offset.
inline uint64_t RowPlace(const BlockGeometry& geometry, uint64_t row) {
  const uint64_t head = row % geometry.shape.kv_heads;
  const uint64_t token = row / geometry.shape.kv_heads % geometry.shape.tokens;
  const uint64_t plane = row / Rows(geometry.shape);
  return geometry.planes[plane] + token * geometry.token_stride + head * geometry.head_stride;
}

class BlockBatchTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    image_ = host(5 << 20, kImageBytes);
    outcomes_ = OutcomesAt(0);
  }

  BlockOutcomes* OutcomesAt(uint64_t index) {
    const uint64_t at = kTestPinChunk + index * sizeof(BlockOutcomes);
    return new (host(at, sizeof(BlockOutcomes)).data()) BlockOutcomes();
  }

  // Returns the place of stored block `index`: places do not overlap and are not aligned.
  std::byte* StoredAt(uint64_t index) { return host(index * 40'000 + index % 3, 40'000).data(); }

  BlockBatch Batch(CopyDirection direction, const BlockPool& pool,
                   std::span<const BlockTransfer> blocks) {
    return {.direction = direction,
            .region = region_.get(),
            .geometry = &pool.geometry,
            .block_bytes = kBlockRaw,
            .blocks = blocks,
            .outcomes = outcomes_};
  }
  // Returns a batch whose block i is in slot `slots[i]` and is stored as block i.
  std::vector<BlockTransfer> InSlots(const BlockPool& pool, std::span<const uint32_t> slots) {
    std::vector<BlockTransfer> blocks;
    for (size_t i = 0; i < slots.size(); ++i) {
      blocks.push_back({kImageAt + slots[i] * pool.slot_stride, StoredAt(i)});
    }
    return blocks;
  }
  // Copies the rows of a raw block into the image of the device's memory.
  void PutRows(const BlockPool& pool, uint64_t slot, std::span<const std::byte> raw) {
    const uint64_t bytes = pool.geometry.row_bytes;
    for (uint64_t row = 0; row * bytes < raw.size(); ++row) {
      const uint64_t at = slot * pool.slot_stride + RowPlace(pool.geometry, row);
      ASSERT_LE(at + bytes, image_.size());
      std::ranges::copy(raw.subspan(row * bytes, bytes), &image_[at]);
    }
  }
  void WriteImage() {
    const CopySegment segment = Segment(kImageAt, image_);
    Onboard({&segment, 1});
  }
  void Run(const BlockBatch& batch) {
    // Outcomes that the device does not write stay noise, which no test expects.
    std::memset(static_cast<void*>(outcomes_), 0xa5, sizeof(BlockOutcomes));
    Must(device_->SubmitBlocks(batch));
    Finish();
  }
  static std::vector<std::byte> Bytes(const KvValues& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  // Returns the bytes that the device should store for a block; empty: they exceed `block_bytes`.
  static std::vector<std::byte> Stored(const BlockBatch& batch, const KvValues& values) {
    if (batch.codec == Codec::kRaw) return Bytes(values);
    std::vector<std::byte> bytes = EncodeValues(batch.codec, kBlockShape, values).bytes;
    if (bytes.size() > batch.block_bytes) return {};
    bytes.resize(batch.block_bytes);
    return bytes;
  }
  void ExpectSum(size_t index, std::span<const std::byte> stored) {
    const PayloadSum sum = SumPayload(stored);
    EXPECT_EQ(outcomes_->sums[index],
              (kernels::PayloadSum{.hi = sum.hi, .lo = sum.lo, .bytes = stored.size()}));
  }
  // Returns the sizes with which a stored block of the codec is tested.
  static std::vector<uint64_t> SizesOf(Codec codec) {
    if (codec == Codec::kRaw) return {kBlockRaw};
    return {EncodedBytes(codec, kBlockShape), MaxEncodedBytes(kBlockShape)};
  }

  std::span<std::byte> image_;
  BlockOutcomes* outcomes_ = nullptr;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_BLOCK_RIG_H_

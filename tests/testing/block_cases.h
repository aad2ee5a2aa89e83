// The promises of Device::SubmitBlocks(), for every form of Device. What is stored is held
// against the kernels' host forms, and where rows lie against the formula of each layout.
#ifndef KVTIER_TESTS_TESTING_BLOCK_CASES_H_
#define KVTIER_TESTS_TESTING_BLOCK_CASES_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "tests/testing/device_rig.h"
#include "tests/testing/kv_values.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {

inline constexpr uint32_t kBlockSlots = 12;
inline constexpr kernels::KvShape kBlockShape = {
    .layers = 3, .axes = 2, .tokens = 16, .kv_heads = 4, .head_dim = 32};
inline constexpr uint64_t kBlockRaw = kernels::RawBytes(kBlockShape);  // 24 KiB.
// Of the region, where the tests keep blocks; what is between them must stay.
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
  for (uint64_t i = 0; i < kernels::Planes(kBlockShape); ++i) {
    pool.geometry.planes.push_back(i / 2 * layout.layer + i % 2 * layout.axis);
  }
  return pool;
}

inline std::vector<BlockPool> BlockPools() {
  std::vector<BlockPool> pools = {
      PoolOf("tokens first", kernels::TokenMajorLayout(kBlockShape, 64)),
      PoolOf("heads first", kernels::HeadMajorLayout(kBlockShape, 64)),
      PoolOf("K and V fused", kernels::FusedLayout(kBlockShape, 64))};
  // A tensor each for K and V of every layer: as far apart as each other, and anywhere.
  const uint64_t plane_bytes = kernels::RawPlaneBytes(kBlockShape);
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
  // Heads of all slots together: [plane][head][slot][token].
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

// Where row `row` of the raw block begins, from the block's own offset.
inline uint64_t RowPlace(const BlockGeometry& geometry, uint64_t row) {
  const uint64_t head = row % geometry.shape.kv_heads;
  const uint64_t token = row / geometry.shape.kv_heads % geometry.shape.tokens;
  const uint64_t plane = row / kernels::Rows(geometry.shape);
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

  // Stored block `index`, apart from others and at any address.
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
  // Block i of a batch is in slot `slots[i]`, and stored as block i.
  std::vector<BlockTransfer> InSlots(const BlockPool& pool, std::span<const uint32_t> slots) {
    std::vector<BlockTransfer> blocks;
    for (size_t i = 0; i < slots.size(); ++i) {
      blocks.push_back({kImageAt + slots[i] * pool.slot_stride, StoredAt(i)});
    }
    return blocks;
  }
  // Rows of a raw block into the image of the device's memory.
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
    // Whatever is not written shows.
    std::memset(static_cast<void*>(outcomes_), 0xa5, sizeof(BlockOutcomes));
    Must(device_->SubmitBlocks(batch));
    Finish();
  }
  static std::vector<std::byte> Bytes(const KvValues& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  // What a block is stored as; empty: not at all.
  static std::vector<std::byte> Stored(const BlockBatch& batch, const KvValues& values) {
    if (batch.codec == kernels::Codec::kRaw) return Bytes(values);
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
  // The sizes of stored blocks that the codec has.
  static std::vector<uint64_t> SizesOf(kernels::Codec codec) {
    if (codec == kernels::Codec::kRaw) return {kBlockRaw};
    return {kernels::EncodedBytes(codec, kBlockShape), kernels::MaxEncodedBytes(kBlockShape)};
  }

  std::span<std::byte> image_;
  BlockOutcomes* outcomes_ = nullptr;
};

TEST_P(BlockBatchTest, EveryCodecStoresWhatTheHostWouldStoreFromEveryLayout) {
  std::mt19937_64 random(TestSeed());
  std::vector<uint32_t> slots(kBlockSlots);
  std::iota(slots.begin(), slots.end(), 0);
  for (const BlockPool& pool : BlockPools()) {
    std::ranges::shuffle(slots, random);
    const std::vector<BlockTransfer> blocks = InSlots(pool, slots);
    FillWithNoise(random(), image_);
    std::vector<KvValues> values;
    for (const uint32_t slot : slots) {
      values.push_back(GaussianValues(kBlockShape, random()));
      PutRows(pool, slot, Bytes(values.back()));
    }
    WriteImage();
    BlockBatch batch = Batch(kOut, pool, blocks);
    for (const kernels::Codec codec : kAllCodecs) {
      for (const uint64_t size : SizesOf(codec)) {
        SCOPED_TRACE(pool.name + ", codec " + std::to_string(static_cast<int>(codec)));
        batch.codec = codec;
        batch.block_bytes = size;
        FillWithNoise(random(), host(0, 1 << 20));
        Run(batch);
        for (size_t i = 0; i < blocks.size(); ++i) {
          const std::vector<std::byte> stored = Stored(batch, values[i]);
          ASSERT_TRUE(std::ranges::equal(stored, std::span(blocks[i].host, size))) << i;
          EXPECT_EQ(outcomes_->codecs[i].codec, codec);
          EXPECT_LE(outcomes_->codecs[i].bytes, size);
          ExpectSum(i, stored);
        }
      }
    }
  }
}

TEST_P(BlockBatchTest, EveryCodecComesBackIntoEveryLayoutAndNowhereElse) {
  std::mt19937_64 random(TestSeed());
  std::vector<uint32_t> slots(kBlockSlots);
  std::iota(slots.begin(), slots.end(), 0);
  for (const BlockPool& pool : BlockPools()) {
    for (const kernels::Codec codec : kAllCodecs) {
      for (const uint64_t size : SizesOf(codec)) {
        SCOPED_TRACE(pool.name + ", codec " + std::to_string(static_cast<int>(codec)));
        std::ranges::shuffle(slots, random);
        const std::span<const uint32_t> some = std::span(slots).first(1 + random() % slots.size());
        const std::vector<BlockTransfer> blocks = InSlots(pool, some);
        BlockBatch batch = Batch(kIn, pool, blocks);
        batch.codec = codec;
        batch.block_bytes = size;
        FillWithNoise(random(), image_);
        WriteImage();
        for (size_t i = 0; i < blocks.size(); ++i) {
          const KvValues values = GaussianValues(kBlockShape, random());
          const std::vector<std::byte> stored = Stored(batch, values);
          std::ranges::copy(stored, blocks[i].host);
          const bool raw = codec == kernels::Codec::kRaw;
          PutRows(pool, some[i], raw ? stored : Bytes(DecodeValues(codec, kBlockShape, stored)));
        }
        Run(batch);
        EXPECT_TRUE(std::ranges::equal(Held(kImageAt, kImageBytes), image_));
        for (size_t i = 0; i < blocks.size(); ++i) {
          EXPECT_EQ(outcomes_->codecs[i],
                    (kernels::CodecOutcome{.bytes = kBlockRaw, .codec = codec}));
          ExpectSum(i, {blocks[i].host, size});
        }
      }
    }
  }
}

TEST_P(BlockBatchTest, ABlockWithANaNOrAnInfinityIsStoredRawWhereThereIsRoom) {
  const BlockPool pool = BlockPools()[2];
  const std::vector<uint32_t> slots = {4, 1, 7};
  const std::vector<BlockTransfer> blocks = InSlots(pool, slots);
  std::vector<KvValues> values(3, GaussianValues(kBlockShape, 1));
  values[0][1000] = 0x7fc0;
  values[2].back() = 0xff80;
  for (size_t i = 0; i < 3; ++i) PutRows(pool, slots[i], Bytes(values[i]));
  for (const kernels::Codec codec : kAllCodecs) {
    if (codec == kernels::Codec::kRaw) continue;
    WriteImage();
    BlockBatch batch = Batch(kOut, pool, blocks);
    batch.codec = codec;
    batch.block_bytes = SizesOf(codec)[1];
    Run(batch);
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<std::byte> stored = Stored(batch, values[i]);
      EXPECT_TRUE(std::ranges::equal(stored, std::span(blocks[i].host, batch.block_bytes))) << i;
      ExpectSum(i, stored);
      EXPECT_EQ(outcomes_->codecs[i].codec, i == 1 ? codec : kernels::Codec::kRaw);
    }
    batch.direction = kIn;
    const std::vector<std::byte> before = Held(kImageAt, kImageBytes);
    Run(batch);
    EXPECT_EQ(outcomes_->codecs[0],
              (kernels::CodecOutcome{.bytes = kBlockRaw, .codec = kernels::Codec::kRaw}));
    if (codec != kernels::Codec::kPackedExponents) continue;
    EXPECT_EQ(Held(kImageAt, kImageBytes), before) << "lossless, and so is raw";
  }
}

TEST_P(BlockBatchTest, WithoutRoomABlockThatMustStayRawIsNotStored) {
  const BlockPool pool = BlockPools()[0];
  const std::vector<uint32_t> slots = {0, 1};
  const std::vector<BlockTransfer> blocks = InSlots(pool, slots);
  KvValues values = GaussianValues(kBlockShape, 1);
  PutRows(pool, 1, Bytes(values));
  values[5] = 0x7f80;
  PutRows(pool, 0, Bytes(values));
  WriteImage();
  BlockBatch batch = Batch(kOut, pool, blocks);
  batch.codec = kernels::Codec::kInt8;
  batch.block_bytes = SizesOf(batch.codec)[0];
  Run(batch);
  EXPECT_EQ(outcomes_->codecs[0].codec, kernels::Codec::kRaw);
  EXPECT_GT(outcomes_->codecs[0].bytes, batch.block_bytes);
  EXPECT_EQ(outcomes_->codecs[1],
            (kernels::CodecOutcome{.bytes = batch.block_bytes, .codec = batch.codec}));
  ExpectSum(1, {blocks[1].host, batch.block_bytes});
}

TEST_P(BlockBatchTest, WhatIsNoEncodingFailsItsBlockAlone) {
  const BlockPool pool = BlockPools()[1];
  const std::vector<uint32_t> slots = {3, 2, 5};
  const std::vector<BlockTransfer> blocks = InSlots(pool, slots);
  const KvValues values = GaussianValues(kBlockShape, 9);
  for (const kernels::Codec codec : {kernels::Codec::kFp8E4m3, kernels::Codec::kPackedExponents}) {
    BlockBatch batch = Batch(kIn, pool, blocks);
    batch.codec = codec;
    batch.block_bytes = SizesOf(codec)[0];
    for (const BlockTransfer& block : blocks) {
      std::ranges::copy(Stored(batch, values), block.host);
    }
    blocks[1].host[9] ^= std::byte{1};
    Run(batch);
    EXPECT_EQ(outcomes_->codecs[1].bytes, 0);
    for (const size_t i : {0, 2}) {
      EXPECT_EQ(outcomes_->codecs[i].bytes, kBlockRaw);
      PutRows(pool, slots[i], Bytes(DecodeValues(codec, kBlockShape, Stored(batch, values))));
      const uint64_t at = kImageAt + slots[i] * pool.slot_stride;
      EXPECT_TRUE(std::ranges::equal(Held(at, kBlockRaw),
                                     image_.subspan(slots[i] * pool.slot_stride, kBlockRaw)));
    }
  }
}

// What a wire or a disk did to it, an encoding does not tell: the sum does.
TEST_P(BlockBatchTest, ADamagedBlockHasAnotherSum) {
  const BlockPool pool = BlockPools()[0];
  const uint32_t slot = 0;
  const std::vector<BlockTransfer> blocks = InSlots(pool, {&slot, 1});
  for (const kernels::Codec codec : {kernels::Codec::kRaw, kernels::Codec::kInt4}) {
    BlockBatch batch = Batch(kIn, pool, blocks);
    batch.codec = codec;
    batch.block_bytes = SizesOf(codec)[0];
    std::ranges::copy(Stored(batch, GaussianValues(kBlockShape, 2)), blocks[0].host);
    const PayloadSum expected = SumPayload({blocks[0].host, batch.block_bytes});
    blocks[0].host[5000] ^= std::byte{0x10};
    Run(batch);
    EXPECT_NE(outcomes_->sums[0].lo, expected.lo);
    ExpectSum(0, {blocks[0].host, batch.block_bytes});
  }
}

TEST_P(BlockBatchTest, SumsAreTakenWhenAskedFor) {
  for (const BlockPool& pool : {BlockPools()[0], BlockPools()[4]}) {
    const uint32_t slot = 3;
    const std::vector<BlockTransfer> blocks = InSlots(pool, {&slot, 1});
    for (const kernels::Codec codec : kAllCodecs) {
      for (const uint64_t size : SizesOf(codec)) {
        for (const CopyDirection direction : {kOut, kIn}) {
          BlockBatch batch = Batch(direction, pool, blocks);
          batch.codec = codec;
          batch.block_bytes = size;
          batch.summed = false;
          Run(batch);
          EXPECT_EQ(outcomes_->sums[0].bytes, 0);
          EXPECT_EQ(outcomes_->codecs[0].bytes > 0, true);
        }
      }
    }
  }
}

TEST_P(BlockBatchTest, RawRowsAreOfAnySize) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t row_bytes : {1, 7, 24, 656}) {
    BlockPool pool;
    pool.geometry = {.shape = {.layers = 2, .axes = 1, .tokens = 5, .kv_heads = 1},
                     .row_bytes = row_bytes,
                     .token_stride = row_bytes + 3,
                     .planes = {9000, 1}};
    pool.slot_stride = 20'000;
    const std::vector<uint32_t> slots = {2, 0};
    const std::vector<BlockTransfer> blocks = InSlots(pool, slots);
    BlockBatch batch = Batch(kIn, pool, blocks);
    batch.block_bytes = 10 * row_bytes;
    FillWithNoise(random(), image_);
    WriteImage();
    FillWithNoise(random(), host(0, 1 << 20));
    for (size_t i = 0; i < slots.size(); ++i) {
      PutRows(pool, slots[i], {blocks[i].host, batch.block_bytes});
    }
    Run(batch);
    EXPECT_TRUE(std::ranges::equal(Held(kImageAt, kImageBytes), image_));
    const bool summed = batch.block_bytes >= kernels::kLeastSummedBytes;
    EXPECT_EQ(outcomes_->sums[1].bytes, summed ? batch.block_bytes : 0);
    if (summed) ExpectSum(1, {blocks[1].host, batch.block_bytes});
    const std::vector<std::byte> before(blocks[0].host, blocks[0].host + batch.block_bytes);
    FillWithNoise(random(), host(0, 1 << 20));
    batch.direction = kOut;
    Run(batch);
    EXPECT_TRUE(std::ranges::equal(before, std::span(blocks[0].host, batch.block_bytes)));
  }
}

TEST_P(BlockBatchTest, TheLongestBatchComesBack) {
  const BlockPool pool = BlockPools()[3];
  const std::vector<uint32_t> slots(kMaxBatchBlocks, 1);
  std::vector<BlockTransfer> blocks = InSlots(pool, slots);
  PutRows(pool, 1, Bytes(GaussianValues(kBlockShape, 5)));
  WriteImage();
  BlockBatch batch = Batch(kOut, pool, blocks);
  batch.codec = kernels::Codec::kFp8E4m3;
  batch.block_bytes = SizesOf(batch.codec)[0];
  Run(batch);
  const std::vector<std::byte> stored = Stored(batch, GaussianValues(kBlockShape, 5));
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(stored, std::span(blocks[i].host, batch.block_bytes))) << i;
    ExpectSum(i, stored);
  }
  blocks.push_back(blocks[0]);
  EXPECT_EQ(device_->SubmitBlocks(Batch(kOut, pool, blocks)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(BlockBatchTest, ABatchOfNoBlocksEnds) {
  const BlockPool pool = BlockPools()[0];
  Run(Batch(kOut, pool, {}));
  Run(Batch(kIn, pool, {}));
}

// Kernels and copies that work ahead of the lane wait for the word, too.
TEST_P(BlockBatchTest, WhatAWordStandsForIsReadBehindIt) {
  const BlockPool from = BlockPools()[0];
  const uint32_t slot = 2;
  const std::vector<BlockTransfer> in = InSlots(from, {&slot, 1});
  std::vector<BlockTransfer> out = in;
  out[0].host = StoredAt(7);
  BlockBatch there = Batch(kIn, from, in);
  BlockBatch back = Batch(kOut, from, out);
  back.outcomes = OutcomesAt(1);
  there.codec = back.codec = kernels::Codec::kPackedExponents;
  there.block_bytes = back.block_bytes = SizesOf(there.codec)[0];
  page_->word(0)->store(0);
  page_->word(1)->store(0);
  Must(device_->Await(Lane::kOffload, page_->word(1), 1));
  Must(device_->SubmitBlocks(back));
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  Must(device_->SubmitBlocks(there));
  Must(device_->Signal(Lane::kOnboard, page_->word(1), 1));
  EXPECT_EQ(device_->Drain(absl::Milliseconds(20)).code(), absl::StatusCode::kDeadlineExceeded);
  std::ranges::copy(Stored(there, GaussianValues(kBlockShape, 8)), in[0].host);
  device_->Raise(page_->word(0), 1);
  Finish();
  EXPECT_TRUE(std::ranges::equal(std::span(in[0].host, there.block_bytes),
                                 std::span(out[0].host, back.block_bytes)));
}

TEST_P(BlockBatchTest, AFullLaneRefusesBlocks) {
  const BlockPool pool = BlockPools()[0];
  const uint32_t slot = 0;
  const std::vector<BlockTransfer> blocks = InSlots(pool, {&slot, 1});
  BlockBatch batch = Batch(kIn, pool, blocks);
  batch.codec = kernels::Codec::kInt8;
  batch.block_bytes = SizesOf(batch.codec)[0];
  std::ranges::copy(Stored(batch, GaussianValues(kBlockShape, 6)), blocks[0].host);
  page_->word(0)->store(0);
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  for (size_t i = 1; i < kMaxLaneDepth; ++i) {
    Must(device_->SubmitBlocks(batch));
    batch.outcomes = OutcomesAt(i);
  }
  EXPECT_EQ(device_->SubmitBlocks(batch).status().code(), absl::StatusCode::kResourceExhausted);
  device_->Raise(page_->word(0), 1);
  Finish();
  batch.outcomes = outcomes_;
  EXPECT_EQ(Must(device_->SubmitBlocks(batch)), (Ticket{Lane::kOnboard, kMaxLaneDepth + 1}));
  Finish();
  ExpectSum(0, {blocks[0].host, batch.block_bytes});
}

TEST_P(BlockBatchTest, BlocksThatCannotBeAreInvalidAndNamed) {
  using ::testing::HasSubstr;
  const BlockPool pool = BlockPools()[0];
  const uint32_t slot = 1;
  const std::vector<BlockTransfer> blocks = InSlots(pool, {&slot, 1});
  const auto expect = [&](const std::string& message, auto change) {
    BlockGeometry geometry = pool.geometry;
    std::vector<BlockTransfer> moved = blocks;
    BlockBatch batch = Batch(kIn, pool, {});
    batch.codec = kernels::Codec::kInt8;
    batch.block_bytes = SizesOf(batch.codec)[0];
    change(geometry, moved, batch);
    batch.geometry = &geometry;
    batch.blocks = moved;
    for (const CopyDirection direction : {kIn, kOut}) {
      batch.direction = direction;
      const absl::Status status = device_->SubmitBlocks(batch).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
      EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
  };
  expect("layers is 0", [](auto& geometry, auto&, auto&) { geometry.shape.layers = 0; });
  expect("axes is 3", [](auto& geometry, auto&, auto&) { geometry.shape.axes = 3; });
  expect("tokens is 65537", [](auto& geometry, auto&, auto&) { geometry.shape.tokens = 65537; });
  expect("kv_heads is 0", [](auto& geometry, auto&, auto&) { geometry.shape.kv_heads = 0; });
  expect("row_bytes is 0", [](auto& geometry, auto&, auto&) { geometry.row_bytes = 0; });
  expect("row_bytes is 62", [](auto& geometry, auto&, auto&) { geometry.row_bytes = 62; });
  expect("row_bytes is 67108864",
         [](auto& geometry, auto&, auto&) { geometry.row_bytes = 64 << 20; });
  expect("planes has 5", [](auto& geometry, auto&, auto&) { geometry.planes.pop_back(); });
  expect("head_dim is 33", [](auto& geometry, auto&, auto&) { geometry.shape.head_dim = 33; });
  expect("block_bytes is 24576", [](auto&, auto&, auto& batch) { batch.block_bytes = kBlockRaw; });
  expect("block_bytes is 24575", [](auto&, auto&, auto& batch) {
    batch.codec = kernels::Codec::kRaw;
    batch.block_bytes = kBlockRaw - 1;
  });
  expect("codec is 5", [](auto&, auto&, auto& batch) { batch.codec = kernels::Codec{5}; });
  expect("tokens is 1", [](auto& geometry, auto&, auto& batch) {
    // A step for each element.
    geometry.shape = {.layers = 3, .axes = 2, .tokens = 1, .kv_heads = 4, .head_dim = 16};
    geometry.row_bytes = 32;
    (void)batch;
  });
  const uint64_t region_bytes = region_->bytes();
  expect("blocks[0] at " + std::to_string(region_bytes - kBlockRaw + 1),
         [&](auto&, auto& moved, auto&) { moved[0].device_offset = region_bytes - kBlockRaw + 1; });
  expect("leaves a region", [](auto& geometry, auto&, auto&) {
    geometry.token_stride = std::numeric_limits<uint64_t>::max() / 15 + 1;  // Would wrap to 14.
  });
  expect("leaves a region", [](auto& geometry, auto&, auto&) {
    geometry.planes[3] = std::numeric_limits<uint64_t>::max() - 100;
  });
  expect("unevenly spaced planes", [](auto& geometry, auto&, auto& batch) {
    geometry.shape = {.layers = 513, .axes = 2, .tokens = 16, .kv_heads = 1, .head_dim = 16};
    geometry.row_bytes = 32;
    geometry.planes.assign(1026, 0);
    geometry.planes[7] = 512;
    batch.block_bytes = kernels::EncodedBytes(batch.codec, geometry.shape);
  });
  expect("pinned", [](auto&, auto& moved, auto&) {
    static std::array<std::byte, kBlockRaw> unpinned;
    moved[0].host = unpinned.data();
  });
  expect("pinned", [&](auto&, auto& moved, auto&) {
    moved[0].host = host(kTestPinChunk - 1, 1).data();  // Across the border of two chunks.
  });
  expect("pinned", [](auto&, auto&, auto& batch) {
    static BlockOutcomes unpinned;
    batch.outcomes = &unpinned;
  });
  EXPECT_TRUE(PollAll().empty());
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_BLOCK_CASES_H_

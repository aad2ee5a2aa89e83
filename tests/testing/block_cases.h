// These cases test the promises of Device::SubmitBlocks(), for every form of Device.
#ifndef KVTIER_TESTS_TESTING_BLOCK_CASES_H_
#define KVTIER_TESTS_TESTING_BLOCK_CASES_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/block_rig.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {

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
    for (const Codec codec : kAllCodecs) {
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
    for (const Codec codec : kAllCodecs) {
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
          const bool raw = codec == Codec::kRaw;
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
  for (const Codec codec : kAllCodecs) {
    if (codec == Codec::kRaw) continue;
    WriteImage();
    BlockBatch batch = Batch(kOut, pool, blocks);
    batch.codec = codec;
    batch.block_bytes = SizesOf(codec)[1];
    Run(batch);
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<std::byte> stored = Stored(batch, values[i]);
      EXPECT_TRUE(std::ranges::equal(stored, std::span(blocks[i].host, batch.block_bytes))) << i;
      ExpectSum(i, stored);
      EXPECT_EQ(outcomes_->codecs[i].codec, i == 1 ? codec : Codec::kRaw);
    }
    batch.direction = kIn;
    const std::vector<std::byte> before = Held(kImageAt, kImageBytes);
    Run(batch);
    EXPECT_EQ(outcomes_->codecs[0],
              (kernels::CodecOutcome{.bytes = kBlockRaw, .codec = Codec::kRaw}));
    if (codec != Codec::kPackedExponents) continue;
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
  batch.codec = Codec::kInt8;
  batch.block_bytes = SizesOf(batch.codec)[0];
  Run(batch);
  EXPECT_EQ(outcomes_->codecs[0].codec, Codec::kRaw);
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
  for (const Codec codec : {Codec::kFp8E4m3, Codec::kPackedExponents}) {
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

// The sum shows damage by a wire or a disk, which the encoding does not show.
TEST_P(BlockBatchTest, ADamagedBlockHasAnotherSum) {
  const BlockPool pool = BlockPools()[0];
  const uint32_t slot = 0;
  const std::vector<BlockTransfer> blocks = InSlots(pool, {&slot, 1});
  for (const Codec codec : {Codec::kRaw, Codec::kInt8}) {
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
    for (const Codec codec : kAllCodecs) {
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
  batch.codec = Codec::kFp8E4m3;
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
  there.codec = back.codec = Codec::kPackedExponents;
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
  batch.codec = Codec::kInt8;
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
    batch.codec = Codec::kInt8;
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
    batch.codec = Codec::kRaw;
    batch.block_bytes = kBlockRaw - 1;
  });
  expect("codec is 5", [](auto&, auto&, auto& batch) { batch.codec = Codec{5}; });
  expect("codec is 3", [](auto&, auto&, auto& batch) { batch.codec = Codec{3}; });
  expect("tokens is 1", [](auto& geometry, auto&, auto& batch) {
    // These strides make one step for each element.
    geometry.shape = {.layers = 3, .axes = 2, .tokens = 1, .kv_heads = 4, .head_dim = 16};
    geometry.row_bytes = 32;
    (void)batch;
  });
  const uint64_t region_bytes = region_->bytes();
  expect("blocks[0] at " + std::to_string(region_bytes - kBlockRaw + 1),
         [&](auto&, auto& moved, auto&) { moved[0].device_offset = region_bytes - kBlockRaw + 1; });
  expect("leaves a region", [](auto& geometry, auto&, auto&) {
    geometry.token_stride =
        std::numeric_limits<uint64_t>::max() / 15 + 1;  // 16 of these would wrap to 14.
  });
  expect("leaves a region", [](auto& geometry, auto&, auto&) {
    geometry.planes[3] = std::numeric_limits<uint64_t>::max() - 100;
  });
  expect("unevenly spaced planes", [](auto& geometry, auto&, auto& batch) {
    geometry.shape = {.layers = 513, .axes = 2, .tokens = 16, .kv_heads = 1, .head_dim = 16};
    geometry.row_bytes = 32;
    geometry.planes.assign(1026, 0);
    geometry.planes[7] = 512;
    batch.block_bytes = EncodedBytes(batch.codec, geometry.shape);
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

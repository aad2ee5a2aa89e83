// Tests blocks on the emulated device: their time, their accesses and their faults. block_cases.h
// tests their bytes, for every form of Device.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/tier_gpu/emulated_rig.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier {
namespace {

constexpr KvShape kShape = {.layers = 1, .axes = 2, .tokens = 16, .kv_heads = 2, .head_dim = 16};
constexpr uint64_t kRaw = RawBytes(kShape);  // Half a block of the rig.
constexpr uint64_t kPlane = kRaw / 2;

BlockGeometry WholeBlocks() {
  return {.shape = kShape,
          .row_bytes = 32,
          .token_stride = 64,
          .head_stride = 32,
          .planes = {0, kPlane}};
}

class EmulatedBlocksTest : public ::testing::Test {
 protected:
  explicit EmulatedBlocksTest(uint64_t granule = kRigBlock) : checker_(granule) {
    rig_ = std::make_unique<EmulatedRig>(&time_, EmulatedDevice::Options{.checker = &checker_});
    outcomes_ = new (rig_->host(500).data()) BlockOutcomes();
  }
  // Submits slots 0 to `count` - 1, each with the host block of the same number.
  absl::StatusOr<Ticket> Submit(CopyDirection direction, size_t count, Codec codec = Codec::kInt8) {
    std::vector<BlockTransfer> blocks;
    for (size_t i = 0; i < count; ++i) {
      blocks.push_back({.device_offset = i * slot_stride_, .host = rig_->host(i).data()});
    }
    const uint64_t bytes = codec == Codec::kRaw ? kRaw : EncodedBytes(codec, geometry_.shape);
    return rig_->device().SubmitBlocks({.direction = direction,
                                        .region = rig_->region(),
                                        .geometry = &geometry_,
                                        .codec = codec,
                                        .block_bytes = bytes,
                                        .blocks = blocks,
                                        .outcomes = outcomes_,
                                        .summed = summed_});
  }
  // Runs an engine's kernel that writes these bytes of the region.
  void Compute(uint64_t offset, uint64_t bytes) {
    const std::span<const std::byte> written(rig_->region()->address() + offset, bytes);
    KVT_CHECK(rig_->device()
                  .Launch({.run = absl::Microseconds(1), .reads = {}, .writes = {written}})
                  .ok());
  }

  testing::SimTime time_;
  AccessChecker checker_;
  std::unique_ptr<EmulatedRig> rig_;
  BlockGeometry geometry_ = WholeBlocks();
  uint64_t slot_stride_ = kRigBlock;
  bool summed_ = true;
  BlockOutcomes* outcomes_ = nullptr;
};

// The link carries the stored bytes. Kernels read and write the rows, the codec reads the rows and
// writes an encoding, and a sum that is a pass of its own reads the stored bytes.
TEST_F(EmulatedBlocksTest, BlocksTakeTheTimeOfTheirPassesAndOfWhatIsStored) {
  const uint64_t int8 = EncodedBytes(Codec::kInt8, kShape);
  struct Case {
    Codec codec;
    bool summed;
    uint64_t stored;
    uint64_t passes;
  };
  for (const Case& one :
       {Case{Codec::kRaw, true, kRaw, 2 * kRaw}, Case{Codec::kInt8, false, int8, 3 * kRaw + int8},
        Case{Codec::kInt8, true, int8, 3 * kRaw + 2 * int8}}) {
    for (const CopyDirection direction : {kOut, kIn}) {
      summed_ = one.summed;
      ASSERT_TRUE(Submit(direction, 3, one.codec).ok());
      EXPECT_EQ(rig_->Finish().at(0).device,
                LinkModel::Pcie5().Predict({.direction = direction,
                                            .segments = 3,
                                            .bytes = 3 * one.stored,
                                            .kernel_bytes = 3 * one.passes}));
    }
  }
}

TEST_F(EmulatedBlocksTest, RowsAreReadWhenTheBatchRuns) {
  ASSERT_TRUE(Submit(kOut, 1, Codec::kRaw).ok());
  std::ranges::fill(rig_->slot(0), std::byte{9});
  rig_->Finish();
  EXPECT_EQ(rig_->host(0).front(), std::byte{9});
}

TEST_F(EmulatedBlocksTest, BlocksThatNothingOrdersWithTheirWriterAreARace) {
  for (const bool waits : {true, false}) {
    ASSERT_TRUE(checker_.races().empty());
    Compute(kRigBlock, kRigBlock);
    ASSERT_TRUE(rig_->device().Signal(Lane::kCompute, rig_->word(0), 1).ok());
    if (waits) {
      ASSERT_TRUE(rig_->device().Await(Lane::kOffload, rig_->word(0), 1).ok());
    }
    ASSERT_TRUE(Submit(kOut, 2).ok());
    rig_->Finish();
    EXPECT_EQ(checker_.races().empty(), waits);
  }
}

TEST_F(EmulatedBlocksTest, TheHostMayNotReadWhatABatchStillWrites) {
  ASSERT_TRUE(Submit(kOut, 1).ok());
  KVT_CHECK(rig_->device().Drain(absl::Seconds(10)).ok());
  rig_->device().NoteHostAccess(AccessChecker::Access::kRead, rig_->host(0));
  EXPECT_EQ(checker_.races().size(), 1) << "its end was not polled";
}

class FineBlocksTest : public EmulatedBlocksTest {
 protected:
  FineBlocksTest() : EmulatedBlocksTest(32) {}
};

// Heads are outside of slots: rows of other blocks lie between those of one.
TEST_F(FineBlocksTest, OnlyTheRowsOfTheBlocksAreTouched) {
  constexpr uint64_t kSlots = 4;
  geometry_.token_stride = 32;
  slot_stride_ = 16 * geometry_.token_stride;
  geometry_.head_stride = kSlots * slot_stride_;
  geometry_.planes = {0, 2 * geometry_.head_stride};
  for (uint64_t piece = 0; piece < 4; ++piece) {
    Compute(piece * geometry_.head_stride + slot_stride_, 3 * slot_stride_);
  }
  ASSERT_TRUE(Submit(kIn, 1).ok());
  rig_->Finish();
  EXPECT_TRUE(checker_.races().empty());
  Compute(3 * geometry_.head_stride + slot_stride_ - 32, 32);
  ASSERT_TRUE(Submit(kIn, 1).ok());
  rig_->Finish();
  EXPECT_EQ(checker_.races().size(), 1) << "the last row";
}

TEST_F(EmulatedBlocksTest, AFailedBatchMovesHalfOfItsBlocks) {
  for (size_t i = 0; i < 4; ++i) std::ranges::fill(rig_->slot(i), std::byte{1});
  rig_->device().FailCopy(kOut, 1);
  ASSERT_TRUE(Submit(kOut, 4, Codec::kRaw).ok());
  EXPECT_EQ(rig_->Finish().at(0).status.code(), absl::StatusCode::kUnavailable);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rig_->host(i).front(), i < 2 ? std::byte{1} : std::byte{0});
  }
  ASSERT_TRUE(Submit(kOut, 4, Codec::kRaw).ok());
  EXPECT_EQ(rig_->Finish().at(0).status, absl::OkStatus());
}

TEST_F(EmulatedBlocksTest, ALostDeviceEndsAndRefusesBlocks) {
  ASSERT_TRUE(Submit(kIn, 1).ok());
  rig_->device().Lose();
  EXPECT_EQ(rig_->Poll().at(0).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit(kIn, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit(kOut, 1).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kvtier

// Tests what DiskTier promises, over the simulated disk.
#include "tier_disk/disk_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskPayload;
using testing::DiskRig;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 12000;

class DiskTierTest : public ::testing::Test {
 protected:
  DiskTierTest()
      : rig_(DiskForm::kSim, DiskRig::Shape{}, "",
             [this](const BlockKey& key) { dropped_.push_back(key); }) {
    EXPECT_EQ(rig_.Open(), absl::OkStatus());
  }
  ~DiskTierTest() override { rig_.tier->Audit(); }

  // Returns the place of the n-th of consecutive puts to a fresh disk.
  static DiskAddress Nth(uint64_t n) { return {SegmentId{0}, n * RecordBytes(kLength)}; }
  DiskTier& tier() { return *rig_.tier; }

  std::vector<BlockKey> dropped_;
  DiskRig rig_;
};

// Put, Get, Erase.

TEST_F(DiskTierTest, ABlockReadsBackAndIsCounted) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  EXPECT_EQ(tier().block_count(), 1);
  EXPECT_EQ(tier().used_bytes(), RecordBytes(kLength));
  EXPECT_EQ(tier().stats().inserts, 1);
  EXPECT_EQ(tier().stats().hits, 1);
  EXPECT_EQ(tier().stats().verified, 1);
  EXPECT_EQ(tier().stats().bytes_in, kLength);
  EXPECT_EQ(tier().stats().bytes_out, kLength);
}

// The padding of a record is not verified. Get() once copied it into the slot behind the block, and
// it was written to disk again with the block.
TEST_F(DiskTierTest, WhatLiesBehindARecordsPayloadIsNotHandedOn) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.disk_media.FlipBit(Nth(0), (kRecordHeaderBytes + kLength + 5) * 8);
  PageBuffer slot(kLength);
  ASSERT_EQ(rig_.Run(tier().Get(DiskKey(1), slot.bytes())).status(), absl::OkStatus());
  EXPECT_TRUE(std::ranges::all_of(slot.bytes().subspan(kLength),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_F(DiskTierTest, AnUnknownBlockIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  EXPECT_EQ(tier().stats().misses, 1);
}

TEST_F(DiskTierTest, PuttingABlockAgainWritesNothing) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  EXPECT_EQ(tier().stats().inserts, 1);
}

TEST_F(DiskTierTest, TwoPutsOfOneBlockShareOneWrite) {
  PageBuffer slot = DiskPayload(1, kLength);
  const BlockMeta block = MakeDiskBlock(1, kLength);
  TaskScope scope(rig_.sim_executor.get());
  std::optional<absl::Status> first;
  std::optional<absl::Status> second;
  scope.Spawn(testing::Collect(tier().Put(block, slot.bytes()), &first));
  scope.Spawn(testing::Collect(tier().Put(block, slot.bytes()), &second));
  while (!first || !second) ASSERT_TRUE(rig_.sim_time.Step());
  EXPECT_EQ(*first, absl::OkStatus());
  EXPECT_EQ(*second, absl::OkStatus());
  EXPECT_EQ(tier().stats().inserts, 1);
}

TEST_F(DiskTierTest, AnErasedBlockStaysAwayAfterReopening) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Erase(1), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  EXPECT_EQ(dropped_, std::vector<BlockKey>{DiskKey(1)});
}

TEST_F(DiskTierTest, ErasingAnUnknownBlockIsOk) { EXPECT_EQ(rig_.Erase(1), absl::OkStatus()); }

TEST_F(DiskTierTest, BlocksOfManySizesAndParentsComeBackAfterReopening) {
  const std::vector<uint64_t> lengths = {1, 4095, 4096, 4097, 65536, 300000};
  for (size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_EQ(rig_.Put(i + 1, lengths[i], i), absl::OkStatus());
  }
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.recovered_blocks, lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(rig_.Get(i + 1, lengths[i]), absl::OkStatus());
    EXPECT_EQ(tier().Find(DiskKey(i + 1))->parent, DiskKey(i));
  }
}

TEST_F(DiskTierTest, WhoseABlockIsIsKnownAfterReopening) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, "acme"), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength, {}, "other"), absl::OkStatus());
  EXPECT_EQ(tier().OwnerOf(DiskKey(1)), TenantTagOf("acme"));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(tier().OwnerOf(DiskKey(1)), TenantTagOf("acme"));
  EXPECT_EQ(tier().OwnerOf(DiskKey(2)), TenantTagOf("other"));
  EXPECT_EQ(tier().OwnerOf(DiskKey(3)), std::nullopt);
}

TEST_F(DiskTierTest, AppendingGoesOnInAFreshSegmentAfterReopening) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  const std::vector<std::byte> tail = rig_.disk_media.ReadRaw(Nth(1), RecordBytes(kLength));
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.disk_media.ReadRaw(Nth(1), RecordBytes(kLength)), tail);
}

// Limits.

TEST_F(DiskTierTest, PutsBeyondTheLimitAreDeclined) {
  rig_.sim_disk->Stall();
  PageBuffer slot = DiskPayload(1, 4096);
  TaskScope scope(rig_.sim_executor.get());
  std::vector<std::optional<absl::Status>> results(kMaxDiskPutsInFlight);
  std::vector<BlockMeta> blocks;
  for (uint64_t i = 0; i <= kMaxDiskPutsInFlight; ++i) blocks.push_back(MakeDiskBlock(i, 4096));
  std::vector<PageBuffer> slots;
  for (uint64_t i = 0; i <= kMaxDiskPutsInFlight; ++i) slots.push_back(DiskPayload(i, 4096));
  for (uint64_t i = 0; i < kMaxDiskPutsInFlight; ++i) {
    scope.Spawn(testing::Collect(tier().Put(blocks[i], slots[i].bytes()), &results[i]));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(rig_.Run(tier().Put(blocks.back(), slots.back().bytes()))));
  EXPECT_EQ(tier().stats().declined, 1);
  rig_.sim_disk->Resume();
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + absl::Seconds(10));
  for (const auto& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST_F(DiskTierTest, ABlockLargerThanASegmentIsDeclined) {
  EXPECT_TRUE(absl::IsResourceExhausted(rig_.Put(1, uint64_t{1} << 20)));
  EXPECT_EQ(tier().stats().declined, 1);
}

TEST(DiskTierOpenTest, OneSegmentIsNotEnough) {
  DiskRig rig(DiskForm::kSim, {.segments = 1}, "", [](const BlockKey&) {});
  EXPECT_TRUE(absl::IsInvalidArgument(rig.Open()));
}

TEST_F(DiskTierTest, AManifestThatCannotBeReadFailsOpen) {
  rig_.manifest_media.faults.load_fails = true;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Open()));
  rig_.manifest_media.faults.load_fails = false;
}

// Law 2: publish last.

TEST_F(DiskTierTest, ABlockIsNotReadableBeforeItIsCommitted) {
  rig_.sim_disk->Stall();
  PageBuffer slot = DiskPayload(1, kLength);
  const BlockMeta block = MakeDiskBlock(1, kLength);
  TaskScope scope(rig_.sim_executor.get());
  std::optional<absl::Status> put;
  scope.Spawn(testing::Collect(tier().Put(block, slot.bytes()), &put));
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + absl::Seconds(1));
  EXPECT_FALSE(put.has_value());
  EXPECT_FALSE(tier().Find(DiskKey(1)).has_value());
  rig_.sim_disk->Resume();
  rig_.sim_time.RunUntil(rig_.sim_time.Now() + absl::Seconds(1));
  EXPECT_EQ(put, absl::OkStatus());
  EXPECT_TRUE(tier().Find(DiskKey(1)).has_value());
}

TEST_F(DiskTierTest, AFailedWritePublishesNothing) {
  rig_.disk_media.faults.write_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Put(1, kLength)));
  EXPECT_FALSE(tier().Find(DiskKey(1)).has_value());
  EXPECT_EQ(tier().stats().io_errors, 1);
  rig_.disk_media.faults.write_error = 0;
  EXPECT_EQ(rig_.Put(1, kLength), absl::OkStatus());  // The tier goes on.
}

TEST_F(DiskTierTest, AFailedCommitPublishesNothing) {
  rig_.manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Put(1, kLength)));
  EXPECT_FALSE(tier().Find(DiskKey(1)).has_value());
  rig_.manifest_media.faults.commit_error = 0;
  EXPECT_EQ(rig_.Put(1, kLength), absl::OkStatus());
}

TEST_F(DiskTierTest, AFullFileSystemDeclinesThePut) {
  rig_.disk_media.faults.full = 1;
  EXPECT_TRUE(absl::IsResourceExhausted(rig_.Put(1, kLength)));
  EXPECT_EQ(tier().stats().declined, 1);
  EXPECT_FALSE(tier().Find(DiskKey(1)).has_value());
  rig_.disk_media.faults.full = 0;
}

TEST_F(DiskTierTest, AFailedReadIsUnavailableAndTheBlockStays) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.disk_media.faults.read_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Get(1, kLength)));
  EXPECT_EQ(tier().stats().io_errors, 1);
  rig_.disk_media.faults.read_error = 0;
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

// Law 3: bytes prove their identity.

TEST_F(DiskTierTest, AFlippedBitAnywhereInARecordIsAMissAndDropsIt) {
  uint64_t failures = 0;
  for (uint64_t bit = 0; bit < (kRecordHeaderBytes + kLength) * 8; bit += 1009) {
    SCOPED_TRACE(bit);
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
    // Every reopening starts another segment, so the record is found by its key.
    const auto image = rig_.manifest_media.rows.at(BlockRowKey(DiskKey(1)));
    ManifestImage row;
    ASSERT_TRUE(DecodeRow(BlockRowKey(DiskKey(1)), image, &row).ok());
    rig_.disk_media.FlipBit({row.entries[0].place.segment, row.entries[0].place.offset}, bit);
    dropped_.clear();
    ASSERT_TRUE(absl::IsDataLoss(rig_.Get(1, kLength)));
    ASSERT_EQ(dropped_, std::vector<BlockKey>{DiskKey(1)});
    ASSERT_EQ(tier().stats().verify_failures, 1);
    ASSERT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
    ASSERT_FALSE(rig_.manifest_media.rows.contains(BlockRowKey(DiskKey(1))));
    ++failures;
  }
  EXPECT_GT(failures, 100);
}

TEST_F(DiskTierTest, AFlippedBitInAManifestValueIsAMissAndCounted) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  rig_.manifest_media.rows.at(BlockRowKey(DiskKey(1)))[40] ^= 4;
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_corrupt, 1);
  EXPECT_EQ(rig_.recovery.recovered_blocks, 1);
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  EXPECT_EQ(rig_.Get(2, kLength), absl::OkStatus());
}

TEST_F(DiskTierTest, TwoSwappedRecordsAreTwoMisses) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  const auto first = rig_.disk_media.ReadRaw(Nth(0), RecordBytes(kLength));
  const auto second = rig_.disk_media.ReadRaw(Nth(1), RecordBytes(kLength));
  rig_.disk_media.WriteRaw(Nth(0), second);
  rig_.disk_media.WriteRaw(Nth(1), first);
  EXPECT_TRUE(absl::IsDataLoss(rig_.Get(1, kLength)));
  EXPECT_TRUE(absl::IsDataLoss(rig_.Get(2, kLength)));
  EXPECT_EQ(tier().stats().verify_failures, 2);
  EXPECT_EQ(dropped_.size(), 2);
}

// The record is whole, and of the right block, but of an earlier use of the place: the write of the
// current one was lost.
TEST_F(DiskTierTest, ARecordOfAnOlderGenerationIsAMiss) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const auto old = rig_.disk_media.ReadRaw(Nth(0), RecordBytes(kLength));
  ASSERT_EQ(rig_.Erase(1), absl::OkStatus());
  dropped_.clear();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());  // Segment 0 is free again, with a new generation.
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_NE(rig_.disk_media.ReadRaw(Nth(0), RecordBytes(kLength)), old);
  rig_.disk_media.WriteRaw(Nth(0), old);
  EXPECT_TRUE(absl::IsDataLoss(rig_.Get(1, kLength)));
  EXPECT_EQ(tier().stats().verify_failures, 1);
  EXPECT_EQ(dropped_, std::vector<BlockKey>{DiskKey(1)});
}

TEST_F(DiskTierTest, AManifestEntryOfAnOlderGenerationIsAMiss) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const ManifestBatch::Generation moved_on{.segment = SegmentId{0}, .generation = 1000};
  rig_.manifest_media.rows[GenerationRowKey(SegmentId{0})] = EncodeGeneration(moved_on);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_stale, 1);
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
}

TEST_F(DiskTierTest, ATornRecordIsAMissAtEverySectorCut) {
  const uint64_t bytes = RecordBytes(kLength);
  for (uint64_t cut = 0; cut < kRecordHeaderBytes + kLength; cut += 512) {
    SCOPED_TRACE(cut);
    ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
    ManifestImage row;
    const std::string key = BlockRowKey(DiskKey(1));
    ASSERT_TRUE(DecodeRow(key, rig_.manifest_media.rows.at(key), &row).ok());
    const DiskAddress at{row.entries[0].place.segment, row.entries[0].place.offset + cut};
    // After the cut, the place has its earlier content.
    rig_.disk_media.WriteRaw(at, std::vector<std::byte>(bytes - cut));
    ASSERT_TRUE(absl::IsDataLoss(rig_.Get(1, kLength)));
  }
}

// Crashes.

TEST_F(DiskTierTest, WhatWasAcknowledgedSurvivesACrashAmongTornWrites) {
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(rig_.Put(i, kLength), absl::OkStatus());
  for (uint64_t crash = 0; crash < 50; ++crash) {
    SCOPED_TRACE(crash);
    std::vector<PageBuffer> slots;
    std::vector<BlockMeta> blocks;
    for (uint64_t i = 0; i < 8; ++i) {
      slots.push_back(DiskPayload(100 + 8 * crash + i, kLength));
      blocks.push_back(MakeDiskBlock(100 + 8 * crash + i, kLength));
    }
    std::vector<std::optional<absl::Status>> put(8);
    {
      TaskScope process(rig_.sim_executor.get());
      for (size_t i = 0; i < 8; ++i) {
        process.Spawn(testing::Collect(tier().Put(blocks[i], slots[i].bytes()), &put[i]));
      }
      for (uint64_t steps = rig_.disk_media.Below(60); steps > 0; --steps) rig_.sim_time.Step();
    }
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    for (uint64_t i = 0; i < 8; ++i) {
      const absl::Status got = rig_.Get(100 + 8 * crash + i, kLength);
      ASSERT_FALSE(absl::IsInternal(got)) << got;
      if (put[i] == absl::OkStatus()) {
        ASSERT_EQ(got, absl::OkStatus());
      }
      if (got.ok()) {
        ASSERT_EQ(rig_.Erase(100 + 8 * crash + i), absl::OkStatus());
      }
    }
    for (uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(rig_.Get(i, kLength), absl::OkStatus());
  }
  EXPECT_GT(rig_.disk_media.counts.torn, 0);
}

// Reclaim.

TEST_F(DiskTierTest, AFullDiskReclaimsTheOldestAndGoesOn) {
  uint64_t number = 1;
  while (dropped_.empty()) ASSERT_EQ(rig_.Put(number++, 60000), absl::OkStatus());
  EXPECT_EQ(dropped_.front(), DiskKey(1));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, 60000)));
  EXPECT_EQ(rig_.Get(number - 1, 60000), absl::OkStatus());
  EXPECT_EQ(tier().stats().evictions, dropped_.size());
  tier().Audit();
}

TEST_F(DiskTierTest, ReclaimKeepsTheHeadOfAPrefixThatGrowsOn) {
  // Block 1 is the parent of all that follows.
  ASSERT_EQ(rig_.Put(1, 60000), absl::OkStatus());
  for (uint64_t i = 2; i < 400; ++i) ASSERT_EQ(rig_.Put(i, 60000, 1), absl::OkStatus());
  EXPECT_GT(dropped_.size(), 100);
  EXPECT_EQ(rig_.Get(1, 60000), absl::OkStatus());
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, 60000), absl::OkStatus());
}

TEST_F(DiskTierTest, AReadDuringReclaimIsRightOrAMiss) {
  uint64_t number = 1;
  while (dropped_.empty()) ASSERT_EQ(rig_.Put(number++, 60000), absl::OkStatus());
  // Reads every block that is left while puts push the oldest out.
  const std::vector<BlockKey> blocks = tier().Keys();
  TaskScope scope(rig_.sim_executor.get());
  std::vector<PageBuffer> slots;
  std::vector<std::optional<absl::StatusOr<BlockMeta>>> got(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) slots.emplace_back(60000);
  rig_.sim_disk->Stall();
  for (size_t i = 0; i < blocks.size(); ++i) {
    scope.Spawn(testing::Collect(tier().Get(blocks[i], slots[i].bytes()), &got[i]));
  }
  for (uint64_t i = 0; i < 60; ++i) {
    rig_.sim_disk->Resume();
    ASSERT_EQ(rig_.Put(number++, 60000), absl::OkStatus());
  }
  size_t served = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_TRUE(got[i].has_value());
    const absl::StatusOr<BlockMeta>& meta = *got[i];
    ASSERT_TRUE(meta.ok() || absl::IsNotFound(meta.status())) << meta.status();
    if (!meta.ok()) continue;
    ++served;
    ASSERT_EQ(meta->key, blocks[i]);
    ASSERT_EQ(SumPayload(slots[i].bytes().first(60000)), meta->sum);
  }
  EXPECT_GT(served, 0);
  EXPECT_EQ(tier().stats().verify_failures, 0);
}

TEST_F(DiskTierTest, AFailedReclaimCommitDeclinesPutsAndRecovers) {
  uint64_t number = 1;
  for (; number < 80; ++number) ASSERT_EQ(rig_.Put(number, 60000), absl::OkStatus());
  rig_.manifest_media.faults.commit_error = 1;
  for (uint64_t i = 0; i < 40; ++i) EXPECT_FALSE(rig_.Put(number++, 60000).ok());
  rig_.manifest_media.faults.commit_error = 0;
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(rig_.Put(number++, 60000), absl::OkStatus());
  EXPECT_EQ(rig_.Get(number - 1, 60000), absl::OkStatus());
  tier().Audit();
}

TEST_F(DiskTierTest, UsedBytesNeverExceedCapacity) {
  for (uint64_t i = 1; i < 300; ++i) {
    ASSERT_EQ(rig_.Put(i, 4096 * (1 + i % 20)), absl::OkStatus());
    ASSERT_LE(tier().used_bytes(), tier().capacity_bytes());
  }
}

}  // namespace
}  // namespace kvtier

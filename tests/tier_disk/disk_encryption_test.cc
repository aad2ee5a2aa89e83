// Tests DiskTier with sealed payloads: what is read back, what is refused, what a thief finds on
// the disk, and what is left of a tenant that was erased.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/cipher/tenant_salt.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskPayload;
using testing::DiskRig;
using testing::MakeDiskBlock;
using testing::TestSecret;

constexpr uint64_t kLength = 12000;
constexpr char kOther[] = "other";

class SealedTierTest : public ::testing::Test {
 protected:
  SealedTierTest()
      : rig_(DiskForm::kSim, {.secret = TestSecret(1)}, "",
             [this](const BlockKey& key) { dropped_.push_back(key); }) {
    EXPECT_EQ(rig_.Open(), absl::OkStatus());
  }
  ~SealedTierTest() override { rig_.tier->Audit(); }

  DiskTier& tier() { return *rig_.tier; }
  DiskEntry EntryOf(uint64_t number) {
    ManifestImage image;
    const std::string row = BlockRowKey(DiskKey(number));
    EXPECT_EQ(DecodeRow(row, rig_.manifest_media.rows.at(row), &image), absl::OkStatus());
    return image.entries.at(0);
  }
  RecordHeader HeaderAt(const RecordPlace& place) {
    const std::vector<std::byte> page =
        rig_.disk_media.ReadRaw({place.segment, place.offset}, kRecordHeaderBytes);
    return *DecodeRecordHeader(std::span(page).first<kRecordHeaderBytes>());
  }
  absl::StatusOr<uint64_t> EraseTenant(const std::string& tenant) {
    return rig_.Run(tier().EraseTenant(tenant));
  }
  bool HasSalt(const std::string& tenant) {
    return rig_.manifest_media.rows.contains(TenantSaltRowKey(tenant));
  }

  std::vector<BlockKey> dropped_;
  DiskRig rig_;
};

// Reading and writing.

TEST_F(SealedTierTest, BlocksOfAllTenantsReadBackAndComeBackAfterReopening) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, 1, 1, kOther), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.recovered_blocks, 2);
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  EXPECT_EQ(rig_.Get(2, 1), absl::OkStatus());
  EXPECT_EQ(tier().stats().verified, 2);
}

TEST_F(SealedTierTest, AGetSaysTheSumThatThePutHad) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  PageBuffer slot(kLength);
  const auto meta = rig_.Run(tier().Get(DiskKey(1), slot.bytes()));
  ASSERT_EQ(meta.status(), absl::OkStatus());
  EXPECT_EQ(meta->sum, MakeDiskBlock(1, kLength).sum);
}

TEST_F(SealedTierTest, EachTenantHasAKeyOfItsOwn) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength, {}, kOther), absl::OkStatus());
  const RecordHeader first = HeaderAt(EntryOf(1).place);
  const RecordHeader second = HeaderAt(EntryOf(2).place);
  ASSERT_TRUE(first.proof && second.proof);
  EXPECT_NE(first.proof->key_id, second.proof->key_id);
  EXPECT_EQ(first.proof->key_id, EntryOf(1).block.key_id);
}

TEST_F(SealedTierTest, ASlotThatChangedAfterItsCommitIsNotSealed) {
  PageBuffer slot = DiskPayload(1, kLength);
  slot.bytes()[kLength / 2] ^= std::byte{1};
  EXPECT_TRUE(absl::IsDataLoss(rig_.Run(tier().Put(MakeDiskBlock(1, kLength), slot.bytes()))));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
}

TEST_F(SealedTierTest, ThePutSlotStaysInTheClear) {
  PageBuffer slot = DiskPayload(1, kLength);
  ASSERT_EQ(rig_.Run(tier().Put(MakeDiskBlock(1, kLength), slot.bytes())), absl::OkStatus());
  EXPECT_TRUE(testing::HoldsDiskBlock(1, kLength, &slot));
}

TEST_F(SealedTierTest, PutsBeyondTheBuffersAreDeclined) {
  const PageBuffer unused(kLength);
  std::vector<PageBuffer> slots;
  std::vector<BlockMeta> blocks;
  for (uint64_t i = 0; i <= kMaxSealedPutsInFlight; ++i) {
    slots.push_back(DiskPayload(i, kLength));
    blocks.push_back(MakeDiskBlock(i, kLength));
  }
  std::vector<absl::Status> ended;
  TaskScope scope(rig_.sim_executor.get());
  const auto put = [&](size_t i) -> Task<void> {
    const absl::Status status = co_await tier().Put(blocks[i], slots[i].bytes());
    ended.push_back(status);
  };
  for (size_t i = 0; i < blocks.size(); ++i) scope.Spawn(put(i));
  ASSERT_EQ(ended.size(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ended[0])) << ended[0];
  while (rig_.sim_time.Step()) {
  }
  EXPECT_EQ(ended.size(), blocks.size());
  EXPECT_EQ(tier().block_count(), kMaxSealedPutsInFlight);
}

TEST_F(SealedTierTest, ATenantNameThatIsNoneIsInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(rig_.Put(1, kLength, {}, "")));
  EXPECT_TRUE(absl::IsInvalidArgument(EraseTenant("").status()));
}

// Damage.

TEST_F(SealedTierTest, AFlippedBitAnywhereInARecordIsAMissAndDropsIt) {
  constexpr uint64_t kHeaderContent = 144;
  std::vector<uint64_t> bits;
  for (uint64_t bit = 0; bit < kHeaderContent * 8; ++bit) bits.push_back(bit);
  for (uint64_t bit = bits.size(); bit < (kRecordHeaderBytes + kLength) * 8; bit += 1009) {
    bits.push_back(bit);
  }
  for (const uint64_t bit : bits) {
    SCOPED_TRACE(bit);
    ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
    const RecordPlace place = EntryOf(1).place;
    rig_.disk_media.FlipBit({place.segment, place.offset}, bit);
    const uint64_t failures = tier().stats().verify_failures;
    dropped_.clear();
    PageBuffer slot(kLength);
    const auto got = rig_.Run(tier().Get(DiskKey(1), slot.bytes()));
    ASSERT_TRUE(absl::IsDataLoss(got.status())) << got.status();
    ASSERT_EQ(tier().stats().verify_failures, failures + 1);
    ASSERT_EQ(dropped_, std::vector<BlockKey>{DiskKey(1)});
    // The slot has no byte of a payload that failed verification.
    const auto payload = slot.bytes().first(kLength);
    ASSERT_TRUE(std::all_of(payload.begin(), payload.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_F(SealedTierTest, ARecordInTheClearIsNotTakenForASealedOne) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const DiskEntry entry = EntryOf(1);
  PageBuffer slot = DiskPayload(1, kLength);
  std::vector<std::byte> page(kRecordHeaderBytes);
  EncodeRecordHeader(HeaderOf(entry, MakeDiskBlock(1, kLength).sum),
                     std::span(page).first<kRecordHeaderBytes>());
  rig_.disk_media.WriteRaw({entry.place.segment, entry.place.offset}, page);
  rig_.disk_media.WriteRaw({entry.place.segment, entry.place.offset + kRecordHeaderBytes},
                           slot.bytes());
  EXPECT_TRUE(absl::IsDataLoss(rig_.Get(1, kLength)));
}

TEST_F(SealedTierTest, RowsOfTheOtherKindAreDroppedAtTheStart) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.Mount(nullptr);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_keyless, 1);
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  rig_.Mount(TestSecret(1));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_keyless, 1);
  EXPECT_EQ(tier().block_count(), 0);
}

TEST_F(SealedTierTest, ADamagedSaltMakesItsTenantsBlocksMissesAndNoOthers) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength, {}, kOther), absl::OkStatus());
  rig_.manifest_media.rows.at(TenantSaltRowKey(kOther))[20] ^= 1;
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_corrupt, 1);
  EXPECT_EQ(rig_.recovery.dropped_keyless, 1);
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(2, kLength)));
  EXPECT_EQ(rig_.Put(2, kLength, {}, kOther), absl::OkStatus());
}

// Salts.

TEST_F(SealedTierTest, NothingIsWrittenUntilTheTenantsSaltIsDurable) {
  rig_.manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Put(1, kLength)));
  const std::vector<std::byte> first = rig_.disk_media.ReadRaw({SegmentId{0}, 0}, 65536);
  EXPECT_EQ(first, std::vector<std::byte>(first.size()));
  rig_.manifest_media.faults.commit_error = 0;
  EXPECT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  EXPECT_TRUE(HasSalt(kNoTenant));
}

TEST_F(SealedTierTest, PutsOfANewTenantShareOneSalt) {
  std::vector<PageBuffer> slots;
  for (uint64_t i = 0; i < 4; ++i) slots.push_back(DiskPayload(i, kLength));
  TaskScope scope(rig_.sim_executor.get());
  const auto put = [&](size_t i) -> Task<void> {
    const BlockMeta block = MakeDiskBlock(i, kLength);
    const absl::Status status = co_await tier().Put(block, slots[i].bytes());
    EXPECT_EQ(status, absl::OkStatus());
  };
  for (size_t i = 0; i < slots.size(); ++i) scope.Spawn(put(i));
  while (rig_.sim_time.Step()) {
  }
  std::set<KeyId> keys;
  for (size_t i = 0; i < slots.size(); ++i) keys.insert(EntryOf(i).block.key_id);
  EXPECT_EQ(keys.size(), 1);
}

// Reclaim and rotation.

TEST_F(SealedTierTest, ReclaimSealsAnewWhatItKeeps) {
  ASSERT_EQ(rig_.Put(0, kLength), absl::OkStatus());
  const DiskEntry before = EntryOf(0);
  const CipherProof proof = *HeaderAt(before.place).proof;
  for (uint64_t i = 1; tier().reclaimed().reappended_blocks == 0; ++i) {
    ASSERT_LT(i, 2000);
    ASSERT_EQ(rig_.Put(i, kLength), absl::OkStatus());
    ASSERT_EQ(rig_.Get(0, kLength), absl::OkStatus());
  }
  const DiskEntry after = EntryOf(0);
  ASSERT_NE(after.place, before.place);
  EXPECT_EQ(after.block.key_id, before.block.key_id);
  EXPECT_NE(HeaderAt(after.place).proof->tag, proof.tag);
  EXPECT_EQ(rig_.Get(0, kLength), absl::OkStatus());
}

TEST_F(SealedTierTest, AfterARotationOldRecordsOpenAndReclaimPutsThemUnderTheNewSecret) {
  ASSERT_EQ(rig_.Put(0, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  const KeyId old = EntryOf(0).block.key_id;
  rig_.Mount(TestSecret(2, 1));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  ASSERT_EQ(rig_.recovery.recovered_blocks, 2);
  for (uint64_t i = 2; tier().reclaimed().reappended_blocks == 0; ++i) {
    ASSERT_LT(i, 2000);
    ASSERT_EQ(rig_.Put(i, kLength), absl::OkStatus());
    ASSERT_EQ(rig_.Get(0, kLength), absl::OkStatus());
  }
  EXPECT_NE(EntryOf(0).block.key_id, old);
  tier().Audit();
  rig_.Mount(TestSecret(2));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.Get(0, kLength), absl::OkStatus());
}

TEST_F(SealedTierTest, WithoutThePreviousSecretItsRecordsAreMisses) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.Mount(TestSecret(2, 1));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  ASSERT_EQ(rig_.Put(2, kLength), absl::OkStatus());
  rig_.Mount(TestSecret(2));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_keyless, 1);
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  EXPECT_EQ(rig_.Get(2, kLength), absl::OkStatus());
}

// Erasure.

TEST_F(SealedTierTest, AnErasedTenantIsGoneAndTheOthersStay) {
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(rig_.Put(i, 100, {}, i % 3 == 0 ? kOther : kNoTenant), absl::OkStatus());
  }
  const absl::StatusOr<uint64_t> erased = EraseTenant(kOther);
  ASSERT_EQ(erased.status(), absl::OkStatus());
  EXPECT_EQ(*erased, 100);
  EXPECT_EQ(dropped_.size(), 100);
  EXPECT_FALSE(HasSalt(kOther));
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_EQ(rig_.Open(), absl::OkStatus());
    }
    EXPECT_EQ(rig_.recovery.dropped_keyless, 0);
    for (uint64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(absl::IsNotFound(rig_.Get(i, 100)), i % 3 == 0) << i;
    }
  }
}

TEST_F(SealedTierTest, RowsOfAnErasedTenantThatACrashLeftAreDropped) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  const auto rows = rig_.manifest_media.rows;
  ASSERT_EQ(EraseTenant(kOther).status(), absl::OkStatus());
  // Makes the state of a process that died right after it erased the salt: the block's row is left.
  rig_.manifest_media.rows = rows;
  rig_.manifest_media.rows.erase(TenantSaltRowKey(kOther));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_keyless, 1);
  EXPECT_EQ(*EraseTenant(kOther), 0);
}

TEST_F(SealedTierTest, ATenantThatComesBackHasAnotherKey) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  const KeyId before = EntryOf(1).block.key_id;
  ASSERT_EQ(EraseTenant(kOther).status(), absl::OkStatus());
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  EXPECT_NE(EntryOf(1).block.key_id, before);
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

TEST_F(SealedTierTest, APutUnderWayWhileItsTenantIsErasedPublishesNothing) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  rig_.sim_disk->Stall();
  PageBuffer slot = DiskPayload(2, kLength);
  std::optional<absl::Status> ended;
  TaskScope scope(rig_.sim_executor.get());
  const auto put = [&]() -> Task<void> {
    const BlockMeta block = MakeDiskBlock(2, kLength);
    ended = co_await tier().Put(block, slot.bytes(), kOther);
  };
  scope.Spawn(put());
  ASSERT_EQ(EraseTenant(kOther).status(), absl::OkStatus());
  EXPECT_FALSE(ended.has_value());
  rig_.sim_disk->Resume();
  while (rig_.sim_time.Step()) {
  }
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(absl::IsAborted(*ended)) << *ended;
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(2, kLength)));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_keyless, 0);
}

TEST_F(SealedTierTest, WhileATenantIsErasedItsPutsAreAborted) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  std::vector<absl::Status> ended;
  TaskScope scope(rig_.sim_executor.get());
  const auto erase = [&]() -> Task<void> {
    const absl::StatusOr<uint64_t> erased = co_await tier().EraseTenant(kOther);
    ended.push_back(erased.status());
  };
  scope.Spawn(erase());
  EXPECT_TRUE(absl::IsAborted(rig_.Put(2, kLength, {}, kOther)));
  scope.Spawn(erase());
  while (rig_.sim_time.Step()) {
  }
  EXPECT_EQ(ended.size(), 2);
  EXPECT_EQ(rig_.Put(2, kLength, {}, kOther), absl::OkStatus());
}

TEST_F(SealedTierTest, AFailedErasureIsSaidAndCanBeRepeated) {
  ASSERT_EQ(rig_.Put(1, kLength, {}, kOther), absl::OkStatus());
  rig_.manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(EraseTenant(kOther).status()));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
  rig_.manifest_media.faults.commit_error = 0;
  EXPECT_EQ(EraseTenant(kOther).status(), absl::OkStatus());
  EXPECT_FALSE(HasSalt(kOther));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1, kLength)));
}

TEST(ClearTierTest, WhereNothingIsSealedNoTenantCanBeErased) {
  DiskRig rig(DiskForm::kSim, {}, "", [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(rig.Run(rig.tier->EraseTenant("a")).status()));
}

}  // namespace
}  // namespace kvtier

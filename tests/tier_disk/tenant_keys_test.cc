#include "tier_disk/cipher/tenant_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

using testing::DiskPayload;
using testing::HoldsDiskBlock;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 4096;

KeyMaterial MaterialOf(uint8_t byte) { return KeyMaterial(std::vector<uint8_t>(32, byte)); }

TenantSalt SaltOf(absl::string_view tenant, uint8_t byte) {
  TenantSalt salt{.tenant = std::string(tenant)};
  std::fill(salt.salt.bytes().begin(), salt.salt.bytes().end(), byte);
  return salt;
}

DiskIdentity SomeDisk() {
  DiskIdentity disk;
  disk.disk.bytes.fill(0x33);
  disk.incarnation.bytes.fill(0x44);
  return disk;
}

OpeningId OpeningOf(uint8_t byte) {
  OpeningId opening;
  opening.bytes.fill(byte);
  return opening;
}

MasterSecret SecretOf(uint8_t master, uint8_t previous = 0) {
  MasterSecret secret{.current = MaterialOf(master)};
  if (previous != 0) secret.previous = MaterialOf(previous);
  return secret;
}

// Opens a disk with the secret `master` and, unless it is 0, `previous`.
TenantKeys OpenedWith(uint8_t master, uint8_t previous = 0, DiskIdentity disk = SomeDisk()) {
  return {std::make_shared<const MasterSecret>(SecretOf(master, previous)), disk, OpeningOf(0x55)};
}

RecordIdentity SomeIdentity() {
  const BlockMeta block = MakeDiskBlock(1, kLength);
  return {.key = block.key,
          .space = block.space,
          .length = kLength,
          .place = {.segment = SegmentId{3}, .generation = 4, .offset = 8192}};
}

// Block 1, sealed by `tenant`.
struct Sealed {
  Sealed(const TenantKeys& keys, absl::string_view tenant) : slot(DiskPayload(1, kLength)) {
    const auto cipher = keys.CipherToSeal(tenant);
    EXPECT_TRUE(cipher.ok()) << cipher.status();
    if (cipher.ok()) proof = *cipher->Seal(SomeIdentity(), slot.bytes(), slot.bytes());
  }
  // Opens the block like a reader, by the id in the record.
  absl::Status Open(const TenantKeys& keys) {
    const auto cipher = keys.CipherToOpen(proof.key_id);
    return cipher.ok() ? OpenWith(*cipher) : cipher.status();
  }
  absl::Status OpenWith(const RecordCipher& cipher) {
    PageBuffer out = DiskPayload(2, kLength);  // Other content, as a slot may have had before.
    const absl::Status opened = cipher.Open(SomeIdentity(), proof, slot.bytes(), out.bytes());
    EXPECT_EQ(opened.ok(), HoldsDiskBlock(1, kLength, &out));
    return opened;
  }

  PageBuffer slot;
  CipherProof proof;
};

TEST(TenantKeysTest, ATenantOpensWhatItSealed) {
  TenantKeys keys = OpenedWith(1);
  ASSERT_EQ(keys.Add(SaltOf("a", 1)), absl::OkStatus());
  EXPECT_EQ(Sealed(keys, "a").Open(keys), absl::OkStatus());
  keys.Audit();
}

// The keys were computed with another implementation, see record_cipher_test.cc.
TEST(TenantKeysTest, MakesTheKeysItAlwaysMade) {
  TenantKeys keys = OpenedWith(0x11);
  ASSERT_EQ(keys.Add(SaltOf("tenant-a", 0x22)), absl::OkStatus());
  EXPECT_EQ(KeyCheckOf(MaterialOf(0x11), SomeDisk()), 0x27b79f5ff3549138);
  const auto cipher = keys.CipherToSeal("tenant-a");
  ASSERT_TRUE(cipher.ok());
  EXPECT_EQ(cipher->key_id(), KeyId{0x8876206880229056});
  RecordIdentity identity = SomeIdentity();
  identity.key = {.hi = 0x0102030405060708, .lo = 0x090a0b0c0d0e0f10};
  identity.space.bytes.fill(6);
  identity.length = 16;
  PageBuffer slot(16);
  std::fill_n(slot.bytes().begin(), 16, std::byte{7});
  const auto proof = cipher->Seal(identity, slot.bytes().first(16), slot.bytes());
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(absl::BytesToHexString({reinterpret_cast<const char*>(slot.bytes().data()), 16}),
            "fcc8ae30afea28177eb35459bbcf0f03");
  EXPECT_EQ(absl::BytesToHexString({reinterpret_cast<const char*>(proof->tag.bytes.data()), 16}),
            "bb5e5c46b60b7467a5bddd3078d6c462");
}

TEST(TenantKeysTest, AnotherTenantsKeyOpensNothing) {
  TenantKeys keys = OpenedWith(1);
  ASSERT_TRUE(keys.Add(SaltOf("a", 1)).ok());
  ASSERT_TRUE(keys.Add(SaltOf("b", 2)).ok());
  Sealed record(keys, "a");
  const RecordCipher other = *keys.CipherToSeal("b");
  EXPECT_TRUE(absl::IsFailedPrecondition(record.OpenWith(other)));
  record.proof.key_id = other.key_id();  // Makes the record claim to be b's.
  EXPECT_TRUE(absl::IsDataLoss(record.OpenWith(other)));
}

// Every ingredient of a key matters: all of these are different keys.
TEST(TenantKeysTest, SecretSaltNameAndDiskEachMakeAnotherKey) {
  DiskIdentity other_disk = SomeDisk();
  other_disk.disk.bytes[0] ^= 1;
  DiskIdentity other_incarnation = SomeDisk();
  other_incarnation.incarnation.bytes[15] ^= 1;
  TenantKeys keys = OpenedWith(1);
  ASSERT_TRUE(keys.Add(SaltOf("a", 1)).ok());
  Sealed record(keys, "a");
  struct Case {
    uint8_t master;
    DiskIdentity disk;
    TenantSalt salt;
  };
  const std::vector<Case> cases = {{2, SomeDisk(), SaltOf("a", 1)},
                                   {1, SomeDisk(), SaltOf("a", 2)},
                                   {1, SomeDisk(), SaltOf("b", 1)},
                                   {1, other_disk, SaltOf("a", 1)},
                                   {1, other_incarnation, SaltOf("a", 1)}};
  const KeyId sealed_under = record.proof.key_id;
  for (const Case& other : cases) {
    TenantKeys other_keys = OpenedWith(other.master, 0, other.disk);
    ASSERT_TRUE(other_keys.Add(other.salt).ok());
    record.proof.key_id = sealed_under;
    EXPECT_TRUE(absl::IsNotFound(record.Open(other_keys)));
    record.proof.key_id = other_keys.CipherToSeal(other.salt.tenant)->key_id();
    EXPECT_TRUE(absl::IsDataLoss(record.Open(other_keys)));
  }
}

TEST(TenantKeysTest, ADestroyedTenantsRecordsNeverOpenAgain) {
  TenantKeys keys = OpenedWith(1);
  ASSERT_TRUE(keys.Add(SaltOf("a", 1)).ok());
  Sealed record(keys, "a");
  ASSERT_EQ(keys.Destroy("a"), absl::OkStatus());
  keys.Audit();
  EXPECT_TRUE(absl::IsNotFound(record.Open(keys)));
  EXPECT_TRUE(absl::IsNotFound(keys.CipherToSeal("a").status()));
  // The secret and the disk are the same, but the tenant comes back with a new salt.
  TenantKeys again = OpenedWith(1);
  ASSERT_TRUE(again.Add(DrawTenantSalt("a")).ok());
  EXPECT_TRUE(absl::IsNotFound(record.Open(again)));
  record.proof.key_id = again.CipherToSeal("a")->key_id();
  EXPECT_TRUE(absl::IsDataLoss(record.Open(again)));
}

TEST(TenantKeysTest, OtherTenantsOutliveADestroyedOne) {
  TenantKeys keys = OpenedWith(1);
  ASSERT_TRUE(keys.Add(SaltOf("a", 1)).ok());
  ASSERT_TRUE(keys.Add(SaltOf("b", 2)).ok());
  Sealed record(keys, "b");
  ASSERT_TRUE(keys.Destroy("a").ok());
  EXPECT_EQ(record.Open(keys), absl::OkStatus());
}

TEST(TenantKeysTest, DestroyingAnUnknownTenantIsNotFound) {
  TenantKeys keys = OpenedWith(1);
  EXPECT_TRUE(absl::IsNotFound(keys.Destroy("a")));
}

TEST(TenantKeysTest, ATenantIsAddedOnce) {
  TenantKeys keys = OpenedWith(1);
  ASSERT_TRUE(keys.Add(SaltOf("a", 1)).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(keys.Add(SaltOf("a", 2))));
  EXPECT_EQ(keys.size(), 1);
}

TEST(TenantKeysTest, ANameThatNoTenantHasIsInvalid) {
  TenantKeys keys = OpenedWith(1);
  EXPECT_TRUE(absl::IsInvalidArgument(keys.Add(SaltOf("", 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(keys.Add(SaltOf(std::string(64, 'a'), 1))));
  EXPECT_EQ(keys.Add(SaltOf(std::string(63, 'a'), 1)), absl::OkStatus());
}

TEST(TenantKeysTest, TooManyTenantsAreRefused) {
  TenantKeys keys = OpenedWith(1);
  for (size_t i = 0; i < kMaxDiskTenants; ++i) {
    ASSERT_TRUE(keys.Add(SaltOf(absl::StrCat("t", i), 1)).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(keys.Add(SaltOf("one-more", 1))));
  keys.Audit();
}

TEST(TenantKeysTest, AfterARotationOldRecordsOpenAndNewOnesUseTheNewSecret) {
  TenantKeys before = OpenedWith(1);
  ASSERT_TRUE(before.Add(SaltOf("a", 1)).ok());
  Sealed old_record(before, "a");
  TenantKeys during = OpenedWith(2, 1);
  ASSERT_TRUE(during.Add(SaltOf("a", 1)).ok());
  EXPECT_EQ(old_record.Open(during), absl::OkStatus());
  Sealed new_record(during, "a");
  TenantKeys after = OpenedWith(2);
  ASSERT_TRUE(after.Add(SaltOf("a", 1)).ok());
  EXPECT_EQ(new_record.Open(after), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(old_record.Open(after)));
  during.Audit();
}

TEST(TenantKeysTest, DestructionReachesTheKeyOfBeforeARotation) {
  TenantKeys before = OpenedWith(1);
  ASSERT_TRUE(before.Add(SaltOf("a", 1)).ok());
  Sealed old_record(before, "a");
  TenantKeys during = OpenedWith(2, 1);
  ASSERT_TRUE(during.Add(SaltOf("a", 1)).ok());
  ASSERT_TRUE(during.Destroy("a").ok());
  EXPECT_TRUE(absl::IsNotFound(old_record.Open(during)));
  during.Audit();
}

TEST(TenantKeysTest, TheKeyCheckTellsWhichSecretADiskHas) {
  const uint64_t of_first = KeyCheckOf(MaterialOf(1), SomeDisk());
  EXPECT_EQ(*MasterOf(of_first, SecretOf(1), SomeDisk()), Master::kCurrent);
  EXPECT_EQ(*MasterOf(of_first, SecretOf(2, 1), SomeDisk()), Master::kPrevious);
  EXPECT_TRUE(absl::IsFailedPrecondition(MasterOf(of_first, SecretOf(2), SomeDisk()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(MasterOf(of_first, SecretOf(2, 3), SomeDisk()).status()));
}

TEST(TenantKeysTest, TheKeyCheckIsAnotherOnEachDisk) {
  DiskIdentity other = SomeDisk();
  other.incarnation.bytes[0] ^= 1;
  EXPECT_NE(KeyCheckOf(MaterialOf(1), SomeDisk()), KeyCheckOf(MaterialOf(1), other));
}

// Random tenants come, seal, leave and come back: a record opens as long as the salt that sealed it
// is the tenant's, and never after.
TEST(TenantKeysModelTest, OpensWhatASaltThatIsHereSealed) {
  testing::SimRandom random(testing::TestSeed());
  TenantKeys keys = OpenedWith(2, 1);
  std::map<std::string, uint64_t> lives;  // Tenant -> number of its salt.
  struct Kept {
    std::string tenant;
    uint64_t life;
    Sealed record;
  };
  std::vector<Kept> records;
  uint64_t last_life = 0;
  for (int step = 0; step < 1000; ++step) {
    const std::string tenant = absl::StrCat("t", random.Below(5));
    const bool here = lives.contains(tenant);
    if (!here) {
      EXPECT_TRUE(absl::IsNotFound(keys.CipherToSeal(tenant).status()));
      ASSERT_TRUE(keys.Add(DrawTenantSalt(tenant)).ok());
      lives[tenant] = ++last_life;
    } else if (random.Below(10) == 0) {
      ASSERT_TRUE(keys.Destroy(tenant).ok());
      lives.erase(tenant);
    } else {
      records.push_back({tenant, lives[tenant], Sealed(keys, tenant)});
    }
    keys.Audit();
    if (records.empty()) continue;
    Kept& kept = records[random.Below(records.size())];
    const auto life = lives.find(kept.tenant);
    const bool opens = life != lives.end() && life->second == kept.life;
    EXPECT_EQ(kept.record.Open(keys).code(),
              opens ? absl::StatusCode::kOk : absl::StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace kvtier

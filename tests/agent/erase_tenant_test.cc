// Tests the erasure of a tenant on one node: its blocks on disks and in memory, held blocks, and
// blocks that wait to be written.
#include "agent/flows/erase_tenant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/checksum.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/numbered_key.h"
#include "tier_disk/cipher/tenant_salt.h"

namespace kvtier {
namespace {

using testing::AgentRig;

class EraseTenantTest : public ::testing::Test {
 protected:
  EraseTenantTest() : rig_({.second_disk = true, .sealed = true}), acme_(rig_.Open(1)) {}
  ~EraseTenantTest() override { rig_.agent->Audit(); }
  absl::StatusOr<TenantEraser::Erased> Erase(const std::string& tenant) {
    return rig_.Run(rig_.agent->flows().tenant_eraser.Erase(tenant));
  }

  // Puts a block on the disk as an earlier agent did that knew the tenant.
  void PutOnDiskOf(const std::string& tenant, uint64_t block) {
    const AlignedBuffer slot(testing::kRigBlockBytes, std::make_shared<std::atomic<size_t>>(0));
    testing::FillBlock(1, testing::TestEngineKey(block), slot.bytes());
    const BlockMeta meta{.key = testing::NumberedKey(block),
                         .length = testing::kRigBlockBytes,
                         .sum = SumPayload(slot.bytes())};
    const absl::Status put = rig_.Run(rig_.agent->disks().set()->Put(meta, slot.bytes(), tenant));
    ASSERT_EQ(put, absl::OkStatus());
  }

  AgentRig rig_;
  const SessionId acme_;
};

TEST_F(EraseTenantTest, ItsBlocksAreGoneFromDisksAndMemoryAndTheOthersStay) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 10), 10);
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 10), 10);
  ASSERT_EQ(rig_.agent->disks().set()->block_count(), 20);
  const auto erased = Erase("acme");
  ASSERT_EQ(erased.status(), absl::OkStatus());
  EXPECT_EQ(erased->disk_blocks, 10);
  EXPECT_EQ(erased->memory_blocks, 10);
  EXPECT_EQ(erased->held_blocks, 0);
  EXPECT_EQ(rig_.Hits(acme_, 100, 10), 0);
  EXPECT_EQ(rig_.Hits(rig_.session, 0, 10), 10);
  EXPECT_FALSE(rig_.manifest_media.rows.contains(TenantSaltRowKey("acme")));
  EXPECT_FALSE(rig_.second_manifest_media.rows.contains(TenantSaltRowKey("acme")));
}

TEST_F(EraseTenantTest, WhatIsLeasedIsSaidAndGoesNextTime) {
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 4), 4);
  const Onboarded onboarded = *rig_.Run(rig_.Onboard(acme_, 100, 4, absl::Milliseconds(100)));
  ASSERT_EQ(onboarded.blocks.size(), 4);
  EXPECT_EQ(Erase("acme")->held_blocks, 4);
  std::vector<LeaseId> leases;
  for (const auto& block : onboarded.blocks) leases.push_back(block.lease);
  rig_.agent->sessions().leases().Release(acme_, leases);
  EXPECT_EQ(Erase("acme")->held_blocks, 0);
  EXPECT_EQ(rig_.Hits(acme_, 100, 4), 0);
}

TEST_F(EraseTenantTest, WhatWaitsToBeWrittenIsNotWrittenUnderTheNextKey) {
  rig_.disk.Stall();
  rig_.second.Stall();
  ASSERT_EQ(rig_.Put(acme_, 100, 8), 8);
  const auto erasing = rig_.Spawn(rig_.agent->flows().tenant_eraser.Erase("acme"));
  rig_.disk.Resume();
  rig_.second.Resume();
  while (!erasing->has_value() || rig_.agent->flows().offloader->pending() > 0) {
    ASSERT_TRUE(rig_.time.Step());
  }
  EXPECT_EQ((*erasing)->status(), absl::OkStatus());
  EXPECT_EQ(rig_.agent->disks().set()->block_count(), 0);
}

// A tenant's secret may be removed, for example, while the tenant's blocks are on a disk.
TEST_F(EraseTenantTest, ATenantThatIsNotConfiguredAnyMoreCanBeErased) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 4), 4);
  PutOnDiskOf("left", 100);
  EXPECT_EQ(Erase("left")->disk_blocks, 1);
  EXPECT_EQ(rig_.Hits(rig_.session, 0, 4), 4);
  EXPECT_TRUE(absl::IsNotFound(Erase("left").status())) << "no disk has a key of it";
}

// An erase that failed half-way may have left the row behind.
TEST_F(EraseTenantTest, ATenantOfAFailedEraseIsStillKnown) {
  PutOnDiskOf("left", 100);
  rig_.manifest_media.faults.commit_error = 1;
  rig_.second_manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(Erase("left").status()));
  rig_.manifest_media.faults.commit_error = 0;
  rig_.second_manifest_media.faults.commit_error = 0;
  EXPECT_EQ(Erase("left").status(), absl::OkStatus());
}

TEST_F(EraseTenantTest, AnUnknownNameIsSaidToBeUnknown) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 4), 4);
  const absl::Status status = Erase("acne").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(),
            "tenant: 'acne' is not configured on this node, and no disk of it has a key of that "
            "name; nothing was dropped");
  EXPECT_TRUE(absl::IsInvalidArgument(Erase("").status()));
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), 4);
}

TEST_F(EraseTenantTest, AFailedEraseSaysWhatWasDone) {
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 4), 4);
  rig_.manifest_media.faults.commit_error = 1;
  const std::string text(Erase("acme").status().message());
  EXPECT_THAT(text, ::testing::StartsWith("tenant 'acme' is not erased: "));
  EXPECT_THAT(text, ::testing::HasSubstr("but its key may be back after a restart"));
  EXPECT_THAT(text, ::testing::HasSubstr("done on 1 disks: "));
  EXPECT_THAT(text, ::testing::HasSubstr(" and 4 in memory dropped, 0 still held"));
}

TEST_F(EraseTenantTest, AFailedManifestIsAnErrorAndTheBlocksAreGoneAllTheSame) {
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 4), 4);
  rig_.manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(Erase("acme").status()));
  EXPECT_EQ(rig_.Hits(acme_, 100, 4), 0);
  rig_.manifest_media.faults.commit_error = 0;
  EXPECT_EQ(Erase("acme").status(), absl::OkStatus());
}

// The pool belongs to one tenant, so it has no block of another tenant that is erased.
TEST(EraseTenantPoolTest, AnotherTenantsPoolIsLeftAlone) {
  AgentRig rig({.gpu_slots = 4, .gpu_tenants = {"default"}, .sealed = true});
  ASSERT_EQ(rig.Put(rig.session, 1, 2), 2);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 1, 2, absl::Seconds(1), Tier::kGpu))->blocks.size(),
            2);
  rig.agent->sessions().leases().ReleaseAll(rig.session);
  rig.Pass(absl::Milliseconds(1));
  const SessionId acme = rig.Open(1);
  ASSERT_EQ(rig.PutOnDisk(acme, 100, 2), 2);
  EXPECT_TRUE(absl::IsNotFound(rig.Run(rig.agent->flows().tenant_eraser.Erase("nobody")).status()));
  EXPECT_EQ(rig.Run(rig.agent->flows().tenant_eraser.Erase("acme"))->memory_blocks, 2);
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kGpu), 2);
  const auto own = rig.Run(rig.agent->flows().tenant_eraser.Erase("default"));
  EXPECT_EQ(own->memory_blocks, 4) << "each in two tiers";
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kGpu), 0);
}

TEST(EraseTenantPoolTest, WhatIsLeasedInThePoolIsSaid) {
  AgentRig rig({.gpu_slots = 4, .sealed = true});
  ASSERT_EQ(rig.Put(rig.session, 1, 2), 2);
  ASSERT_EQ(rig.Run(rig.Onboard(rig.session, 1, 2, absl::Seconds(1), Tier::kGpu))->blocks.size(),
            2);
  EXPECT_EQ(rig.Run(rig.agent->flows().tenant_eraser.Erase("default"))->held_blocks, 2);
  rig.agent->sessions().leases().ReleaseAll(rig.session);
  EXPECT_EQ(rig.Run(rig.agent->flows().tenant_eraser.Erase("default"))->held_blocks, 0);
}

// Regression: a disk read that was in progress during the erase ended well, and its block was a hit
// again. (With sealed payloads this happened only to a block that was just being verified.)
TEST(EraseTenantClearTest, WhatIsReadFromADiskMeanwhileDoesNotArrive) {
  AgentRig clear;
  ASSERT_EQ(clear.PutOnDisk(clear.session, 100, 1), 1);
  ASSERT_EQ(clear.EvictHost(), 1);
  clear.disk.Stall();
  const auto onboard = clear.Spawn(clear.Onboard(clear.session, 100, 1, absl::Seconds(5)));
  clear.Pass(absl::Milliseconds(1));
  EXPECT_FALSE(clear.Run(clear.agent->flows().tenant_eraser.Erase("default")).ok());
  clear.disk.Resume();
  while (!onboard->has_value()) ASSERT_TRUE(clear.time.Step());
  EXPECT_EQ((*onboard)->value().blocks.size(), 0);
  EXPECT_EQ(clear.agent->index().blocks_in(Tier::kHost), 0);
}

TEST(EraseTenantClearTest, WithoutEncryptionOrADiskItIsRefused) {
  AgentRig clear;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      clear.Run(clear.agent->flows().tenant_eraser.Erase("acme")).status()));
  AgentRig none({.disk = false});
  EXPECT_TRUE(absl::IsFailedPrecondition(
      none.Run(none.agent->flows().tenant_eraser.Erase("acme")).status()));
}

}  // namespace
}  // namespace kvtier

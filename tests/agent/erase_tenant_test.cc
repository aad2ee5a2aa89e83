// Erasing a tenant on one node: disks, memory, what is held, and what waits to be written.
#include "agent/erase_tenant.h"

#include <gtest/gtest.h>

#include "tests/agent/agent_rig.h"
#include "tier_disk/cipher/tenant_salt.h"

namespace kvtier {
namespace {

using testing::AgentRig;

class EraseTenantTest : public ::testing::Test {
 protected:
  EraseTenantTest() : rig_({.second_disk = true, .sealed = true}), acme_(rig_.Open(1)) {}
  ~EraseTenantTest() override { rig_.agent->Audit(); }
  absl::StatusOr<TenantEraser::Erased> Erase(const std::string& tenant) {
    return rig_.Run(rig_.agent->tenant_eraser().Erase(tenant));
  }

  AgentRig rig_;
  const SessionId acme_;
};

TEST_F(EraseTenantTest, ItsBlocksAreGoneFromDisksAndMemoryAndTheOthersStay) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 10), 10);
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 10), 10);
  ASSERT_EQ(rig_.agent->disks()->block_count(), 20);
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
  rig_.agent->leases().Release(acme_, leases);
  EXPECT_EQ(Erase("acme")->held_blocks, 0);
  EXPECT_EQ(rig_.Hits(acme_, 100, 4), 0);
}

TEST_F(EraseTenantTest, WhatWaitsToBeWrittenIsNotWrittenUnderTheNextKey) {
  rig_.disk.Stall();
  rig_.second.Stall();
  ASSERT_EQ(rig_.Put(acme_, 100, 12), 12);
  const auto erasing = rig_.Spawn(rig_.agent->tenant_eraser().Erase("acme"));
  rig_.disk.Resume();
  rig_.second.Resume();
  while (!erasing->has_value() || rig_.agent->offloader()->pending() > 0) {
    ASSERT_TRUE(rig_.time.Step());
  }
  EXPECT_EQ((*erasing)->status(), absl::OkStatus());
  EXPECT_EQ(rig_.agent->disks()->block_count(), 0);
}

TEST_F(EraseTenantTest, ATenantThatIsNotConfiguredAnyMoreCanBeErased) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 0, 4), 4);
  EXPECT_EQ(Erase("left")->disk_blocks, 0);
  EXPECT_EQ(rig_.Hits(rig_.session, 0, 4), 4);
}

TEST_F(EraseTenantTest, AFailedManifestIsAnErrorAndTheBlocksAreGoneAllTheSame) {
  ASSERT_EQ(rig_.PutOnDisk(acme_, 100, 4), 4);
  rig_.manifest_media.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(Erase("acme").status()));
  EXPECT_EQ(rig_.Hits(acme_, 100, 4), 0);
  rig_.manifest_media.faults.commit_error = 0;
  EXPECT_EQ(Erase("acme").status(), absl::OkStatus());
}

TEST(EraseTenantClearTest, WithoutEncryptionOrADiskItIsRefused) {
  AgentRig clear;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(clear.Run(clear.agent->tenant_eraser().Erase("acme")).status()));
  AgentRig none({.disk = false});
  EXPECT_TRUE(
      absl::IsFailedPrecondition(none.Run(none.agent->tenant_eraser().Erase("acme")).status()));
}

}  // namespace
}  // namespace kvtier
